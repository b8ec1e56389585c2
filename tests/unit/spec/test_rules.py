"""Rules: which tables a pattern matches, and which of several rules a table has."""

from itertools import permutations

import pytest
from unit.spec.conftest import PROJECT, Load

from zlayout.errors import Location, SpecError
from zlayout.spec.layouts import matches, parse_table, rule_of, within
from zlayout.spec.model import LayoutRule, TableName

RULE = """version: 1
match: lake.sales.*
zorder:
  columns: [a]
"""


def name(text: str) -> TableName:
    return parse_table(text, Location("test"))


def rules(load: Load, *patterns: str) -> tuple[LayoutRule, ...]:
    layouts = {f"layouts/{n}.yaml": RULE.replace("lake.sales.*", p) for n, p in enumerate(patterns)}
    return load({"zlayout.yaml": PROJECT, **layouts}).rules


@pytest.mark.parametrize(
    ("pattern", "table", "expected"),
    [
        ("lake.sales.*", "lake.sales.orders", True),
        ("lake.sales.*", "lake.web.orders", False),
        ("lake.sales.*", "lake.sales.eu.orders", False),
        ("lake.*.orders", "lake.sales.orders", True),
        ("lake.sales.order?", "lake.sales.orders", True),
        ("lake.sales.order?", "lake.sales.order", False),
        ("ice.sales.*", "lake.sales.orders", False),
    ],
)
def test_a_pattern_matches_part_by_part(load: Load, pattern: str, table: str, expected: bool) -> None:
    (rule,) = rules(load, pattern)
    assert matches(rule, name(table)) is expected


def test_excluded_tables_have_no_rule(load: Load) -> None:
    text = RULE + "exclude: [lake.sales.tmp_*, lake.sales.old]\n"
    (rule,) = load({"zlayout.yaml": PROJECT, "layouts/a.yaml": text}).rules
    tables = ("lake.sales.tmp_1", "lake.sales.old", "lake.sales.older")
    assert [matches(rule, name(table)) for table in tables] == [False, False, True]


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("lake.sales.orders", "lake.sales.*", True),
        ("lake.sales.ord*", "lake.sales.*", True),
        ("lake.sales.*", "lake.sales.ord*", False),
        ("lake.sales.*", "lake.*.*", True),
        ("lake.sales.*", "lake.*.orders", False),
        ("lake.sales.?", "lake.sales.*", True),
        ("lake.sales.*", "lake.sales.?", False),
        ("lake.sales.a*", "lake.sales.a?*", False),
        ("lake.sales.a?*", "lake.sales.a*", True),
        ("lake.sales.*_a_*", "lake.sales.*a*", True),
        ("ice.sales.*", "lake.*.*", False),
    ],
)
def test_a_pattern_is_within_another_one(inner: str, outer: str, expected: bool) -> None:
    assert within(name(inner), name(outer)) is expected


def test_the_narrowest_rule_applies_in_any_order(load: Load) -> None:
    found = rules(load, "lake.*.*", "lake.sales.*", "lake.sales.ord*")
    for order in permutations(found):
        patterns = [
            rule.spec.rule for t in ("web.x", "sales.x", "sales.orders") if (rule := rule_of(order, name(f"lake.{t}")))
        ]
        assert patterns == ["lake.*.*", "lake.sales.*", "lake.sales.ord*"]


def test_a_tie_is_an_error_that_names_both_rules(load: Load) -> None:
    found = rules(load, "lake.sales.*", "lake.*.orders", "lake.*.*")
    with pytest.raises(SpecError, match="ZL039") as error:
        rule_of(found, name("lake.sales.orders"))
    assert "lake.*.orders (layouts/1.yaml:2:1) and lake.sales.* (layouts/0.yaml:2:1)" in str(error.value)
    assert "lake.*.*" not in str(error.value)
    assert rule_of(found, name("lake.sales.x")) is found[-1]


def test_a_rule_with_conditions_is_narrower_than_the_same_pattern_without(load: Load) -> None:
    layouts = {"layouts/a.yaml": RULE, "layouts/b.yaml": RULE + "only: {partitioned: true}\n"}
    both = load({"zlayout.yaml": PROJECT, **layouts}).rules
    assert rule_of(both, name("lake.sales.x")) is next(rule for rule in both if rule.only)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "match: lake.sales.*\n",
            "",
            "ZL011 key 'table' is missing (for example table: lake.sales.lineitem, or match: ",
        ),
        ("zorder", "table: lake.a.b\nzorder", "ZL013 expected table or match, found both (keep one of the two)"),
        ("match", "only: {partitioned: true}\ntable", "ZL011 key 'match' is missing"),
        ("lake.sales.*", "lake.sales.[ab]", "ZL020 expected the wildcards * and ? only"),
        ("zorder", "exclude: [ice.a.b]\nzorder", "ZL020 expected a pattern of one catalog, found 'ice.a.b'"),
        ("zorder", "only: {min_size: 2MiB, max_size: 1MiB}\nzorder", "ZL013 expected only.max_size of at least"),
        ("zorder", "only: {}\nzorder", "ZL013 expected a map with min_size"),
        ("zorder", "only: {age: 1}\nzorder", "ZL010 unknown key 'age' in only"),
        ("lake.sales.*", "nope.sales.*", "ZL021 unknown catalog 'nope'"),
    ],
)
def test_mistakes(load: Load, old: str, new: str, expected: str) -> None:
    with pytest.raises(SpecError) as error:
        load({"zlayout.yaml": PROJECT, "layouts/a.yaml": RULE.replace(old, new, 1)})
    assert expected in str(error.value)


def test_one_pattern_twice_is_a_duplicate(load: Load) -> None:
    with pytest.raises(SpecError, match=r"ZL022.*first defined in layouts/a.yaml:2:1"):
        load({"zlayout.yaml": PROJECT, "layouts/a.yaml": RULE, "layouts/b.yaml": RULE})
