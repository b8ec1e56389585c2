"""The limits of single requests to catalogs. `zlayout.app.concurrent_reads` limits the reading of a whole table."""

CONNECT_SECONDS = 10
READ_SECONDS = 20
ATTEMPTS = 2
