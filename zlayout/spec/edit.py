"""Change the z-order columns, curve and engine in the text of a layout spec. Other text and comments stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

from zlayout.spec.layout import Layout, ZorderColumn

_COMMENT = re.compile(r"[ \t]+#[^\r\n]*")
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
Edit = tuple[int, int, str]  # the text from the first to the second index is replaced


def with_layout(text: str, declared: Layout, wanted: Layout) -> str:
    """Return the text of a layout spec that declares `wanted` instead of `declared`.

    Comments behind a z-order column stay with it; those of columns that are removed are removed too.

    Args:
        text: A valid layout spec.
        declared: Its layout, with defaults merged.
        wanted: Another layout, which differs in columns, curve and engine only.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    if "zorder" not in _values(root):
        edits = [_zorder(root, wanted), *_scalar(root, "engine", declared.engine, wanted.engine)]
        return _edited(text, edits)
    zorder = _values(root)["zorder"]
    assert isinstance(zorder, yaml.MappingNode)
    edits = [_columns(text, _values(zorder)["columns"], wanted)]
    edits += _scalar(zorder, "curve", declared.curve, wanted.curve)
    edits += _scalar(root, "engine", declared.engine, wanted.engine)
    return _edited(text, edits)


def _edited(text: str, edits: list[Edit]) -> str:
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _zorder(root: yaml.MappingNode, wanted: Layout) -> Edit:
    """Add the map `zorder` before `files`, which a layout without `zorder` has."""
    (files,) = (key.start_mark for key, _ in root.value if key.value == "files")
    columns = ", ".join(_column(c) for c in wanted.columns)
    end = ", " if root.flow_style else "\n" + " " * files.column
    return files.index, files.index, f"zorder: {{columns: [{columns}], curve: {wanted.curve}}}{end}"


def _values(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in node.value}


def _columns(text: str, node: yaml.Node, wanted: Layout) -> Edit:
    assert isinstance(node, yaml.SequenceNode)
    begin = node.start_mark.index
    if node.flow_style:
        return begin, node.end_mark.index, f"[{', '.join(_column(c) for c in wanted.columns)}]"
    comments = {_name(item): found[0] for item in node.value if (found := _COMMENT.match(text, _end(item)))}
    end = _end(node.value[-1])
    end = found.end() if (found := _COMMENT.match(text, end)) else end
    between = "\n" + " " * node.start_mark.column
    return begin, end, between.join(f"- {_column(c)}{comments.get(c.name, '')}" for c in wanted.columns)


def _end(node: yaml.Node) -> int:
    """The index behind the last character of a node. The end of a block includes the lines below it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style:
        return _end(node.value[-1][1])
    return int(node.end_mark.index)


def _name(item: yaml.Node) -> str:
    return str(_values(item)["name"].value if isinstance(item, yaml.MappingNode) else item.value)


def _column(column: ZorderColumn) -> str:
    name = column.name
    if not _PLAIN.fullmatch(name) or yaml.safe_load(name) != name:
        name = json.dumps(name, ensure_ascii=False)  # a string of JSON is one of YAML
    return name if column.weight == 1 else f"{{name: {name}, weight: {column.weight:g}}}"


def _scalar(node: yaml.MappingNode, key: str, declared: str, wanted: str) -> Iterator[Edit]:
    """Yield the change of one value, which is added as the first key of its map if only a default declares it."""
    found = _values(node).get(key)
    if declared == wanted:
        return
    if found is not None:
        yield found.start_mark.index, found.end_mark.index, wanted
        return
    first = node.value[0][0].start_mark
    yield first.index, first.index, f"{key}: {wanted}" + (", " if node.flow_style else "\n" + " " * first.column)
