"""What all reports state about a study: the verdict, the changed queries, and the share of the workload it used.

`to_document` is the whole study as JSON values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from math import inf, isfinite, log
from typing import Any

import numpy as np

from zlayout.advisor.model import Bools, Choice, Costs, Study, TableQuery, Use
from zlayout.errors import Diagnostic
from zlayout.predicate.model import conjunction
from zlayout.predicate.parse import to_sql
from zlayout.report.words import printable, share
from zlayout.spec.model import Layout, cut_texts
from zlayout.spec.yaml import dump
from zlayout.table.partition import PartitionField
from zlayout.text import first_of, json_text, plural

# A query counts as faster or slower if the bytes that it reads change by more than this factor.
MIN_FACTOR = 1.05
# If a study used a smaller share of the weight of the queries on the table, its reports begin with a warning.
MIN_SHARE = 0.5
_PARTS = {
    Use.IGNORED: ("has only conditions that cannot be used", "have only conditions that cannot be used"),
    Use.READS_ALL: ("reads the whole table in any layout", "read the whole table in any layout"),
    Use.UNREAD: ("cannot be parsed", "cannot be parsed"),
}
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Change:
    """The costs of one query now and in one layout.

    Attributes:
        location: The location of the query in its workload file.
        text: The query, or its conditions if only these are known.
        weight: The weight of the query.
        files, bytes: The number and the size of the files that it opens now, in the layout, and at the floor.
    """

    location: str
    text: str
    weight: float
    files: tuple[float, float, float]
    bytes: tuple[float, float, float]

    @property
    def factor(self) -> float:
        """The bytes that the query reads now, divided by those in the layout. Above 1 the query is faster."""
        now, then, _ = self.bytes
        return now / then if then else inf if now else 1.0

    @property
    def verdict(self) -> str:
        """`faster`, `slower` or `same`."""
        return "faster" if self.factor > MIN_FACTOR else "slower" if self.factor < 1 / MIN_FACTOR else "same"


def changes(study: Study, then: Costs) -> tuple[Change, ...]:
    """Return the changes of all queries: the faster, the slower, then the others, in each group the largest first."""
    found = [
        Change(
            query.location,
            query_text(query),
            query.weight,
            (float(study.now.files[i]), float(then.files[i]), float(study.floor.files[i])),
            (float(study.now.bytes[i]), float(then.bytes[i]), float(study.floor.bytes[i])),
        )
        for i, query in enumerate(study.queries)
    ]
    return tuple(sorted(found, key=lambda c: (("faster", "slower", "same").index(c.verdict), -abs(_log(c.factor)))))


def query_text(query: TableQuery) -> str:
    """Return the SQL of a query in one line, or its conditions on the table if the SQL is not known."""
    text = " ".join(query.query.text.split())
    scans = zip_longest(query.predicates, query.of_partitions)
    conditions = (conjunction(part for part in scan if part is not None) for scan in scans)
    return text or "WHERE " + "; ".join(to_sql(condition) for condition in conditions if condition is not None)


def shorten(text: str, length: int) -> str:
    """Return a query shortened to `length` characters. The conditions are kept rather than the output columns."""
    if len(text) <= length:
        return text
    where = _WHERE.search(text)
    if where is not None and where.start() > length // 3:
        text = f"{text.split(' ', 1)[0]} ... {text[where.start() :]}"
    return text if len(text) <= length else text[: max(length - 3, 0)] + "..."


def _log(factor: float) -> float:
    return log(factor) if 0 < factor < inf else inf


def shown_choice(study: Study) -> Choice | None:
    """Return the layout whose cost is shown for each query: the recommended one, else the one that reads least."""
    return study.best or min(study.choices, key=lambda c: c.costs.mean_bytes, default=None)


def verdict(study: Study) -> str:
    """Return the recommendation in one sentence."""
    shown = shown_choice(study)
    if shown is None:
        return "No column of the workload can be a z-order column."
    now, then, declared = study.now.mean_bytes, shown.costs.mean_bytes, study.declared
    if study.best is None:
        if not now:
            return "No layout is better than the present one: the queries read no file now."
        if declared is None or declared.costs.mean_bytes >= then:
            part = f"the best one reads {share(then / now)} of the bytes read now"
            return f"No layout is much better than the present one: {part}."
    if declared is not None and declared.costs.mean_bytes <= then * MIN_FACTOR:
        part = f"{share(declared.costs.mean_bytes / now)} of the bytes read now"
        return f"No layout is better than the declared one, which reads {part} after it is applied."
    partitions = f" in partitions by {_fields(shown)}" if shown.partition_by else ""
    sentence = f"{shown.layout.curve} over {_names(shown)}{partitions} reads {share(then / now)} of the bytes read now"
    if (whole := whole_workload(study, shown.costs)) is None:
        return f"{sentence}."
    return f"{sentence} by the queries that are simulated, and {share(whole)} if the other queries read every file."


def _names(choice: Choice) -> str:
    names = [c.name for c in choice.layout.columns]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _fields(choice: Choice) -> str:
    return ", ".join(map(str, choice.partition_by or ()))


def zorder_block(choice: Choice) -> str:
    """Return a layout as YAML for a layout spec, with the engine, because the spec may declare another one."""
    style = False if choice.layout.cuts else None  # a list of cuts has a line for each
    return _block(choice.layout, choice.partition_by, engine=True, default_flow_style=style, width=110)


def zorder_line(layout: Layout) -> str:
    """Return the columns, the curve and the cuts of a layout as YAML for a layout spec, on one line."""
    return _block(layout, None, engine=False, default_flow_style=True, width=10**6).strip()[1:-1]


def _block(layout: Layout, fields: tuple[PartitionField, ...] | None, *, engine: bool, **style: Any) -> str:
    columns = [c.name if c.weight == 1.0 else {"name": c.name, "weight": _number(c.weight)} for c in layout.columns]
    body: dict[str, Any] = {"zorder": {"columns": columns, "curve": layout.curve}}
    body["zorder"] |= {"cuts": cut_texts(layout.cuts)} if layout.cuts else {}
    body |= {"engine": layout.engine} if engine else {}
    body = {"partition_by": [str(field) for field in fields], **body} if fields else body
    text = dump(body, **style)
    if printable(text.replace("\n", "")) != text.replace("\n", ""):
        text = dump(body, allow_unicode=False, **style)  # with escapes for unprintable characters
    return text


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def column_notes(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the name of each column of the workload and the text that reports show for it."""
    for use in study.columns:
        notes = [f"in {share(use.share)} of the workload", _values(use.distinct, study.sampled)]
        if use.chosen:
            notes.append("chosen")
        if use.follows is not None:
            name, correlation = use.follows
            notes.append(f"correlated with {name} (rank correlation {correlation:.2f}): one of them is enough")
        if use.partition_key:
            notes.append("few values, queried by equality: a candidate for partition_by")
        yield use.name, ", ".join(notes)


