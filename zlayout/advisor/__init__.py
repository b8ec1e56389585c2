"""Simulate layouts for the queries of a workload, and find the best one. See docs/choosing-columns.md."""
