"""Spark event logs as a workload: a real one, and what logs may hold besides."""

import gzip
import json
import os
from pathlib import Path

import pytest

from zlayout.errors import SpecError
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate
from zlayout.workload import event_log, files, read_workload
from zlayout.workload.event_log import NOT_READ, _scan, is_event_log, partition_filters, pushed_filters, sql_filters

REAL = Path(__file__).parents[2] / "fixtures" / "demo-event-log.gz"
PLACE = "file:/tmp/advdemo/.demo/delta/tpch/lineitem"
HEAD = '{"Event":"SparkListenerLogStart","Spark Version":"4.1.4"}\n'


def start(*nodes: dict[str, object], name: str = "WholeStageCodegen (1)") -> str:
    tree = {"nodeName": name, "simpleString": name, "children": list(nodes), "metadata": {}}
    event = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return json.dumps({"Event": event, "executionId": 1, "sparkPlanInfo": tree}, separators=(",", ":")) + "\n"


def delta(pushed: str, partition: str = "[]") -> dict[str, object]:
    metadata = {"Location": "TahoeLogFileIndex(1 paths)[s3://b/a%20b/t]", "PushedFilters": pushed}
    return {"nodeName": "Scan parquet ", "children": [], "metadata": metadata | {"PartitionFilters": partition}}


def test_the_demo_s_queries_come_back_from_its_own_log() -> None:
    workload = read_workload([REAL])
    days = [Compare("l_shipdate", ">=", "1996-01-01"), Compare("l_shipdate", "<=", "1996-03-31")]
    assert [(s.table, s.predicate, s.query.weight) for s in workload.scans if "/" in s.table] == [
        (PLACE, Compare("l_shipdate", "=", "1995-06-17"), 1.0),
        (PLACE, Compare("l_partkey", "=", "12345"), 1.0),
        (PLACE, And((*days, Compare("l_partkey", "<", "2000"))), 1.0),
    ]
    # Iceberg prints dates as days since 1970: 9298 is 1995-06-17
    numbers = (("l_shipdate", ">=", 9496), ("l_shipdate", "<=", 9586), ("l_partkey", "<", 2000))
    assert [(s.table, s.predicate) for s in workload.scans if "/" not in s.table] == [
        ("ice.tpch.lineitem", Compare("l_shipdate", "=", 9298)),
        ("ice.tpch.lineitem", Compare("l_partkey", "=", 12345)),
        ("ice.tpch.lineitem", And(tuple(Compare(*n) for n in numbers))),
    ]
    assert workload.unused == ()
    assert workload.queries == 6


def test_queries_of_logs_do_not_count_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, sql = tmp_path / "log", tmp_path / "q.sql"
    log.write_text(HEAD + "".join(start(delta(f"[EqualTo(a,{n})]")) for n in range(3)))
    sql.write_text("SELECT 1; SELECT 2")
    monkeypatch.setattr(files, "MAX_QUERIES", 2)
    assert read_workload([log, sql]).queries == read_workload([sql, log]).queries == 5
    monkeypatch.setattr(files, "MAX_QUERIES", 1)
    for paths in ([log, sql], [sql, log]):
        with pytest.raises(SpecError, match=r"q\.sql: ZL070"):
            read_workload(paths)


