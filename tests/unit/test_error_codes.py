"""docs/errors.md lists every code that zlayout raises, each once, and no other."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from support.sources import SOURCES, nodes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"\bZL[0-9]{3}\b")
FAMILIES = {
    "SpecError": "ZL0",
    "TableError": "ZL1",
    "Refused": "ZL2",
    "EngineError": "ZL3[014]",
    "CommitConflict": "ZL32",
    "CommitUnknown": "ZL33",
}


def documented() -> list[tuple[str, list[str]]]:
    """(heading, cells) of each row that starts with a code."""
    heading, rows = "", []
    for line in (ROOT / "docs/errors.md").read_text().splitlines():
        if line.startswith("## "):
            heading = line.split()[1]
        elif line.startswith("| ZL"):
            rows.append((heading, [cell.strip() for cell in line.strip("|").split("|")]))
    return rows


def raised() -> set[str]:
    """Codes that are a string of their own in the code, or a schema's code for a violation."""
    found = {
        node.value
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }
    for schema in sorted((ROOT / "schemas").rglob("*.json")):
        found |= set(_schema_codes(json.loads(schema.read_text())))
    return found


def _schema_codes(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if "x-code" in part:
            yield part["x-code"]
        for inner in part.values():
            yield from _schema_codes(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _schema_codes(inner)


def test_every_code_in_the_code_is_documented_and_the_other_way_round() -> None:
    rows = {cells[0] for _, cells in documented()}
    assert len(rows) > 80
    codes = raised()
    assert codes - rows == set(), "missing in docs/errors.md"
    assert rows - codes == set(), "in docs/errors.md, but nothing raises it"


def test_a_code_has_one_row_in_its_own_group_in_order_with_every_cell_filled() -> None:
    rows = documented()
    codes = [cells[0] for _, cells in rows]
    assert codes == sorted(set(codes))
    for heading, cells in rows:
        assert heading == f"{cells[0][:3]}xx:"
        assert len(cells) == 3
        assert all(cells)
    meanings = [cells[1] for _, cells in rows]
    assert len(set(meanings)) == len(meanings)


def test_no_text_names_a_code_that_is_not_there() -> None:
    known = {cells[0] for _, cells in documented()}
    named = {path: set(CODE.findall(path.read_text())) - known for path in (*SOURCES, *PAGES)}
    assert {path: codes for path, codes in named.items() if codes} == {}


def test_each_error_class_has_codes_of_its_own_hundred() -> None:
    seen = set()
    for source, node in ((path, node) for path in SOURCES for node in nodes(path)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="of"), args=[ast.Constant(value=str(code)), *_]
            ) if name in FAMILIES:
                assert re.match(FAMILIES[name], code), f"{source.name}:{node.lineno} {name} {code}"
                seen.add(name)
    assert seen == set(FAMILIES)
