"""How often pyiceberg repeats a request to an S3 store. pyiceberg imports the class by its name."""

from __future__ import annotations

from pyarrow.fs import AwsStandardS3RetryStrategy

from zlayout.formats.storage import S3_READ_ATTEMPTS


class S3Retries(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """As often as Delta tables are read: Arrow's default of 3 attempts is over within 3 seconds."""

    def __init__(self) -> None:
        super().__init__(max_attempts=S3_READ_ATTEMPTS)
