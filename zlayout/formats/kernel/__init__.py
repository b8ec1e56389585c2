"""What every commit does, whatever the format."""
