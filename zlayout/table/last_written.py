"""When writers other than zlayout last wrote to each partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zlayout.table.state import Int64


def last_written(times: Int64, partition: NDArray[np.integer], partitions: int) -> Int64:
    """Return the time of the last write to each partition.

    Args:
        times: int64[N], when each file was written, in milliseconds since 1970; 0 if that is unknown, or if zlayout
            wrote the file.
        partition: [N], the index of the partition of each file.
        partitions: The number P of partitions.

    Returns:
        int64[P]; 0 for a partition without known writes.
    """
    latest = np.zeros(partitions, np.int64)
    np.maximum.at(latest, partition, times)
    return latest
