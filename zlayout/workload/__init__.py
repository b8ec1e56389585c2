"""Workloads: the scans of queries with predicates and weights, from `.sql` and `.csv` files and Spark event logs."""

from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Unused, Workload

__all__ = ["Query", "Scan", "Unused", "Workload", "read_workload"]