def _values(distinct: int, sampled: int) -> str:
    # If more than a third of the sampled values are distinct, the table probably has more distinct values.
    return f"{'more than ' if distinct * 3 > sampled else ''}{plural(distinct, 'value')}"


def warning(study: Study) -> Diagnostic | None:
    """Return ZL430 if the study used less than MIN_SHARE of the weight of the queries on the table; else None."""
    used = study.coverage.share(Use.USED)
    if used >= MIN_SHARE:
        return None
    rest = ", ".join(f"{share(part)} {text}" for part, text in _shares(study))
    return Diagnostic(
        "ZL430",
        f"the result is based on {share(used)} of the weight of the queries on {study.table}; {rest}",
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
            text = f"{plural(count, 'query')} {one if count == 1 else many}"
            yield f"{text} ({share(study.coverage.share(use))} of the weight)"


def whole_workload(study: Study, then: Costs) -> float | None:
    """Return the bytes that all queries on the table read in a layout, divided by those that they read now.

    Args:
        study: The study.
        then: The costs of the simulated queries in the layout. Other queries are assumed to read every file.

    Returns:
        The quotient; None if all queries are simulated, or if they read nothing now.
    """
    used = study.coverage.share(Use.USED)
    others = (1 - used) * study.bytes
    now = used * study.now.mean_bytes + others
    return (used * then.mean_bytes + others) / now if used < 1 and now else None


def remarks(study: Study) -> Iterator[str]:
    """Yield what the result assumes about the queries, and which of them have no influence on it, as sentences."""
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
    nothing = study.now.bytes == 0
    if nothing.any():
        named = [
            f"{shorten(query_text(query), 60)} ({query.location})"
            for query, opens_none in zip(study.queries, nothing, strict=True)
            if opens_none
        ]
        who = f"{plural(len(named), 'query')} ({_weight(study, nothing)}) {'opens' if len(named) == 1 else 'open'}"
        yield f"{who} no file: the metadata shows that no row matches. Check the constants of {first_of(named, 3)}."
    same = ~nothing & np.all([choice.costs.bytes == study.now.bytes for choice in study.choices], axis=0)
    if study.choices and same.any():
        who = f"{plural(int(same.sum()), 'query')} ({_weight(study, same)}) {'reads' if same.sum() == 1 else 'read'}"
        yield f"{who} the same in each layout, and {'decides' if same.sum() == 1 else 'decide'} nothing."


def _weight(study: Study, some: Bools) -> str:
    """The share of the weight of the queries with conditions on the table."""
    return f"{share(study.now.weights[some].sum() / study.now.weights.sum())} of the weight"


# A study as JSON.


FORMAT_VERSION = 1


def to_json(study: Study) -> str:
    """Return `to_document` as JSON text."""
    return json_text(to_document(study)) + "\n"


def to_document(study: Study) -> dict[str, Any]:
    """Return a study as JSON values. Costs are weighted means over the queries; below `queries`, those of one query."""
    shown = shown_choice(study)
    return {
        "format_version": FORMAT_VERSION,
        "table": study.table,
        "format": study.format,
        "version": study.version,
        "files": study.files,
        "bytes": study.bytes,
        "rows": study.rows,
        "sample": {"rows": study.sampled, "seed": study.seed},
        "workload": {
            "files": list(study.workload),
            "queries": study.statements,
            "used": len(study.queries),
            "reading_all": study.coverage.queries.get(Use.READS_ALL, 0),
            "coverage": {
                use.value: {"queries": study.coverage.queries.get(use, 0), "share": study.coverage.share(use)}
                for use in Use
            },
            "assumed_time": study.assumed_time.isoformat() + "Z" if study.assumed_time else None,
            "unused": [
                {
                    "query": u.query.location,
                    "text": " ".join(u.query.text.split()),
                    "weight": u.query.weight,
                    "condition": u.text,
                    "reason": u.reason,
                }
                for u in study.unused
            ],
            "as_ranges": [{"query": i.query.location, "condition": i.text, "as": i.as_text} for i in study.inverted],
        },
        "warning": _diagnostic(warning(study)),
        "verdict": verdict(study),
        "notes": [*remarks(study), *study.notes],
        "now": _costs(study.now),
        "floor": _costs(study.floor),
        "declared": _choice(study.declared) if study.declared else None,
        "layouts": [_choice(c) | {"best": c is study.best} for c in study.choices],
        "queries": [
            {
                "query": c.location,
                "text": c.text,
                "weight": c.weight,
                "verdict": c.verdict,
                "files": dict(zip(("now", "then", "floor"), c.files, strict=True)),
                "bytes": dict(zip(("now", "then", "floor"), c.bytes, strict=True)),
                "factor": c.factor if isfinite(c.factor) else None,
            }
            for c in (changes(study, shown.costs) if shown else ())
        ],
        "columns": [
            {
                "name": c.name,
                "share": c.share,
                "distinct_in_sample": c.distinct,
                "chosen": c.chosen,
                "follows": {"column": c.follows[0], "rank_correlation": c.follows[1]} if c.follows else None,
                "partition_key": c.partition_key,
            }
            for c in study.columns
        ],
        "steps": [_choice(step) for step in study.steps],
        "search": {"layouts": study.tried, "seconds": round(study.seconds, 2), "time_limit_reached": study.interrupted},
        "zorder": zorder_block(study.best) if study.best else None,
    }


def _diagnostic(found: Diagnostic | None) -> dict[str, str] | None:
    return None if found is None else {"code": found.code, "message": found.message, "hint": found.hint}


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "columns": [{"name": c.name, "weight": c.weight} for c in choice.layout.columns],
        "curve": choice.layout.curve,
        **({"partition_by": [str(field) for field in choice.partition_by]} if choice.partition_by else {}),
        **({"cuts": cut_texts(choice.layout.cuts)} if choice.layout.cuts else {}),
        "files": choice.files,
        **_costs(choice.costs),
        "touched": dict(choice.touched),
    }


def _costs(costs: Costs) -> dict[str, float]:
    return {"files_opened": costs.mean_files, "bytes_read": costs.mean_bytes}