PUSHED: list[tuple[str, Predicate]] = [
    ("EqualTo(a,x, y)", Compare("a", "=", "x, y")),
    ("EqualTo(a,x (y))", Compare("a", "=", "x (y)")),
    ("EqualTo(s.a,1)", Compare("s.a", "=", "1")),
    ("EqualTo(`a.b`,1)", Compare("`a.b`", "=", "1")),
    ("EqualNullSafe(a,null)", IsNull("a")),
    ("EqualNullSafe(a,5)", And((Compare("a", "=", "5"), Not(IsNull("a"))))),
    ("In(a, [MAIL,SHIP])", In("a", ("MAIL", "SHIP"))),
    ("In(a, [null,MAIL])", In("a", ("MAIL",))),
    ("StringStartsWith(a,PRO)", And((Compare("a", ">=", "PRO"), Compare("a", "<", "PRP")))),
    ("Not(EqualTo(a,1))", Not(Compare("a", "=", "1"))),
    (
        "Or(And(GreaterThan(a,1),LessThanOrEqual(b,2)),EqualTo(a,7))",
        Or((And((Compare("a", ">", "1"), Compare("b", "<=", "2"))), Compare("a", "=", "7"))),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PUSHED)
def test_a_pushed_filter_is_read_back(text: str, expected: Predicate) -> None:
    assert pushed_filters(f"[IsNotNull(a), {text}]") == ([Not(IsNull("a")), expected], ())


@pytest.mark.parametrize(
    "text",
    [
        "StringContains(a,x)",
        "AlwaysTrue()",
        "EqualTo(a,x",
        "EqualTo(a)",
        "Rubbish(a,1)",
        "Or(EqualTo(a,1))",
        "In(a, [null])",
    ],
)
def test_a_filter_that_cannot_be_used_is_listed_with_a_reason(text: str) -> None:
    found, left = pushed_filters(f"[{text}]")
    assert found == []
    assert [item for item, _ in left] == [text]
    assert all(reason for _, reason in left)


def test_partition_filters_of_delta() -> None:
    text = "[isnotnull(region#12), (region#12 = east), (day#3 >= 2026-01-01), n#4 IN (1,2), (upper(region#12) = E)]"
    found, left = partition_filters(text)
    assert found == [
        Not(IsNull("region")),
        Compare("region", "=", "east"),
        Compare("day", ">=", "2026-01-01"),
        In("n", ("1", "2")),
    ]
    assert [item for item, _ in left] == ["(upper(region#12) = E)"]


@pytest.mark.parametrize(
    "text",
    [
        "(city#1 = Subquery subquery#12, [id=#34])",
        "(city#1 = home#2)",
        "(city#1 = a) b)",
        "city#1 IN (Washington, DC,Boston)",
        "city#1 IN (home#2,Boston)",
    ],
)
def test_a_partition_filter_that_can_be_read_in_two_ways_is_left_out(text: str) -> None:
    found, left = partition_filters(f"[isnotnull(city#1), {text}]")
    assert found == [Not(IsNull("city"))]
    assert [item for item, _ in left] == [text]


def test_a_partition_value_may_have_a_comma() -> None:
    found, left = partition_filters("[(city#1 = Washington, DC), (n#2 = 1)]")
    assert found == [Compare("city", "=", "Washington, DC"), Compare("n", "=", "1")]
    assert left == ()


def test_text_that_no_scan_prints_is_read_in_one_pass() -> None:
    text = "IcebergScan(table=x," * 50_000
    assert _scan({"nodeName": "BatchScan", "simpleString": text}, ()) is None
    assert _scan({"metadata": {"Location": "Tahoe" * 200_000}}, ()) is None


def test_filters_that_the_parser_did_not_foresee_are_left_out() -> None:
    assert sql_filters("LIKE MAP ( x x") == ([], (("LIKE MAP ( x x", NOT_READ),))


def test_filters_of_iceberg_are_sql() -> None:
    found, left = sql_filters("a IS NOT NULL, a IN ('x, y', 'z'), (b > 5 OR b < 1), c LIKE 'p%'")
    assert found == [
        And(
            (
                Not(IsNull("a")),
                In("a", ("x, y", "z")),
                Or((Compare("b", ">", 5), Compare("b", "<", 1))),
                Compare("c", ">=", "p"),
                Compare("c", "<", "q"),
            )
        )
    ]
    assert left == ()
    assert sql_filters("") == ([], ())
    assert sql_filters("not ( sql")[0] == []


def test_equal_executions_are_one_query_by_its_number_of_runs(tmp_path: Path) -> None:
    log = tmp_path / "local-1"
    one, other = start(delta("[IsNotNull(a), EqualTo(a,1)]")), start(delta("[EqualTo(a,2)]", "[(region#1 = east)]"))
    log.write_text(HEAD + one + other + one)
    workload = read_workload([log])
    assert [(s.query.location, s.table, s.predicate, s.query.weight) for s in workload.scans] == [
        (f"{log}:2", "s3://b/a b/t", Compare("a", "=", "1"), 2.0),
        (f"{log}:3", "s3://b/a b/t", And((Compare("a", "=", "2"), Compare("region", "=", "east"))), 1.0),
    ]
    assert workload.queries == 2


def test_what_no_log_should_hold_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    broken = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", broken\n'
    bare = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"}\n'
    log.write_text(HEAD + broken + bare + start({"nodeName": "Scan", "metadata": 5}) + start(delta("[EqualTo(a,1)]")))
    assert [s.predicate for s in read_workload([log]).scans] == [Compare("a", "=", "1")]


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = (HEAD + start(delta("[EqualTo(a,1)]")) + start(delta("[EqualTo(a,2)]"))).encode()
    plain = tmp_path / "plain"
    plain.write_bytes(whole[:-10])
    assert len(read_workload([plain]).scans) == 1
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(whole)[:-12])
    assert len(read_workload([cut]).scans) <= 2


def test_a_long_line_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    long, short = start(delta(f"[EqualTo(a,{'x' * 1000})]")), start(delta("[EqualTo(a,2)]"))
    log.write_text(HEAD + long + short)
    monkeypatch.setattr(event_log, "MAX_LINE_BYTES", len(short) + 1)
    broken: list[int] = []
    scans, _, _ = event_log.read_event_log(log, broken.append)
    assert broken == [2]
    assert [(s.query.location, s.predicate) for s in scans] == [(f"{log}:3", Compare("a", "=", "2"))]


def test_a_rolling_log_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1").touch()
    (folder / "events_1_local-1").write_text(HEAD)
    (folder / "events_10_local-1").write_text(start(delta("[EqualTo(a,10)]")))
    (folder / "events_2_local-1").write_text(start(delta("[EqualTo(a,2)]")))
    assert [s.predicate for s in read_workload([folder]).scans] == [Compare("a", "=", "2"), Compare("a", "=", "10")]


def test_other_files_are_no_event_logs(tmp_path: Path) -> None:
    sql = tmp_path / "q.sql"
    sql.write_text("select 1")
    assert not is_event_log(sql)
    assert not is_event_log(tmp_path)
    assert not is_event_log(tmp_path / "missing")
    assert is_event_log(REAL)


def test_a_file_that_is_not_an_event_log_is_rejected(tmp_path: Path) -> None:
    cut = gzip.compress(b'{"Event":"SparkListenerLogStart"}\n' * 100)
    for name, content in {
        "empty": b"",
        "text.sql": b"select 1",
        "bad.gz": cut[:12] + b"\xff" * 20,
        "no.gz": b"x",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert not is_event_log(tmp_path / name)
    os.mkfifo(tmp_path / "pipe")
    assert not is_event_log(tmp_path / "pipe"), "and nobody waited for it"
    assert not is_event_log(tmp_path / "none")
    assert not is_event_log(Path("a\0b"))
