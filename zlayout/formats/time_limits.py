"""The limits on a single request to a catalog. `zlayout.app.concurrent_reads` limits the reading of a whole table."""

CONNECT_SECONDS = 10
READ_SECONDS = 20
ATTEMPTS = 2
