"""All deliberate defects. Each must be found by the schedules that find nothing in the product."""

from __future__ import annotations

from model import mutants_delta

MUTANTS = mutants_delta.MUTANTS
