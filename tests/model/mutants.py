"""All deliberate defects. Each must be found by the schedules that find nothing in the product."""

from model import mutants_clustering, mutants_delta, mutants_gate, mutants_iceberg, mutants_rebase

MUTANTS = (
    *mutants_delta.MUTANTS,
    *mutants_rebase.MUTANTS,
    *mutants_clustering.MUTANTS,
    *mutants_gate.mutants("delta"),
    *mutants_iceberg.MUTANTS,
    *mutants_gate.mutants("iceberg"),
)
