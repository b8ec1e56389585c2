"""Write a study as JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from zlayout.advisor import compare
from zlayout.advisor.model import Choice, Costs, Study, Use
from zlayout.errors import Diagnostic
from zlayout.message_text import json_text
from zlayout.spec.layout import cut_texts

FORMAT_VERSION = 1


def to_json(study: Study) -> str:
    """Return `to_document` as JSON text."""
    return json_text(to_document(study)) + "\n"


def to_document(study: Study) -> dict[str, Any]:
    """Return a study as JSON values. Costs are weighted means over the queries; below `queries`, those of one query."""
    shown = compare.shown_choice(study)
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
        "warning": _diagnostic(compare.warning(study)),
        "verdict": compare.verdict(study),
        "notes": [*compare.assumptions(study), *study.notes],
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
            for c in (compare.changes(study, shown.costs) if shown else ())
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
        "zorder": compare.zorder_block(study.best) if study.best else None,
    }


def _diagnostic(found: Diagnostic | None) -> dict[str, str] | None:
    return None if found is None else {"code": found.code, "message": found.message, "hint": found.hint}


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "columns": [{"name": c.name, "weight": c.weight} for c in choice.layout.columns],
        "curve": choice.layout.curve,
        **({"cuts": cut_texts(choice.layout.cuts)} if choice.layout.cuts else {}),
        "files": choice.files,
        **_costs(choice.costs),
        "touched": dict(choice.touched),
    }


def _costs(costs: Costs) -> dict[str, float]:
    return {"files_opened": costs.mean_files, "bytes_read": costs.mean_bytes}
