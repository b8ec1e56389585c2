"""How much of a workload advice rests on: every query is simulated, or counted with its weight and reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.advisor.tables import sample_of, table_state

from zlayout.advisor.compare import to_document
from zlayout.advisor.costs import costs, in_partitions, lowest, measure, queries_on
from zlayout.advisor.model import Study, TableWorkload, Use
from zlayout.advisor.reports import render as as_text
from zlayout.advisor.reports import render_page as as_page
from zlayout.advisor.study import Question, study, with_workload
from zlayout.planner.simulation import draw, new_files, whole_rewrite
from zlayout.predicate.model import Compare
from zlayout.spec.model import TableName
from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Workload

TABLE = TableName("lake", ("db",), "t")
NOW = datetime(2026, 3, 1)
DATA = {
    "a": pa.array(range(1000)),
    "s": pa.array([f"{n:04}" for n in range(1000)]),
    "xs": pa.array([None] * 1000, pa.null()),
}
FILE = np.random.default_rng(0).integers(0, 10, 1000)
STATE = table_state(DATA, FILE)
STATE = replace(STATE, columns=tuple(replace(c, orderable=c.name != "xs") for c in STATE.columns))


def on_table(tmp_path: Path, text: str) -> tuple[Workload, TableWorkload]:
    path = tmp_path / "q.sql"
    path.write_text(text)
    read = read_workload([path], {"t": ["a", "s", "xs"]}, NOW)
    return read, queries_on(read, TABLE, STATE)


def studied(tmp_path: Path, text: str) -> Study:
    read, table = on_table(tmp_path, text)
    base, columns = make_layout(target_size=1_000), STATE.columns_of(("a", "s"))
    rewrite = whole_rewrite(base, STATE, columns, sample_of({name: DATA[name] for name in "as"}, FILE))
    found = study(STATE, in_partitions(table.queries, STATE), rewrite, Question((), None, base, True))
    return with_workload(found, ("q.sql",), read, table)


def test_a_filter_that_a_join_gives_to_another_table_is_not_listed(tmp_path: Path) -> None:
    _, own = on_table(tmp_path, "SELECT * FROM t JOIN d ON t.a = d.k WHERE t.s > '0900'")
    assert own.unused == ()
    _, given = on_table(tmp_path, "SELECT * FROM t JOIN d ON t.a = d.k WHERE t.s > '0900' AND d.name = 'x'")
    assert [one.text for one in given.unused] == ["t.a = d.k, with `name` = 'x'"]


@pytest.mark.parametrize(
    ("query", "use"),
    [
        ("SELECT * FROM t WHERE a = 5", Use.USED),
        ("SELECT * FROM t WHERE a = 5 AND length(s) = 3", Use.USED),
        ("SELECT * FROM t", Use.READS_ALL),
        ("SELECT count(*) FROM t JOIN d ON t.a = d.a", Use.READS_ALL),
        ("SELECT a FROM t GROUP BY a HAVING count(*) > 5", Use.READS_ALL),
        ("SELECT * FROM t WHERE length(s) = 3", Use.IGNORED),
        ("SELECT * FROM t WHERE a IN (SELECT a FROM d)", Use.IGNORED),
        ("SELECT * FROM t JOIN d ON t.a = d.a WHERE d.name = 'x'", Use.IGNORED),
        ("SELECT * FROM t LIMIT 10", Use.IGNORED),
        ("SELECT * FROM t WHERE t.nowhere = 5", Use.IGNORED),
        ("SELECT * FROM t WHERE a = 'soon'", Use.IGNORED),
        ("SELECT * FROM t WHERE xs = 5", Use.IGNORED),
        ("SELECT FROM t WHERE )(", Use.UNREAD),
    ],
)
def test_each_query_has_one_use(query: str, use: Use, tmp_path: Path) -> None:
    _, table = on_table(tmp_path, query)
    assert table.coverage.queries == {use: 1}
    assert bool(table.unused) == (
        use in (Use.IGNORED, Use.UNREAD) or " AND " in query or " ON " in query or "HAVING" in query
    )


def test_conditions_that_bounds_cannot_decide_are_listed(tmp_path: Path) -> None:
    _, table = on_table(tmp_path, "SELECT * FROM t WHERE a = 5 AND t.nowhere = 1 AND s > 3 AND (a = 1 OR xs = 2)")
    (query,) = table.queries
    assert query.predicates == (Compare("a", "=", 5),)
    assert [(u.text, u.reason) for u in table.unused] == [
        ("`nowhere` = 1", "a column that the table does not have"),
        ("`s` > 3", "a value that cannot be compared with the type of the column"),
        ("`xs` = 2", "a column without min and max"),
    ]


LITTLE = """-- weight: 3
SELECT * FROM t WHERE a >= 5 AND a < 10;
-- weight: 5
SELECT * FROM t JOIN d ON t.a = d.a WHERE d.name = 'x';
-- weight: 2
SELECT * FROM t;
"""


def test_advice_that_rests_on_little_of_the_workload_says_so_first(tmp_path: Path) -> None:
    found = studied(tmp_path, LITTLE)
    text = " ".join(as_text(found, 100).split())
    message = (
        "the result is based on 30% of the weight of the queries on lake.db.t; 50% has only conditions that cannot be "
        "used, 20% reads the whole table in any layout"
    )
    assert text.startswith(f"warning: ZL430 {message} (")
    assert "1 query reads the whole table in any layout (20% of the weight), not counted below" in text
    assert "1 a filter through a join, which limits the table only at run time, 50% of the weight" in text
    document = json.loads(json.dumps(to_document(found)))
    assert (document["warning"]["code"], document["warning"]["message"]) == ("ZL430", message)
    assert document["workload"]["coverage"]["ignored"] == {"queries": 1, "share": 0.5}
    assert document["workload"]["reading_all"] == 1
    assert document["columns"][0]["share"] == pytest.approx(0.3)
    page = as_page(found)
    assert page.index(message) < page.index('class="headline"')


def test_the_verdict_weighs_the_queries_that_are_not_simulated(tmp_path: Path) -> None:
    found = studied(tmp_path, LITTLE)
    now, then = found.now.mean_bytes, found.best.costs.mean_bytes
    whole = (0.3 * then + 0.7 * found.bytes) / (0.3 * now + 0.7 * found.bytes)
    document = to_document(found)
    assert f"reads {then / now:.0%} of the bytes read now by the queries" in document["verdict"]
    assert f"and {whole:.0%} if the other queries read every file" in document["verdict"]


def test_advice_that_rests_on_the_whole_workload_has_no_warning(tmp_path: Path) -> None:
    found = studied(tmp_path, "SELECT * FROM t WHERE a = 5")
    assert to_document(found)["warning"] is None
    assert "ZL430" not in as_text(found)
    assert "other queries" not in to_document(found)["verdict"]


def test_the_time_of_the_run_and_ranges_are_stated(tmp_path: Path) -> None:
    found = studied(tmp_path, "SELECT * FROM t WHERE a = 5 AND a < year(current_date()) AND CAST(a AS BIGINT) < 7")
    text = " ".join(as_text(found, 100).split())
    assert "The current time in the queries is 2026-03-01 00:00:00 UTC, the time of this run." in text
    assert "is used as a condition on the column: CAST(a AS BIGINT) < 7 as `a` < 8BD." in text
    assert to_document(found)["workload"]["assumed_time"] == "2026-03-01T00:00:00Z"


def test_a_query_for_one_value_opens_at_least_one_file() -> None:
    every_tenth = pa.array(range(0, 1000, 10))
    sample = sample_of({"a": every_tenth}, FILE[::10], rows=1000)
    scans = tuple(Scan(Query("", f"q:{n}"), "t", Compare("a", "=", n)) for n in (5, 95, 5_000))
    queries = in_partitions(queries_on(Workload(scans, (), 3), TABLE, STATE).queries, STATE)
    layout = make_layout("a", target_size=1_000)
    rewrite = whole_rewrite(layout, STATE, STATE.columns_of("a"), sample)
    drawn = draw(rewrite, rewrite.weights)
    files = new_files(drawn, layout)
    found = costs(queries, files, drawn)
    assert found.files.tolist() == [1, 1, 0]  # 95 is between two files of the sample, 5,000 above all rows
    assert found.bytes[1] == pytest.approx(files.bytes.mean())
    assert lowest(queries, drawn).files.tolist() == [1, 1, 0]
    assert costs(queries, STATE.files).files[2] == 0


def test_a_query_for_a_row_that_a_draw_does_not_have_opens_a_file() -> None:
    numbers = (*range(0, 1000, 7), 5_000)
    scans = tuple(Scan(Query("", f"q:{n}"), "t", Compare("a", "=", n)) for n in numbers)
    queries = in_partitions(queries_on(Workload(scans, (), 3), TABLE, STATE).queries, STATE)
    rewrite = whole_rewrite(make_layout("a"), STATE, STATE.columns_of(("a",)), sample_of(DATA, FILE), 5)
    few, every = (draw(rewrite, rewrite.weights, rows_per_file=count) for count in (20, 1000))
    assert (few.has_every_row, every.has_every_row) == (False, True)
    layout = make_layout("a", target_size=1_000)
    assert (found := measure([few], layout, queries).costs.files).tolist() == [*[1.0] * (len(numbers) - 1), 0.0]
    assert found.tolist() == measure([every], layout, queries).costs.files.tolist()
