"""Workloads: queries with weights and the predicates of their scans, from SQL, CSV and Spark event log files."""
