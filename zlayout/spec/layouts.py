"""Build layout specs and rules from layout documents, and edit the text of a layout spec.

`layout_spec` builds a `LayoutSpec` from a validated document and the project's defaults. `layout_rule` makes it a rule,
a layout spec for all tables that a pattern matches, and `rule_of` chooses the rule for a table. `with_layout` writes
other layout settings into the text of a layout spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.predicate.parse import parse_where
from zlayout.spec.catalogs import unknown_catalog
from zlayout.spec.check import suggestion
from zlayout.spec.formats import FORMATS, Traits
from zlayout.spec.model import (
    MAIN,
    CatalogConfig,
    Conditions,
    Layout,
    LayoutRule,
    LayoutSpec,
    TableName,
    Tolerance,
    ZorderColumn,
    cut_problems,
    cut_texts,
    parse_cut,
)
from zlayout.spec.yaml import Document
from zlayout.table.partition import PartitionField
from zlayout.text import column_name, parse_path, quote_value

if TYPE_CHECKING:
    from zlayout.table.state import TableState

# The built-in defaults of layout specs, and the merge of defaults with a layout spec.


LAYOUT_PATTERNS = ("layouts/**/*.yaml", "layouts/**/*.yml")
WORKLOAD_PATTERNS = ("workloads/**/*.sql", "workloads/**/*.csv")

# Default values by the keys of a layout spec. schemas/v1 repeats them as `default`, and a test compares the two.
DEFAULTS: Mapping[str, Any] = {
    "zorder": {"range_ids": 1000, "noise": False},
    "files": {"target_size": "128MiB", "sort_within": True},
    "tolerance": {
        "unclustered": "10%",
        "touched": "1.5x",
        "small_files": "20%",
        "deleted_rows": "10%",
        "workload": "20%",
    },
    "engine": "zlayout",
}
DEFAULT_CURVE: Mapping[str, str] = {"zlayout": "kd", "native": "zorder"}
# The curve of a layout without z-order columns. Its rewrites keep the order of the rows.
CURVE_OF_COMPACTION = "linear"


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged maps. Later maps override earlier ones; nested maps are merged, other values replaced."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


# Table names and partition keys.


_SOURCE = r"(?:`(?:[^`]|``)+`|[^`,()])+?"
_CALL = re.compile(rf"\s*(\w+)\s*\(\s*(?:([^,()]*?)\s*,\s*)?({_SOURCE})\s*\)\s*")
_PLAIN_TRANSFORMS = ("identity", "year", "month", "day", "hour")
_NUMBERED_TRANSFORMS = ("bucket", "truncate")


def parse_table(text: str, location: Location) -> TableName:
    """Parse `catalog.namespace.table`. Parts that contain dots are in backticks.

    Raises:
        SpecError: ZL020 for any other text.
    """
    parts = parse_path(text)
    if parts is None:
        message = f"expected a table name such as lake.sales.orders, found {quote_value(text)}"
        hint = "put a part with a dot in backticks, and double a backtick inside it"
    elif invalid := [part for part in parts if not _is_valid(part)]:
        message = f"invalid part {quote_value(invalid[0])} in a table name"
        hint = "remove '/', '\\', '.', '..', outer blanks and unprintable characters"
    elif len(parts) < 2:
        message = f"expected catalog.namespace.table, found {quote_value(text)}"
        hint = "the first part is a catalog of zlayout.yaml"
    else:
        return TableName(parts[0], tuple(parts[1:-1]), parts[-1])
    raise SpecError.of("ZL020", message, hint=hint, location=location)


def _is_valid(part: str) -> bool:
    return part.isprintable() and part not in (".", "..") and not set("/\\") & set(part) and part == part.strip()


def parse_partition_key(text: str, location: Location) -> PartitionField:
    """Parse a partition key such as `region`, `month(ts)` or `bucket(16, id)`.

    Raises:
        SpecError: ZL023 for any other text.
    """
    call = _CALL.fullmatch(text) if text.isprintable() else None
    hint = ""
    if text.isprintable() and re.fullmatch(_SOURCE, text.strip()):
        return PartitionField(column_name(text.strip()))
    if call is not None and call[3].strip():
        name, argument, source = call.groups()
        if name in _PLAIN_TRANSFORMS:
            if argument is None:
                return PartitionField(column_name(source), name)
            hint = f"write {name}(column)"
        elif name in _NUMBERED_TRANSFORMS:
            if argument is not None and re.fullmatch(r"[1-9][0-9]{0,8}", argument):
                return PartitionField(column_name(source), f"{name}[{argument}]")
            hint = f"write {name}(16, column)"
        else:
            hint = suggestion(name, (*_PLAIN_TRANSFORMS, *_NUMBERED_TRANSFORMS))
    expected = "expected a column, identity, year, month, day or hour of one, bucket(n, c) or truncate(n, c)"
    raise SpecError.of("ZL023", f"{expected}, found {quote_value(text)}", hint=hint, location=location)


# The layout spec of a document.


MIN_TARGET_SIZE = 1024  # bytes
MAX_SIZE = 1024**5  # bytes
_UNITS = {"B": 1} | {
    f"{letter}{suffix}": base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, letter in enumerate("KMGT", start=1)
}
_UNITS["kB"] = 1000


def layout_spec(
    document: Document,
    defaults: Mapping[str, Any],
    default_locations: Mapping[str, Location],
    catalogs: Mapping[str, CatalogConfig] | None,
) -> LayoutSpec:
    """Return the layout spec of a document that conforms to the schema. The table of a rule is its pattern.

    Args:
        document: The layout document.
        defaults: `defaults:` of the project.
        default_locations: The locations of the defaults, by the dotted keys of a layout.
        catalogs: The catalogs by name; None if `zlayout.yaml` is invalid. The catalog of the table, and what depends on
            it or on the defaults, is then not checked.

    Raises:
        SpecError: With every error in the document.
    """
    errors: list[Diagnostic] = []
    data = merge(DEFAULTS, defaults, document.data)
    key = "match" if "match" in data else "table"
    locations = document.locations
    merged_locations = {**default_locations, **locations}
    traits = None
    with _kept(errors):
        table = parse_table(data[key], locations[key])
        if catalogs and table.catalog in catalogs:
            traits = FORMATS[catalogs[table.catalog].format]
        errors.extend(_table_problems(table, document, key, catalogs, traits))
    with _kept(errors):
        layout = _layout(data, merged_locations)
        errors += [*_duplicate_columns(layout, locations), *cut_problems(layout, merged_locations, locations[key])]
        if catalogs is not None:
            errors.extend(_curve_problems(document, layout, default_locations, traits))
        max_group_size = None
        if "max_group_size" in data["files"]:
            minimum = f"files.target_size, {data['files']['target_size']},"
            max_group_size = _size(data["files"], "max_group_size", layout.target_size, minimum, merged_locations)
    partition_by = tuple(_partition_fields(document, traits, errors)) if "partition_by" in data else None
    with _kept(errors):
        where = parse_where(data["where"], locations["where"]) if "where" in data else None
    if errors:
        raise SpecError(*errors)
    return LayoutSpec(
        table=table,
        layout=layout,
        location=locations[key],
        partition_by=partition_by,
        where=where,
        where_may_be_empty=data.get("where_may_be_empty", False),
        tolerance=Tolerance(**{k: (factor if k == "touched" else share)(v) for k, v in data["tolerance"].items()}),
        max_group_size=max_group_size,
        tags=tuple(data.get("tags", ())),
        description=data.get("description", ""),
        locations=locations,
        rule=data.get("match", ""),
        ref=data.get("ref", MAIN),
        partition_timezone=data.get("partition_timezone", ""),
    )


@contextmanager
def _kept(errors: list[Diagnostic]) -> Iterator[None]:
    try:
        yield
    except SpecError as error:
        errors += error.diagnostics


def size_in_bytes(value: str | int) -> int:
    """Return the number of bytes of a size such as `128MiB`, `1GB` or 1024 that conforms to the schema."""
    if isinstance(value, int):
        return value
    unit = value.lstrip("0123456789. ")
    return int(Decimal(value.removesuffix(unit).rstrip()) * _UNITS[unit])


def share(value: str | float) -> float:
    """Return a share such as `10%` or 0.1 as a number from 0 to 1."""
    return float(Decimal(value.rstrip(" %")) / 100) if isinstance(value, str) else float(value)


def factor(value: str | float) -> float:
    """Return a factor such as `1.5x` or 1.5 as a number."""
    return float(value.rstrip(" x")) if isinstance(value, str) else float(value)


def _layout(data: Mapping[str, Any], locations: Mapping[str, Location]) -> Layout:
    zorder, files = data["zorder"], data["files"]
    declared = ({"name": c} if isinstance(c, str) else c for c in zorder.get("columns", ()))
    columns = tuple(ZorderColumn(column_name(c["name"]), float(c.get("weight", 1))) for c in declared)
    curve = zorder.get("curve") or DEFAULT_CURVE[data["engine"]]
    return Layout(
        columns=columns,
        curve=curve if columns else CURVE_OF_COMPACTION,
        range_ids=zorder["range_ids"],
        noise=zorder["noise"],
        target_size=_size(files, "target_size", MIN_TARGET_SIZE, "1KiB", locations),
        sort_within=files["sort_within"],
        engine=data["engine"],
        cuts=tuple(parse_cut(text, locations[f"zorder.cuts[{i}]"]) for i, text in enumerate(zorder.get("cuts", ()))),
    )


def _size(files: Mapping[str, Any], key: str, minimum: int, shown: str, locations: Mapping[str, Location]) -> int:
    """Return the size in bytes. The schema cannot check the minimum. shown: the minimum as the message shows it."""
    size = size_in_bytes(files[key])
    if not minimum <= size <= MAX_SIZE:
        expected, found = f"expected files.{key} from {shown} to 1024TiB", quote_value(str(files[key]))
        raise SpecError.of("ZL013", f"{expected}, found {found}", location=locations.get(f"files.{key}"))
    return size


def _table_problems(
    table: TableName,
    document: Document,
    key: str,
    catalogs: Mapping[str, CatalogConfig] | None,
    traits: Traits | None,
) -> Iterator[Diagnostic]:
    location = document.locations[key]
    if catalogs is not None and table.catalog not in catalogs:
        yield unknown_catalog(table.catalog, catalogs, location)
    elif traits and traits.needs_namespace and not table.namespace:
        message = f"expected catalog.namespace.table for {traits.title}, found {quote_value(document.data[key])}"
        yield Diagnostic("ZL020", message, location=location)
    if traits and not traits.branches and document.data.get("ref", MAIN) != MAIN:
        message = f"ref {quote_value(document.data['ref'])}: {traits.title} tables have no branches"
        yield Diagnostic("ZL055", message, hint="remove ref", location=document.locations["ref"])


def _duplicate_columns(layout: Layout, locations: Mapping[str, Location]) -> Iterator[Diagnostic]:
    names = [c.name for c in layout.columns]
    for index, name in enumerate(names):
        if name in names[:index]:
            location = locations[f"zorder.columns[{index}]"]
            message = f"duplicate column {quote_value(name)} in zorder.columns"
            yield Diagnostic("ZL016", message, hint="keep the first one", location=location)


def _curve_problems(
    document: Document, layout: Layout, default_locations: Mapping[str, Location], traits: Traits | None
) -> Iterator[Diagnostic]:
    if layout.engine != "native" or not layout.orders:
        return
    formats = [traits] if traits else list(FORMATS.values())
    supported = tuple(dict.fromkeys(curve for each in formats for curve in each.native_curves))
    if layout.curve in supported:
        return
    of_format = f" of {traits.name}" if traits else ""
    keys = ("zorder.curve", "engine")
    found = [known[key] for known in (document.locations, default_locations) for key in keys if key in known]
    message = f"engine native{of_format} does not support curve {layout.curve}"
    hint = f"use curve {' or '.join(supported)}, or engine zlayout"
    yield Diagnostic("ZL025", message, hint=hint, location=found[0] if found else document.location)


def _partition_fields(document: Document, traits: Traits | None, errors: list[Diagnostic]) -> Iterator[PartitionField]:
    seen: set[str] = set()
    for index, text in enumerate(document.data["partition_by"]):
        location = document.locations[f"partition_by[{index}]"]
        with _kept(errors):
            field = parse_partition_key(text, location)
            if traits and not traits.partition_transforms and field.transform != "identity":
                message = f"expected a column in partition_by of a {traits.title} table, found {quote_value(text)}"
                hint = "use a generated column, or z-order by the column itself"
                errors.append(Diagnostic("ZL024", message, hint=hint, location=location))
            elif str(field) in seen:
                message = f"duplicate partition key {quote_value(text)} in partition_by"
                errors.append(Diagnostic("ZL023", message, location=location))
            seen.add(str(field))
            yield field


# Edits of z-order columns, curve, cuts and engine in the text of a layout spec. Other text and comments are kept.


_COMMENT = re.compile(r"[ \t]+#[^\r\n]*")
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
Edit = tuple[int, int, str]  # the indices between which text is replaced, and the new text


def with_layout(
    text: str, declared: Layout, wanted: Layout, partition_by: Sequence[PartitionField] | None = None
) -> str:
    """Return the text of a layout spec that declares `wanted` instead of `declared`.

    A comment after a z-order column stays with the column, and is removed with it.

    Args:
        text: A valid layout spec.
        declared: Its layout, with defaults merged.
        wanted: A layout that differs from it only in columns, curve, cuts and engine.
        partition_by: The partitioning to declare; None for the one of the text.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    edits = [*_scalar(root, "engine", declared.engine, wanted.engine)]
    if partition_by is not None:
        edits.append(_partitions(root, partition_by))
    if (zorder := _values(root).get("zorder")) is None:
        edits.append(_zorder(root, wanted))
    else:
        assert isinstance(zorder, yaml.MappingNode)
        edits += [_columns(text, _values(zorder)["columns"], wanted), *_cuts(text, zorder, declared, wanted)]
        edits += _scalar(zorder, "curve", declared.curve, wanted.curve)
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _zorder(root: yaml.MappingNode, wanted: Layout) -> Edit:
    # Every layout spec without `zorder` has `files`.
    (files,) = (key.start_mark for key, _ in root.value if key.value == "files")
    columns = ", ".join(_edited_column(c) for c in wanted.columns)
    cuts = f", cuts: [{', '.join(_yaml_cuts(wanted))}]" if wanted.cuts else ""
    end = ", " if root.flow_style else "\n" + " " * files.column
    return files.index, files.index, f"zorder: {{columns: [{columns}], curve: {wanted.curve}{cuts}}}{end}"


