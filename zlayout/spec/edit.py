"""Change z-order columns, curve, cuts and engine in the text of a layout spec, and keep other text and comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import yaml

from zlayout.spec.layout import Layout, ZorderColumn, cut_texts

_COMMENT = re.compile(r"[ \t]+#[^\r\n]*")
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
Edit = tuple[int, int, str]  # the indices between which text is replaced, and the new text


def with_layout(text: str, declared: Layout, wanted: Layout) -> str:
    """Return the text of a layout spec that declares `wanted` instead of `declared`.

    A comment after a z-order column stays with the column, and is removed with it.

    Args:
        text: A valid layout spec.
        declared: Its layout, with defaults merged.
        wanted: A layout that differs from it only in columns, curve, cuts and engine.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    edits = [*_scalar(root, "engine", declared.engine, wanted.engine)]
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
    columns = ", ".join(_column(c) for c in wanted.columns)
    cuts = f", cuts: [{', '.join(_yaml_cuts(wanted))}]" if wanted.cuts else ""
    end = ", " if root.flow_style else "\n" + " " * files.column
    return files.index, files.index, f"zorder: {{columns: [{columns}], curve: {wanted.curve}{cuts}}}{end}"


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
    return str(_values(item)["name"].value if isinstance(item, yaml.MappingNode) else item.value)


def _column(column: ZorderColumn) -> str:
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
