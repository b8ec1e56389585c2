"""Traces and metrics of a command for OpenTelemetry, whose packages are imported only if a signal is requested."""
