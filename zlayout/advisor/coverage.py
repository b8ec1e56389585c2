"""State how much of a workload the advice rests on, and which queries it does not know."""

from __future__ import annotations

from collections.abc import Iterator

from zlayout.advisor.model import Costs, Study, Use
from zlayout.errors import Diagnostic

# Below this share of the weight the reports say first that the advice rests on little of the workload.
MIN_SHARE = 0.5
_PARTS = {
    Use.IGNORED: ("has only conditions that cannot be used", "have only conditions that cannot be used"),
    Use.READS_ALL: ("reads the whole table in any layout", "read the whole table in any layout"),
    Use.UNREAD: ("cannot be parsed", "cannot be parsed"),
}


def warning(study: Study) -> Diagnostic | None:
    """ZL430, if the advice rests on less than half of the weight of the queries on the table; else None."""
    used = study.coverage.share(Use.USED)
    if used >= MIN_SHARE:
        return None
    rest = ", ".join(f"{share:.0%} {text}" for share, text in _shares(study))
    return Diagnostic(
        "ZL430",
        f"the result is based on {used:.0%} of the weight of the queries on {study.table}; {rest}",
        "warning",
        "see the unused conditions below, and write them as comparisons of columns with constants",
    )


def _shares(study: Study) -> Iterator[tuple[float, str]]:
    for use, (one, _) in _PARTS.items():
        if study.coverage.queries.get(use):
            yield study.coverage.share(use), one


def other_queries(study: Study) -> Iterator[str]:
    """Yield one sentence for each class of queries on the table that is not simulated."""
    for use, (one, many) in _PARTS.items():
        if count := study.coverage.queries.get(use, 0):
            text = f"1 query {one}" if count == 1 else f"{count:,} queries {many}"
            yield f"{text} ({study.coverage.share(use):.0%} of the weight)"


def whole_workload(study: Study, then: Costs) -> float | None:
    """Bytes that all queries on the table read in a layout, divided by what they read now.

    The queries that are not simulated count as if they read every file, now and then. None if all are simulated, or
    nothing is read.
    """
    used = study.coverage.share(Use.USED)
    others = (1 - used) * study.bytes
    now = used * study.now.mean_bytes + others
    return (used * then.mean_bytes + others) / now if used < 1 and now else None


def assumptions(study: Study) -> Iterator[str]:
    """Yield what the result assumes about conditions."""
    if study.assumed_time is not None:
        yield f"The current time in the queries is {study.assumed_time:%Y-%m-%d %H:%M:%S} UTC, the time of this run."
    if study.inverted:
        first, count = study.inverted[0], len(study.inverted)
        one = "1 condition on a function of a column is used as a condition on the column:"
        many = f"{count:,} conditions on functions of columns are used as conditions on the columns, for example"
        yield (
            f"{one if count == 1 else many} {first.text} as {first.as_text}. An engine that does not "
            "convert it reads more; a query with the second form can skip files in every engine."
        )
