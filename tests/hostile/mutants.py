"""Valid documents with a few things wrong: noise is refused at the door, these get as far as documents can."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from unit.report.sample_plans import EVIL

NAMES = (
    EVIL, "a`b", "``", "a.b", '"', "'; DROP TABLE t; --", "a\nb", "\r\n", "\t", "\x1b]0;x\x07", "\u202egnp.exe",
    "\u2028", "é", "e\u0301", "😀", "👩‍👩‍👧", "\ud800", "\x00", "\x9b31m", "..", "../../etc/passwd", "/etc/passwd",
    "C:\\x", "~", "-rf", "--help", "${HOME}", "${X:?y}", "$(id)", "%s%n", "{0.__class__}", "{{7*7}}",
    "<img src=x onerror=alert(1)>", "]]>", "&amp;", "::set-output name=x::y", "%0A::error::x", "=cmd|' /C calc'!A0",
    "*", "**/*", "[a", "tag:*", "path:*", "spark.jars", "__proto__", "constructor", "lake.db.orders", "ice", "true",
    "null", "~", "1e999", "x" * 5_000, "a." * 500, "##vso[task.setvariable variable=x]y", "a##teamcity[x]",
    "##[error]x", "section_start:1:x\r\x1b[0Kx",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e308, -1e308,
    1e-320, "", " ", [], {}, [[]], [None], [{}], {"": ""}, [1, "a", None, []], ["a"] * 200, "2026-01-01", "128MiB",
    "10%", "1.5x",
)  # fmt: skip


def mutants(document: Any, seed: int, number: int) -> Iterator[Any]:
    """So many mutants of a document of dicts and lists, each with one to three changes; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(number):
        mutant = copy.deepcopy(document)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _change(mutant, chance)
        yield mutant


def _change(document: Any, chance: random.Random) -> None:
    places = list(_places(document))
    if not places:
        return
    holder, key = chance.choice(places)
    match chance.randrange(8):
        case 0 | 1:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
        case 2 | 3:
            holder[key] = chance.choice(NAMES)
        case 4:
            del holder[key]
        case 5 if isinstance(holder, dict):
            holder[chance.choice(NAMES)] = holder.pop(key)
        case 5 | 6:
            other, at = chance.choice(places)
            holder[key] = copy.deepcopy(other[at])
        case _:
            holder[key] = _deep(holder[key], chance.randrange(1, 60))


def _deep(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])
