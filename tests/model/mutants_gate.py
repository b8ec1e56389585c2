"""Deliberate defects of the gate, which is the same for both formats: what it lets through breaks either table."""

from typing import Any

from model import spark_job
from model.mutant import Mutant, patched
from model.worlds import Scenario

from zlayout.rewrite import gate


def nothing_required(*_: Any) -> None:
    pass


def xor(groups: Any) -> gate.Content:
    rows = [row for group in groups.values() for row in group]
    result = 0
    for row in rows:
        result ^= spark_job.hash_of(row)
    return gate.Content(len(rows), result)


def first_content(groups: Any) -> gate.Content:
    """Only counts rows."""
    return gate.Content(sum(map(len, groups.values())), 0)


def groups_as_one(groups: Any) -> gate.Content:
    """The sum of hashes that do not know their group."""
    rows = [row for group in groups.values() for row in group]
    return gate.Content(len(rows), sum(map(spark_job.hash_of, rows)))


def mutants(format: str) -> tuple[Mutant, ...]:
    jobs = Scenario(format, ("append",), rewriters=1, faults=1, jobs_fail=True)
    mixed = Scenario(format, ("update",), rewriters=1, faults=1, jobs_fail=True)
    plain = Scenario(format, ("append",), rewriters=1, faults=1, jobs_fail=True, lineage=False)
    return (
        Mutant(
            "no-gate",
            "commits whatever the job has written",
            jobs,
            {"rows lost", "rows doubled", "rows changed"},
            patched((gate.Gate, "check", nothing_required), (gate, "require_rows", nothing_required)),
        ),
        Mutant(
            "xor-gate",
            "combines the hashes of rows by XOR, which hides a pair",
            plain,
            {"rows changed"},
            patched((spark_job, "content", xor)),
        ),
        Mutant(
            "counting-gate",
            "compares numbers of rows only",
            jobs,
            {"rows changed"},
            patched((spark_job, "content", first_content)),
        ),
        Mutant(
            "groups-as-one",
            "compares the rows of all groups together, though one of them may be committed without the other",
            mixed,
            {"rows lost", "rows doubled", "rows changed"},
            patched((spark_job, "content", groups_as_one)),
        ),
    )
