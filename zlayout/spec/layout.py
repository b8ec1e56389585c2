"""The layout settings: `Layout` with its layout id, and the cuts of curve `workload`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.message_text import quote_value
from zlayout.predicate.literals import literal
from zlayout.predicate.model import Compare
from zlayout.predicate.parse import parse_where, to_sql

CURVES = ("kd", "zorder", "hilbert", "linear")
# A kd tree below declared cuts. It is not one of CURVES, because a search cannot try it without cuts.
WORKLOAD_CURVE = "workload"
_WEIGHTED_CURVES = ("kd", "zorder", WORKLOAD_CURVE)
_CURVES_WITH_RANGE_IDS = ("zorder", "hilbert")
# Part of the layout id. Increase it if the same settings would produce other files.
ALGORITHM_VERSION = 1
# The key of the column ids in a layout record. It is not a layout setting, and not part of the layout id.
COLUMN_IDS = "column_ids"
# The only setting in the layout record of a file that the format itself clustered: the clustering columns.
CLUSTERED_BY = "clustered_by"
CLUSTERING_CURVE = "hilbert"  # the curve of liquid clustering
# A target size counts as unchanged if it differs from the recorded one by at most this share of the recorded one. File
# sizes vary as much within one rewrite.
SIMILAR_SIZE = 0.25
_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class ZorderColumn:
    """A z-order column.

    Attributes:
        name: The name of the column, dotted if it is nested.
        weight: How often queries filter on it, relative to the other z-order columns.
        id: The column id in the table (`zlayout.table.state.Column`); empty if it is unknown.
    """

    name: str
    weight: float = 1.0
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """All settings that determine which row goes to which file, once the partitioning is known.

    The partitioning is not included, because the table records how each file is partitioned.

    Attributes:
        columns: The z-order columns; empty for compaction alone, which keeps the order of the rows.
        curve: The declared curve.
        range_ids: The number of ranges into which the values of each column are divided.
        noise: Whether rows with equal keys are distributed over several files.
        target_size: The size of a file in bytes.
        sort_within: Whether the rows inside each file are sorted along the curve.
        engine: `zlayout` or `native`.
        cuts: The declared cuts of curve `workload`: comparisons of z-order columns by `<` or `<=`, in the order in
            which they are tried.
    """

    columns: tuple[ZorderColumn, ...]
    curve: str
    range_ids: int
    noise: bool
    target_size: int
    sort_within: bool
    engine: str
    cuts: tuple[Compare, ...] = ()

    @property
    def orders(self) -> bool:
        """Whether rewrites order the rows. If not, they only combine small files and remove deleted rows."""
        return bool(self.columns)

    @property
    def effective_curve(self) -> str:
        """The curve that influences the result.

        It is kd for a single column without cuts and with engine zlayout, else the declared curve.
        """
        is_sort = len(self.columns) == 1 and self.engine == "zlayout" and not self.cuts
        return "kd" if is_sort else self.curve

    @property
    def uses_range_ids(self) -> bool:
        """Whether range ids influence the result. Curves without range ids cut at values."""
        return self.effective_curve in _CURVES_WITH_RANGE_IDS

    @property
    def weights(self) -> dict[str, float]:
        """The effective weight of each column: 1 for hilbert, linear, engine native and a single column."""
        weighs = self.engine == "zlayout" and self.curve in _WEIGHTED_CURVES and len(self.columns) > 1
        return {c.name: c.weight if weighs else 1.0 for c in self.columns}

    def settings(self) -> dict[str, Any]:
        """Return the layout settings as JSON values by dotted name, with range ids only if the curve uses them."""
        if not self.orders:
            return {"files.target_size": self.target_size, "engine": self.engine}
        range_ids = {"zorder.range_ids": self.range_ids} if self.curve in _CURVES_WITH_RANGE_IDS else {}
        return {
            "zorder.columns": [
                c.name if c.weight == 1.0 else {"name": c.name, "weight": c.weight} for c in self.columns
            ],
            "zorder.curve": self.curve,
            **({"zorder.cuts": [to_sql(cut) for cut in self.cuts]} if self.cuts else {}),
            **range_ids,
            "zorder.noise": self.noise,
            "files.target_size": self.target_size,
            "files.sort_within": self.sort_within,
            "engine": self.engine,
        }

    def recorded_settings(self) -> dict[str, Any]:
        """Return the layout settings as a layout record contains them: with the column ids, if all are known."""
        ids = [column.id for column in self.columns]
        return {**self.settings(), **({COLUMN_IDS: ids} if ids and all(ids) else {})}

    def identified(self, ids: Sequence[str]) -> Layout:
        """Return this layout with these column ids, one for each z-order column."""
        columns = tuple(replace(column, id=id_) for column, id_ in zip(self.columns, ids, strict=True))
        return replace(self, columns=columns)

    @property
    def layout_id(self) -> str:
        """The first 16 hex digits of the SHA-256 of the canonical JSON of the effective layout settings.

        Layouts that differ only in settings without effect have the same id: docs/adr/0005-layout-id.md.
        """
        columns = tuple(ZorderColumn(name, weight) for name, weight in self.weights.items())
        effective = replace(self, columns=columns, curve=self.effective_curve)
        document = {"algorithm": ALGORITHM_VERSION, **effective.settings()}
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def covers(self, layout_id: str, settings: Mapping[str, Any]) -> bool:
        """Return whether files with a layout record count as laid out by this layout.

        They do if the layout id of this layout equals the recorded one. They also do if the target sizes are similar
        (SIMILAR_SIZE) and the layout ids would be equal with the same target size. Files that the format itself
        clustered count as laid out by engine native if their clustering columns are the z-order columns, in any order.

        Args:
            layout_id, settings: Those of the layout record.
        """
        if (clustered_by := settings.get(CLUSTERED_BY)) is not None:
            return self.engine == "native" and sorted(clustered_by) == sorted(column.name for column in self.columns)
        if layout_id == self.layout_id:
            return True
        size = settings.get("files.target_size")
        if type(size) is not int or abs(self.target_size - size) > SIMILAR_SIZE * size:
            return False
        return replace(self, target_size=size).layout_id == layout_id


def parse_cut(text: str, location: Location) -> Compare:
    """Parse one cut: a column, `<` or `<=`, and a literal.

    Raises:
        SpecError: ZL058 for any other text.
    """
    try:
        found = parse_where(text, location)
    except SpecError:
        found = None
    if isinstance(found, Compare) and found.operator in ("<", "<="):
        return found
    message = f"expected column < literal or column <= literal in zorder.cuts, found {quote_value(text)}"
    raise SpecError.of("ZL058", message, hint="for example l_shipdate < DATE '1995-01-01'", location=location)


def parsed_cuts(recorded: Any) -> tuple[Compare, ...] | None:
    """Return the cuts in the value of a layout record; None if it is not a list of cuts."""
    try:
        return tuple(parse_cut(text, _NOWHERE) for text in recorded)
    except (SpecError, TypeError):
        return None


def cut_problems(layout: Layout, locations: dict[str, Location], location: Location) -> Iterator[Diagnostic]:
    """Check the cuts of a layout.

    Args:
        layout: The layout.
        locations: The location of each dotted key in the spec or in the defaults of the project.
        location: The location to report if neither cuts nor a curve are declared.

    Yields:
        ZL058 for cuts without curve `workload`, for this curve without cuts, for duplicate cuts, and for cuts of
        columns that are not z-order columns.
    """
    at = locations.get("zorder.cuts") or locations.get("zorder.curve") or location
    if layout.cuts and layout.curve != WORKLOAD_CURVE:
        message = f"expected curve workload with zorder.cuts, found {layout.curve}"
        yield Diagnostic("ZL058", message, hint="set curve: workload, or remove the cuts", location=at)
    if layout.curve == WORKLOAD_CURVE and not layout.cuts:
        hint = "add cuts, which zlayout advise finds for a workload, or use curve kd"
        yield Diagnostic("ZL058", "expected zorder.cuts with curve workload, found none", hint=hint, location=at)
    names = {column.name.lower() for column in layout.columns}
    for index, cut in enumerate(layout.cuts):
        at = locations[f"zorder.cuts[{index}]"]
        if cut.column.lower() not in names:
            message = f"expected a column of zorder.columns in zorder.cuts, found {quote_value(cut.column)}"
            yield Diagnostic("ZL058", message, hint="add it to zorder.columns, or remove the cut", location=at)
        elif cut in layout.cuts[:index]:
            message = f"duplicate cut at {literal(cut.value)} in zorder.cuts"
            yield Diagnostic("ZL058", message, hint="keep the first one", location=at)


def cut_texts(cuts: Sequence[Compare]) -> list[str]:
    """Return cuts as a layout spec declares them, with columns in backticks only where the parser needs them."""
    plain = [f"{cut.column} {cut.operator} {literal(cut.value)}" for cut in cuts]
    return [text if parsed_cuts([text]) == (cut,) else to_sql(cut) for text, cut in zip(plain, cuts, strict=True)]
