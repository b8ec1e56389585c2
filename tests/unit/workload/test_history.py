"""Query histories of engines become a workload: formats, shapes, constants, and the lines that cannot be read."""

import gzip
import json
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

import zlayout
from zlayout.cli.main import run
from zlayout.errors import Location, SpecError
from zlayout.predicate.model import And, Compare
from zlayout.workload import histories
from zlayout.workload.files import read_workload
from zlayout.workload.histories import (
    CHECKED,
    MAX_FIELD,
    Executed,
    History,
    Templates,
    Values,
    merge,
    query_of,
    read_history,
)

REAL = Path(__file__).parents[2] / "fixtures" / "demo-event-log.gz"
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: tables}\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    return tmp_path


def imported(text: str | list[object], name: str, values: str = "keep", bins: int = 10) -> zlayout.ImportedWorkload:
    """Import one file. A list is written as one JSON object per line."""
    Path(name).write_text(text if isinstance(text, str) else "".join(f"{json.dumps(line)}\n" for line in text))
    return zlayout.import_workload(zlayout.load_project(), [name], values, bins)


def lines(found: zlayout.ImportedWorkload) -> list[tuple[float, str]]:
    """The weights and statements of the written file, as the product reads it again."""
    weights = [float(line.removeprefix("-- weight: ")) for line in found.text.splitlines()[::2]]
    return list(zip(weights, (line.rstrip(";") for line in found.text.splitlines()[1::2]), strict=True))


def trino(query: str, state: str = "FINISHED") -> dict[str, object]:
    context = {"user": "u", "catalog": "iceberg", "schema": "sales", "environment": "production"}
    metadata = {"queryId": "20261125_1", "query": query, "queryState": state, "tables": []}
    return {"createTime": "2026-11-25T10:00:00Z", "context": context, "metadata": metadata, "statistics": {}}


def test_events_of_trino_with_the_schema_of_the_session() -> None:
    found = imported(
        [
            trino("SELECT * FROM \"Orders\" o WHERE o.a = 5 AND date_trunc('day', o.t) > current_date"),
            trino("SELECT * FROM orders WHERE a = 5", "FAILED"),
            trino("SELECT * FROM orders WHERE a = 5", "QUEUED"),
            trino("SELECT * FROM iceberg.sales.orders WHERE a IN (1, 2)"),
            trino("WITH big AS (SELECT * FROM orders WHERE a > 7) SELECT count(*) FROM big"),
            trino("SHOW TABLES"),
        ],
        "events.json",
    )
    texts = [text for _, text in lines(found)]
    assert any(text.startswith("SELECT * FROM sales.`Orders` AS o WHERE o.a = 5") for text in texts)
    assert "SELECT * FROM sales.orders WHERE a IN (1, 2)" in texts
    assert "WITH big AS (SELECT * FROM sales.orders WHERE a > 7) SELECT COUNT(*) FROM big" in texts
    assert found.left_out == {
        "failed or cancelled queries": 1,
        "queries that had not ended": 1,
        "statements that read no table by a query": 1,
    }
    assert found.problems == ()


