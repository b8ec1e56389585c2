"""Workloads: queries with weights and the predicates of their scans, from SQL, CSV and Spark event log files."""

from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Unused, Workload

__all__ = ["Query", "Scan", "Unused", "Workload", "read_workload"]
