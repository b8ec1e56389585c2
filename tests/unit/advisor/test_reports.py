"""A study as text, JSON and HTML: widths, hostile names, and the same numbers in all of them."""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lxml import html
from support.builders import make_layout
from unit.advisor.tables import sample_of, table_state

from zlayout.advisor.compare import remarks, shorten, to_json
from zlayout.advisor.model import Coverage, Study, TableQuery, TableWorkload, Use
from zlayout.advisor.reports import render as as_text
from zlayout.advisor.reports import render_page as as_page
from zlayout.advisor.study import Question, study, with_workload
from zlayout.planner.simulation import whole_rewrite
from zlayout.predicate.model import Compare
from zlayout.workload.model import Query, Unused, Workload

EVIL = "<script>alert(1)</script>\x1b[31m\u202e"
LONG = "a.very.long.nested.column.name." + "x" * 60
ROWS = 4_000
BASE = make_layout(target_size=4_000)


def make(*columns: str) -> Study:
    rng = np.random.default_rng(0)
    data = {name: pa.array(rng.integers(0, 1_000, ROWS)) for name in columns}
    every = (np.ones(1, bool),)
    queries = [
        TableQuery(
            Query(f"SELECT *\nFROM t WHERE {name} = {n}", f"some/folder/{name}.sql:{n}", 1.0 + n),
            (Compare(name, "=", 37 * n),),
            every,
        )
        for name in columns
        for n in range(3)
    ]
    file = rng.integers(0, 10, ROWS)
    state = replace(table_state(data, file), table=f"lake.db.{columns[0]}")
    rewrite = whole_rewrite(BASE, state, state.columns, sample_of(data, file, 9))
    found = study(state, tuple(queries), rewrite, Question((), None, BASE, True))
    unused = tuple(Unused(queries[0].query, f"upper({name}) = 'X'", "a reason") for name in columns)
    uses = dict.fromkeys((q.query for q in queries), Use.USED) | {Query("SELECT 1", "q"): Use.READS_ALL}
    table = TableWorkload(tuple(queries), Coverage.of(uses), unused)
    return with_workload(found, ("some/folder/q.sql",), Workload((), (), len(queries) + 1), table)


PLAIN = make("a", "b", "c")


def test_queries_that_match_nothing_or_read_the_same_everywhere_are_named() -> None:
    now, weights = PLAIN.now.bytes.copy(), PLAIN.now.weights
    now[4] = 0.0  # b = 37, of weight 2
    choices = []
    for choice in PLAIN.choices:
        size = choice.costs.bytes.copy()
        size[7:9] = now[7:9]
        choices.append(replace(choice, costs=replace(choice.costs, bytes=size)))
    study = replace(PLAIN, now=replace(PLAIN.now, bytes=now), choices=tuple(choices))
    shares = [f"{100 * part / weights.sum():.0f}%" for part in (weights[4], weights[7:9].sum())]
    said = [
        f"1 query ({shares[0]} of the weight) opens no file: the metadata shows that no row matches. "
        "Check the constants of SELECT * FROM t WHERE b = 1 (some/folder/b.sql:1).",
        f"2 queries ({shares[1]} of the weight) read the same in each layout, and decide nothing.",
    ]
    assert list(remarks(study)) == said
    assert all(sentence in " ".join(as_text(study, 100).split()) for sentence in said)
    assert list(remarks(PLAIN)) == []


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("verbose", [False, True])
def test_text_keeps_to_the_width(width: int, verbose: bool) -> None:
    for found in (PLAIN, make(LONG, "b")):
        text = as_text(found, width, verbose=verbose)
        pasted = text.index("Keys for the layout spec")
        assert max(map(len, text[:pasted].splitlines())) <= width


def test_the_heading_names_the_version_as_the_format_does_and_files_as_messages_do() -> None:
    found = replace(PLAIN, format="iceberg", version=5, workload=(str(Path("folder", "q.sql").absolute()),))
    text = as_text(found, 120)
    assert "(iceberg, snapshot 5)" in text
    assert "  workload  folder/q.sql: " in text
    assert "iceberg, snapshot 5," in as_page(found)


def test_text_shows_queries_by_their_text_and_where_they_are_when_verbose() -> None:
    text = as_text(PLAIN, 80)
    assert "  SELECT * FROM t WHERE a = 0 " in text
    assert "a.sql:" not in text
    assert as_text(PLAIN, 120, verbose=True).count("some/folder/a.sql:0\n") == 1 + 3
    assert shorten("SELECT a, b, c, sum(d) FROM some.long.name WHERE a = 0", 30) == "SELECT ... WHERE a = 0"
    assert shorten("SELECT a FROM t WHERE a = 0 AND b BETWEEN 1 AND 2", 30) == "SELECT ... WHERE a = 0 AND ..."


def test_hostile_names_do_no_harm() -> None:
    found = make(EVIL, "b")
    text = as_text(found, 100, verbose=True)
    assert all(unicodedata.category(c) not in ("Cc", "Cf") for c in text.replace("\n", ""))
    page = as_page(found)
    assert "<script" not in page
    assert all(unicodedata.category(c) not in ("Cc", "Cf") for c in page.replace("\n", ""))
    assert json.loads(to_json(found))["table"] == f"lake.db.{EVIL}"


def test_all_reports_have_the_same_numbers() -> None:
    document = json.loads(to_json(PLAIN))
    page = html.fromstring(as_page(PLAIN))
    rows = page.xpath("//section[h2[@id='queries']]//tbody/tr")
    shown = [(r.xpath("th/small/text()")[0], r.xpath("td[@class='n']/text()")) for r in rows]
    assert len(shown) == len(document["queries"]) == 9
    for (place, cells), query in zip(shown, document["queries"], strict=True):
        assert query["query"] == place
        assert float(cells[1]) == query["weight"]
        assert int(cells[2]) == query["files"]["now"]
        assert int(cells[3]) == query["files"]["then"]
    now, then = document["now"]["bytes_read"], next(c["bytes_read"] for c in document["layouts"] if c["best"])
    assert f"reads {then / now:.0%} of the bytes" in document["verdict"]
    assert document["verdict"] in " ".join(as_text(PLAIN, 100).split())
    assert page.xpath("string(//p[@class='headline'])") == document["verdict"]


def test_the_mean_is_by_weight() -> None:
    document = json.loads(to_json(PLAIN))
    total = sum(q["weight"] * q["files"]["then"] for q in document["queries"])
    best = next(c for c in document["layouts"] if c["best"])
    assert best["files_opened"] == pytest.approx(total / sum(q["weight"] for q in document["queries"]))


def test_steps_tell_each_column_s_files_for_each_number_of_columns() -> None:
    document = json.loads(to_json(PLAIN))
    assert [len(s["columns"]) for s in document["steps"]] == [1, 2, 3]
    text = as_text(PLAIN, 80)
    line = next(x for x in text.splitlines() if x.strip().endswith("columns") and "1" in x)
    assert line.split()[:3] == [f"{n}*" if len(best_columns()) == n else f"{n}" for n in (1, 2, 3)]


def best_columns() -> list[str]:
    assert PLAIN.best is not None
    return [c.name for c in PLAIN.best.layout.columns]
