"""Traces and metrics of a command for OpenTelemetry. Nothing of OpenTelemetry is imported unless they are wanted."""
