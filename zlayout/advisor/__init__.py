"""Simulate layouts for the queries of a workload, and search for the best one. See docs/choosing-columns.md."""