def _partitions(root: yaml.MappingNode, fields: Sequence[PartitionField]) -> Edit:
    keys = ", ".join(json.dumps(str(f), ensure_ascii=False) if "," in str(f) else _quoted(str(f)) for f in fields)
    values = _values(root)
    if (node := values.get("partition_by")) is not None:
        return node.start_mark.index, _end(node), f"[{keys}]"
    # Every layout spec has `zorder` or `files`.
    mark = next(key.start_mark for key, _ in root.value if key.value in ("zorder", "files"))
    end = ", " if root.flow_style else "\n" + " " * mark.column
    return mark.index, mark.index, f"partition_by: [{keys}]{end}"


def _values(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _columns(text: str, node: yaml.Node, wanted: Layout) -> Edit:
    assert isinstance(node, yaml.SequenceNode)
    begin = node.start_mark.index
    if node.flow_style:
        return begin, node.end_mark.index, f"[{', '.join(_edited_column(c) for c in wanted.columns)}]"
    comments = {_name(item): found[0] for item in node.value if (found := _COMMENT.match(text, _end(item)))}
    end = _end(node.value[-1])
    end = found.end() if (found := _COMMENT.match(text, end)) else end
    between = "\n" + " " * node.start_mark.column
    return begin, end, between.join(f"- {_edited_column(c)}{comments.get(c.name, '')}" for c in wanted.columns)


def _cuts(text: str, zorder: yaml.MappingNode, declared: Layout, wanted: Layout) -> Iterator[Edit]:
    if declared.cuts == wanted.cuts:
        return
    column = zorder.start_mark.column
    indent, items = "\n" + " " * column, _yaml_cuts(wanted)
    listed = f"cuts: [{', '.join(items)}]" if zorder.flow_style else f"cuts:{indent}- " + f"{indent}- ".join(items)
    keys = [key.value for key, _ in zorder.value]
    if "cuts" in keys:
        number = keys.index("cuts")
        key, value = zorder.value[number]
        begin, end = key.start_mark.index, _end(value)
        if not items and number:  # the separator before the list is removed too
            begin = _end(zorder.value[number - 1][1])
        elif not items:
            end = zorder.value[number + 1][0].start_mark.index
        yield begin, end, listed if items else ""
    elif items:
        at = _end(zorder.value[-1][1])
        at = found.end() if (found := _COMMENT.match(text, at)) and not zorder.flow_style else at
        yield at, at, (", " if zorder.flow_style else indent) + listed


def _yaml_cuts(layout: Layout) -> list[str]:
    texts = cut_texts(layout.cuts)
    # These characters have a meaning if the list is in flow style.
    if not any(indicator in text for text in texts for indicator in ",[]{}"):
        return [_quoted(text) for text in texts]
    return [json.dumps(text, ensure_ascii=False) for text in texts]


def _quoted(text: str) -> str:
    with suppress(yaml.YAMLError):
        if yaml.safe_load(text) == text:
            return text
    return json.dumps(text, ensure_ascii=False)  # every string in JSON is the same string in YAML


def _end(node: yaml.Node) -> int:
    """Return the index behind the last character of a node. PyYAML ends a block after the blank lines below it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return _end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return _end(node.value[-1])
    return int(node.end_mark.index)


def _name(item: yaml.Node) -> str:
    return column_name(_values(item)["name"].value if isinstance(item, yaml.MappingNode) else item.value)


def _edited_column(column: ZorderColumn) -> str:
    name = _quoted(column.name) if _PLAIN.fullmatch(column.name) else json.dumps(column.name, ensure_ascii=False)
    return name if column.weight == 1 else f"{{name: {name}, weight: {column.weight:g}}}"


def _scalar(node: yaml.MappingNode, key: str, declared: str, wanted: str) -> Iterator[Edit]:
    found = _values(node).get(key)
    if declared == wanted:
        return
    if found is not None:
        yield found.start_mark.index, found.end_mark.index, wanted
        return
    # Only a default declares the value, so the key is inserted as the first one of the map.
    first = node.value[0][0].start_mark
    yield first.index, first.index, f"{key}: {wanted}" + (", " if node.flow_style else "\n" + " " * first.column)


# Rules.


_ANY = "\x00"  # a character that no table name contains


def layout_rule(document: Document, spec: LayoutSpec) -> LayoutRule:
    """Return the rule that a document with `match:` declares.

    Args:
        document: The document.
        spec: Its layout spec, whose table is the pattern.

    Raises:
        SpecError: ZL020 for each invalid pattern, ZL013 if `only.max_size` is below `only.min_size`.
    """
    problems = [*_pattern_problems(spec.table, spec.location, spec.table.catalog)]
    exclude = []
    for index, text in enumerate(document.data.get("exclude", ())):
        location = document.locations[f"exclude[{index}]"]
        exclude.append(parse_table(text, location))
        problems += _pattern_problems(exclude[-1], location, spec.table.catalog)
    only = _conditions(document.data["only"]) if "only" in document.data else None
    if only and only.min_size is not None and only.max_size is not None and only.min_size > only.max_size:
        location = document.locations["only.max_size"]
        message = f"expected only.max_size of at least only.min_size, {document.data['only']['min_size']}"
        problems.append(Diagnostic("ZL013", f"{message}, found less", location=location))
    if problems:
        raise SpecError(*problems)
    return LayoutRule(spec.table, tuple(exclude), only, spec)


def matches(rule: LayoutRule, table: TableName) -> bool:
    """Return whether the pattern of a rule matches a table, and none of the excluded patterns does."""
    return matches_name(rule.pattern, table) and not any(matches_name(pattern, table) for pattern in rule.exclude)


def holds(only: Conditions | None, state: TableState) -> bool:
    """Return whether a table meets the conditions of a rule. only: None if the rule has none."""
    if only is None:
        return True
    size = int(state.files.bytes.sum())
    return (
        (only.min_size is None or size >= only.min_size)
        and (only.max_size is None or size <= only.max_size)
        and only.partitioned in (None, bool(state.partition_fields))
        and all(state.column(name) is not None for name in only.columns)
    )


def rule_of(rules: Sequence[LayoutRule], table: TableName) -> LayoutRule | None:
    """Return the narrowest rule that matches a table; None if no rule does.

    Args:
        rules: The rules whose conditions the table meets.
        table: A table that no layout spec names.

    Raises:
        SpecError: ZL039 if several rules match, and none of them is narrower than all others.
    """
    found = [rule for rule in rules if matches(rule, table)]
    narrowest = narrowest_of(found)
    if len(narrowest) > 1:
        listed = " and ".join(f"{rule.spec.rule} ({rule.spec.location})" for rule in narrowest)
        message = f"{table} has several rules, and none is narrower than the others: {listed}"
        hint = "exclude the table from all of them but one, or declare a layout of its own"
        raise SpecError.of("ZL039", message, hint=hint, location=narrowest[0].spec.location)
    return next(iter(narrowest), None)


def narrowest_of(rules: Sequence[LayoutRule]) -> list[LayoutRule]:
    """Return the rules of which no other rule is narrower."""
    return [rule for rule in rules if not any(_narrower(other, rule) for other in rules)]


@lru_cache(maxsize=1024)
def within(inner: TableName, outer: TableName) -> bool:
    """Return whether the pattern `outer` matches every name that the pattern `inner` matches."""
    parts = list(zip(inner.identifier, outer.identifier, strict=False))
    same = inner.catalog == outer.catalog and len(inner.identifier) == len(outer.identifier)
    return same and all(covers(glob, part) for part, glob in parts)


def _narrower(one: LayoutRule, other: LayoutRule) -> bool:
    if not within(one.pattern, other.pattern):
        return False
    return not within(other.pattern, one.pattern) or (one.only is not None and other.only is None)


def matches_name(pattern: TableName, table: TableName) -> bool:
    """Return whether a pattern matches a table."""
    parts, globs = table.identifier, pattern.identifier
    return pattern.catalog == table.catalog and len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


def may_match(pattern: TableName, text: str) -> bool:
    """Return whether a glob, in which * also matches dots, matches the text of any table that a pattern matches."""
    one, other = list(str(pattern)), re.findall(r"\[!?\]?[^\]]*\]|.", text)
    waiting, seen = [(0, 0)], set[tuple[int, int]]()
    while waiting:
        i, j = at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        a, b = one[i] if i < len(one) else "", other[j] if j < len(other) else ""
        if not a and not b:
            return True
        if a == "*":
            waiting += [(i + 1, j), *([(i, j + 1)] if b not in ("", ".") else [])]
        elif b == "*":
            waiting += [(i, j + 1), *([(i + 1, j)] if a else [])]
        elif a and b and ((a == "?" and b != ".") or fnmatchcase(a, b)):
            waiting.append((i + 1, j + 1))
    return False


def covers(outer: str, inner: str) -> bool:
    """Return whether the glob `outer`, in which * also matches dots, matches every text that the glob `inner` does."""
    # The outer glob must match the inner one with each ? replaced by one character and each * by none, and then with
    # each * replaced by two.
    every = inner.replace("?", _ANY)
    return all(fnmatchcase(every.replace("*", characters), outer) for characters in ("", _ANY * 2))


def _pattern_problems(pattern: TableName, location: Location, catalog: str) -> list[Diagnostic]:
    if pattern.catalog != catalog:
        message = f"expected a pattern of one catalog, found {quote_value(str(pattern))}"
        hint = "begin the patterns of match and exclude with the name of the same catalog"
    elif any("[" in part for part in pattern.identifier):
        message = f"expected the wildcards * and ? only, found '[' in {quote_value(str(pattern))}"
        hint = "use one layout for each pattern"
    else:
        return []
    return [Diagnostic("ZL020", message, hint=hint, location=location)]


def _conditions(data: dict[str, Any]) -> Conditions:
    sizes = {key: size_in_bytes(data[key]) for key in ("min_size", "max_size") if key in data}
    return Conditions(
        partitioned=data.get("partitioned"), columns=tuple(map(column_name, data.get("columns", ()))), **sizes
    )