SAMPLES = {
    "databricks.csv": (
        "statement_id,execution_status,statement_text,statement_type\n"
        "1,FINISHED,\"SELECT * FROM lake.db.orders WHERE a = 5 AND b = 'O''Brien'\",SELECT\n"
        "2,FAILED,SELECT 1 FROM t,SELECT\n",
        r"SELECT * FROM lake.db.orders WHERE a = 5 AND b = 'O\'Brien'",
    ),
    "snowflake.csv": (
        "QUERY_ID,QUERY_TEXT,DATABASE_NAME,SCHEMA_NAME,EXECUTION_STATUS\n"
        "1,\"SELECT * FROM orders WHERE a::int = 5 AND b ILIKE 'x'\",prod,db,SUCCESS\n2,SELECT 1 FROM t,prod,db,FAIL\n",
        "SELECT * FROM db.orders WHERE CAST(a AS INT) = 5 AND b ILIKE 'x'",
    ),
    "trino.csv": (
        "query_id,state,user,source,query\n1,FINISHED,u,,SELECT * FROM db.orders WHERE a = DATE '2026-01-01'\n",
        "SELECT * FROM db.orders WHERE a = CAST('2026-01-01' AS DATE)",
    ),
    "bigquery.csv": (
        "job_id,job_type,state,statement_type,query\n1,QUERY,DONE,SELECT,SELECT * FROM `proj`.db.orders WHERE a = 5\n",
        "SELECT * FROM db.orders WHERE a = 5",
    ),
    "athena.json": (
        json.dumps(
            {
                "QueryExecutions": [
                    {
                        "QueryExecutionId": "1",
                        "Query": "SELECT * FROM orders WHERE a = 5",
                        "StatementType": "DML",
                        "QueryExecutionContext": {"Database": "db", "Catalog": "awsdatacatalog"},
                        "Status": {"State": "SUCCEEDED"},
                    }
                ]
            },
            indent=2,
        ),
        "SELECT * FROM db.orders WHERE a = 5",
    ),
    "bigquery.json": (
        json.dumps(
            [
                {
                    "configuration": {
                        "query": {"query": "SELECT * FROM orders WHERE a = 5", "defaultDataset": {"datasetId": "db"}}
                    },
                    "status": {"state": "DONE"},
                },
                {
                    "configuration": {"query": {"query": "SELECT * FROM orders WHERE a = 6"}},
                    "status": {"state": "DONE", "errorResult": {"reason": "invalidQuery"}},
                },
            ]
        ),
        "SELECT * FROM db.orders WHERE a = 5",
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_histories_of_other_engines(name: str) -> None:
    found = imported(SAMPLES[name][0], name)
    assert lines(found) == [(1, SAMPLES[name][1])]
    assert found.problems == ()
    assert found.left_out.get("failed or cancelled queries", 0) == SAMPLES[name][0].upper().count("FAIL") + SAMPLES[
        name
    ][0].count("invalidQuery")


def test_a_real_event_log_and_its_import_are_the_same_workload() -> None:
    found = zlayout.import_workload(zlayout.load_project(), [REAL], "keep")
    Path("imported.sql").write_text(found.text)
    before, after = read_workload([REAL]), read_workload([Path("imported.sql")])

    def scans(of: object) -> list[tuple[str, str, float]]:
        names = ((s.table.removeprefix("ice."), str(s.predicate), s.query.weight) for s in of.scans)  # type: ignore[attr-defined]
        return sorted(names)

    assert scans(after) == scans(before)
    assert after.unread == after.unused == ()


def test_equal_shapes_are_merged_with_their_counts() -> None:
    events = [trino(f"SELECT * FROM orders WHERE a = {n % 100}") for n in range(300)]
    kept = lines(imported(events, "events.json", "keep"))
    assert len(kept) == 100
    assert {weight for weight, _ in kept} == {3}
    # The middles of ten equal shares of the values 0 to 99, each three times.
    binned = sorted(int(text.rpartition(" ")[2]) for _, text in lines(imported(events, "events.json", "bin")))
    assert binned == [4, 14, 24, 34, 44, 54, 64, 74, 84, 94]
    assert {weight for weight, _ in lines(imported(events, "events.json", "bin"))} == {30}
    assert lines(imported(events, "events.json", "omit")) == [(300, "SELECT * FROM sales.orders WHERE a = ?")]


def test_left_out_constants_are_in_no_text() -> None:
    queries = ["a = 'secret' AND b IN (471, 472)", "a = 'other' AND b IN (473, 474, 475)"]
    found = imported([trino(f"SELECT 'shown', 99 FROM t WHERE {q} /* secret */") for q in queries], "e.json", "omit")
    assert lines(found) == [(2, "SELECT ?, ? FROM sales.t WHERE a = ? AND b IN (?)")]
    unused = read_workload([_written(found.text)]).unused
    assert {u.reason for u in unused} == {"a value that the workload leaves out (`?`)"}


def _written(text: str) -> Path:
    Path("w.sql").write_text(text)
    return Path("w.sql")


def test_lines_that_cannot_be_read_are_named() -> None:
    good = json.dumps(trino("SELECT * FROM t WHERE a = 1"))
    bad = json.dumps(trino("SELECT FROM WHERE ("))
    found = imported(f'{good}\n{{"broken\n{bad}\n{{"other": 1}}\n{good}\n', "events.json")
    assert [str(p.location) for p in found.problems] == ["events.json:2:1", "events.json:4:1", "events.json:3:1"]
    assert [p.reason[:30] for p in found.problems] == [
        "not JSON: Unterminated string ",
        "expected a record of a known q",
        "a statement that cannot be par",
    ]
    assert found.executions == 2
    rows = imported("query_id,state,query\n1,FINISHED,SELECT 1 FROM t\n2,FINISHED\n3,,SELECT 1 FROM t\n", "q.csv")
    assert [str(p.location) for p in rows.problems] == ["q.csv:3:1", "q.csv:4:1"]


def test_an_invalid_count_is_named() -> None:
    found = imported("query,count\nSELECT 1 FROM t,1e13\nSELECT 1 FROM t,many\nSELECT 1 FROM t,2\n", "q.csv")
    assert [p.reason for p in found.problems] == [
        "expected a count above 0, at most 1,000,000,000,000, found '1e13'",
        "expected a count above 0, at most 1,000,000,000,000, found 'many'",
    ]
    assert found.executions == 2


def test_a_broken_line_of_an_event_log_is_named() -> None:
    log = gzip.decompress(REAL.read_bytes()).split(b"\n")
    at = next(n for n, line in enumerate(log) if b"SQLExecutionStart" in line[:200])
    log[at] = log[at][:300]
    Path("log").write_bytes(b"\n".join(log))
    assert [(str(p.location), p.reason) for p in read_history([Path("log")]).problems] == [
        (f"log:{at + 1}:1", "expected a JSON object on a line of at most 16 MiB")
    ]


LOGS = REAL.parent / "event-logs"


def test_logs_of_a_folder_are_read_although_one_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(LOGS, "logs")
    Path("logs/local-2.lzf").write_bytes(b"ZV\1\0\0\0\0\0")
    assert run(["workload", "import", "logs", "--keep-values"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "wrote workloads/imported.sql: 2 statements for 8 executions\n"
    assert [line.split(":", 3)[-1] for line in shown.err.splitlines() if "not imported" in line] == [
        " the codec lzf is not read; use zstd, lz4 or snappy as spark.eventLog.compression.codec"
    ]
    assert [line for line in shown.err.splitlines() if "left out" in line] == [
        "left out: 4 INSERT, CREATE TABLE AS SELECT and other statements that write tables or files",
        "left out: 8 MERGE, UPDATE and DELETE statements",
        "left out: 4 OPTIMIZE and other commands",
    ]


def test_a_log_without_queries_says_what_was_left_out() -> None:
    text = zstandard.open(LOGS / "local-1.zstd", "rt").read()
    kept = [line for line in text.splitlines() if '"rootExecutionId":1' not in line[:300]]
    Path("log").write_text("\n".join(kept) + "\n")
    with pytest.raises(SpecError, match=r"no query on a table; left out: 1 INSERT, .*; left out: 2 MERGE, .*OPTIMIZE"):
        zlayout.import_workload(zlayout.load_project(), ["log"])


def test_conditions_of_scans_that_are_not_imported_are_counted() -> None:
    scan = {"Location": "TahoeLogFileIndex(1 paths)[s3://b/t]", "PushedFilters": "[EqualTo(a,5), StringContains(b,x)]"}
    node = {"nodeName": "Scan parquet ", "children": [], "metadata": scan}
    event = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    started = json.dumps({"Event": event, "executionId": 1, "sparkPlanInfo": node})
    Path("log").write_text(f'{{"Event":"SparkListenerLogStart","Spark Version":"4.1.4"}}\n{started}\n')
    found = zlayout.import_workload(zlayout.load_project(), ["log"], "keep")
    assert lines(found) == [(1, "SELECT * FROM delta.`s3://b/t` WHERE `a` = '5'")]
    assert found.left_out == {"conditions of scans: a pushed filter that min and max cannot decide": 1}


def test_scan_reports_of_iceberg_have_no_values() -> None:
    eq = {"type": "eq", "term": "region", "value": "(hash-34d05fb7)"}
    past = {"type": "lt", "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": "(date)"}
    report = {"table-name": "lake.db.orders", "snapshot-id": 1, "filter": {"type": "and", "left": eq, "right": past}}
    commit = {"report-type": "commit-report", "table-name": "lake.db.orders", "snapshot-id": 1}
    found = imported([{"report-type": "scan-report"} | report, report, commit], "reports.json")
    assert lines(found) == [(2, "SELECT * FROM `lake`.`db`.`orders` WHERE (`region` = ? AND DAY(`ts`) < ?)")]
    assert found.left_out == {"reports of commits and other operations": 1}
    every = {**report, "filter": True}
    assert query_of(every) == "SELECT * FROM `lake`.`db`.`orders`"


def test_scan_reports_of_delta_kernel() -> None:
    scan = {
        "tablePath": "s3://Bucket/Orders",
        "operationType": "Scan",
        "reportUUID": "1",
        "filter": "((column(`a`) > 5) AND (column(`s`.`b`) = it's))",
    }
    line = (
        f"26/11/25 INFO LoggingMetricsReporter: io.delta.kernel.internal.metrics.ScanReportImpl = {json.dumps(scan)}\n"
    )
    found = imported(line + json.dumps(scan | {"operationType": "Snapshot"}) + "\n", "kernel.log")
    Path("w.sql").write_text(found.text)
    scans = read_workload([Path("w.sql")]).scans
    assert [(s.table, str(s.predicate)) for s in scans] == [
        (
            "s3://Bucket/Orders",
            "And(operands=(Compare(column='a', operator='>', value='5'), "
            "Compare(column='s.b', operator='=', value=\"it's\")))",
        )
    ]


def test_an_unknown_history_is_refused() -> None:
    with pytest.raises(SpecError) as error:
        imported("who,what\n1,2\n", "other.csv")
    assert error.value.diagnostics[0].code == "ZL078"
    with pytest.raises(SpecError, match="ZL078"):
        imported("x" * (MAX_FIELD + 1), "other.csv")  # a header that the CSV reader cannot read
    with pytest.raises(SpecError) as error:
        imported([trino("SHOW TABLES")], "events.json")
    assert error.value.diagnostics[0].code == "ZL079"


def test_the_command_writes_the_file_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.json").write_text(json.dumps(trino("SELECT * FROM t WHERE a = 1")) + "\n{\n")
    assert run(["workload", "import", "events.json"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "wrote workloads/imported.sql: 1 statement for 1 executions\n"
    assert "not imported: events.json:2:1: not JSON" in shown.err
    assert run(["workload", "import", "events.json"]) == 2 or "ZL079" in capsys.readouterr().err
    assert run(["workload", "import", "events.json", "--replace", "--no-values"]) == 0
    assert Path("workloads/imported.sql").read_text() == "-- weight: 1\nSELECT * FROM sales.t WHERE a = ?;\n"


STATEMENTS = [
    ("spark", "SELECT * FROM db.t WHERE a = {i} AND b IN ('{s}', 'x') AND c < {d} LIMIT {i}"),
    ("spark", "SELECT `a 1` FROM `t 2` WHERE `x'y` = '{s}' OR d > DATE '2026-01-{i}' AND CAST(e AS DECIMAL(9)) > {d}"),
    ("spark", "SELECT * FROM db.t WHERE t > current_timestamp() - INTERVAL '{i}' DAY AND u < -{i}"),
    ("spark", "SELECT * FROM db.t WHERE date_format(t, 'yyyy-MM-{s}') = '{s}'"),
    ("spark", "SELECT * FROM db.t WHERE a = X'{i}F' AND b = 'it''s {s}' -- {i}"),
    ("spark", "SELECT * FROM db.t{i} WHERE a = 1e{i} AND b = {i}L AND c = '' AND d = ' {s} '"),
    ("trino", "SELECT * FROM \"T {i}\" WHERE date_parse(a, '%Y-%m-{s}') < date '2026-01-01' AND b = {d}"),
    ("trino", "SELECT * FROM t WHERE a LIKE '{s}!%' ESCAPE '!' AND b BETWEEN {i} AND {d} AND c = '$.{s}'"),
    ("trino", "WITH q AS (SELECT a, {i} AS n FROM t WHERE b = '{s}') SELECT n FROM q WHERE n = {i} ORDER BY {i}"),
    ("bigquery", "SELECT * FROM `p.d.t` WHERE a = \"{s}\" AND b = '{s}' AND c = DATE_SUB(d, INTERVAL {i} DAY)"),
    ("snowflake", "SELECT * FROM t WHERE a:b.c = '{s}' AND d = $1 AND e > {d} AND f = DATEADD(day, -{i}, '2026')"),
    ("spark", "INSERT INTO t VALUES ({i}, '{s}')"),
    ("spark", "SELEC {i} FRM t WHERE '{s}'"),
]  # fmt: skip


def test_statements_of_a_template_are_read_as_each_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    executed = [
        Executed(text.format(i=number, s=word, d=f"{number}.25"), dialect, Location("q.sql", number), 1.0, "lake", "db")
        for number, word in ((1, "a"), (22, "bc"), (3, "zq00000zq"), (7700000, "d e"), (12, "1"), (77000017, "9"))
        for dialect, text in STATEMENTS
    ]

    def merged(values: Values) -> tuple[Any, ...]:
        history = History(list(executed))
        found = merge(history, frozenset({"lake"}), values, 3)
        return found, history.problems, history.left_out

    quick = [merged(values) for values in Values]
    monkeypatch.setattr(Templates, "_split", staticmethod(lambda _text: None))
    assert quick == [merged(values) for values in Values]
    assert len(quick[0][0]) > 30


def test_a_hundred_thousand_queries_are_parsed_once_for_each_template(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    seen: list[tuple[int, int]] = []
    parse = histories.parse
    monkeypatch.setattr(histories, "parse", lambda text, dialect: parsed.append(text) or parse(text, dialect))
    texts = (f"SELECT * FROM db.t WHERE k{n % 40} = {n} AND d > '2026-01-{n % 28}'" for n in range(100_000))
    history = History([Executed(text, "spark", Location("q.sql", 1)) for text in texts])
    found = merge(history, frozenset(), Values.BIN, on_progress=lambda done, total: seen.append((done, total)))
    assert (len(found), sum(count for _, count in found)) == (400, 100_000)
    assert len(parsed) == 40 * (1 + CHECKED)
    assert (seen[0], seen[-1], len(seen)) == ((0, 100_000), (99_000, 100_000), 100)


TRINO_FILE = """\
-- days: 7
-- weight: 3
SELECT * FROM db.t WHERE "day" >= date '2026-01-01' AND a LIKE 'x\\_%' ESCAPE '\\';
SELECT * FROM db.t WHERE "a ""b" = 'it''s; ' AND ts < timestamp '2026-01-01 00:00:00 UTC';
"""


def test_workload_files_of_another_dialect_are_written_as_spark_sql(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trino.sql").write_text(TRINO_FILE)
    Path("trino.csv").write_text('query,count\n"SELECT * FROM t WHERE ""day"" = 7",5\n')
    command = ["workload", "import", "trino.sql", "--keep-values", "--replace", "--dialect"]
    assert run([*command, "trino"]) == 0
    written = Path("workloads/imported.sql")
    assert written.read_text().startswith("-- days: 7\n-- weight: 3\n")
    of_day, quoted = (scan.predicate for scan in read_workload([written]).scans)
    prefix = (Compare("a", ">=", "x_"), Compare("a", "<", "x`"))
    assert of_day == And((Compare("day", ">=", date(2026, 1, 1)), *prefix))
    instant = Compare("ts", "<", datetime(2026, 1, 1, tzinfo=UTC))
    assert quoted == And((Compare('a "b', "=", "it's; "), instant))
    assert run([*command, "trino", "trino.csv"]) == 0
    first, second, *_ = written.read_text().splitlines()
    assert (first, second) == ("-- weight: 5", "SELECT * FROM t WHERE `day` = 7;"), "the CSV file states no days"
    assert run([*command, "tsql"]) == 64
    assert "'tsql' is not one of" in capsys.readouterr().err
    with pytest.raises(SpecError, match=r"ZL084 .* found 'tsql' \(use for example dialect='spark'\)"):
        zlayout.import_workload(zlayout.load_project(), ["trino.sql"], dialect="tsql")
