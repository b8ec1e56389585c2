"""What is asked of the tables: predicates per table, with weights, from `.sql` and `.csv` files."""

from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Unused, Workload

__all__ = ["Query", "Scan", "Unused", "Workload", "read_workload"]
