"""Spark event logs as a workload: a real one, and what logs may hold besides."""

import gzip
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from zlayout.errors import SpecError
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate, columns
from zlayout.workload import event_log, files, statements
from zlayout.workload.event_log import (
    NOT_READ,
    LeftOut,
    _Node,
    _scan,
    event_logs,
    is_event_log,
    partition_filters,
    pushed_filters,
    sql_filters,
)
from zlayout.workload.files import read_workload

REAL = Path(__file__).parents[2] / "fixtures" / "demo-event-log.gz"
LOGS = REAL.parent / "event-logs"
PACKED = ("local-1.zstd", "local-1.lz4", "local-1.snappy", "eventlog_v2_local-1")
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
    assert _scan(_Node("BatchScan", text, None), ()) is None
    assert _scan(_Node("Scan", "", {"Location": "Tahoe" * 200_000}), ()) is None


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
    assert sql_filters("a = 'O''Brien'") == ([Compare("a", "=", "O'Brien")], ())
    assert sql_filters("") == ([], ())
    assert sql_filters("not ( sql")[0] == []


@pytest.mark.parametrize(
    ("text", "used", "left"),
    [
        ("a = 1, order status = 'open', b < 2", ["a", "b"], ["order status = 'open'"]),
        ("a = 1, code = 'P'1', b < 2", ["a"], ["code = 'P'1'", "b < 2"]),  # b may be a part of the value
        ("order status = 'x, a = 1, y', b < 2", ["b"], ["order status = 'x", "a = 1", "y'"]),
        ("order status = 'open'", [], ["order status = 'open'"]),
    ],
)
def test_filters_that_are_no_sql_leave_the_others(text: str, used: list[str], left: list[str]) -> None:
    found, unread = sql_filters(text)
    assert sorted(column for predicate in found for column in columns(predicate)) == used
    assert unread == tuple((part, NOT_READ) for part in left)


def test_equal_filters_of_iceberg_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = statements.parse
    monkeypatch.setattr(statements, "parse", lambda text, *others: parsed.append(text) or parse(text, *others))
    described = "BatchScan t[a#1] IcebergScan(table=t, branch=null, filters=a = {}, runtimeFilters=, groupedBy=)"
    nodes = [{"nodeName": "BatchScan t", "simpleString": described.format(76001 + n % 2)} for n in range(20)]
    log = tmp_path / "log"
    log.write_text(HEAD + "".join(map(start, nodes)))
    assert [(s.predicate, s.query.weight) for s in event_log.read_event_log(log).scans] == [
        (Compare("a", "=", 76001), 10.0),
        (Compare("a", "=", 76002), 10.0),
    ]
    assert len([text for text in parsed if text.startswith("SELECT a = ")]) == 2


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
    scans = event_log.read_event_log(log, broken.append).scans
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


@pytest.mark.parametrize("name", PACKED)
def test_logs_that_spark_compressed_without_the_scans_of_its_writers(name: str) -> None:
    assert is_event_log(LOGS / name)
    log = event_log.read_event_log(LOGS / name)
    day = And((Compare("day", ">=", "2026-02-03"), Compare("day", "<=", "2026-02-10"), Compare("region", "=", "r1")))
    assert [(s.table, s.predicate, s.query.weight) for s in log.scans] == [
        ("file:/tmp/tables/delta/db/o", Compare("day", "=", "2026-02-03"), 1.0),
        ("file:/tmp/tables/delta/db/o", day, 1.0),
    ]
    assert log.queries == 2
    # an append, MERGE and DELETE, and OPTIMIZE: the plans with scans are of executions that these have started
    assert log.left_out == {LeftOut.WRITE: 1, LeftOut.CHANGE: 2, LeftOut.COMMAND: 1}


def unpacked(content: bytes, path: Path) -> bytes:
    path.write_bytes(content)
    with event_log._open_log(path) as stream:
        return stream.read()


@pytest.mark.parametrize("name", PACKED[:3])
def test_what_is_cut_off_or_damaged_is_not_read_as_something_else(name: str, tmp_path: Path) -> None:
    packed = (LOGS / name).read_bytes()
    whole, log = unpacked(packed, tmp_path / "whole"), tmp_path / "log"
    assert whole.startswith(HEAD.encode())
    assert whole.count(b"\n") == 11
    assert unpacked(packed + packed, log) == whole + whole
    for end in (*range(40), *range(40, len(packed), 997)):
        log.write_bytes(packed[:end])
        found: list[bytes] = []
        try:
            with event_log._open_log(log) as stream:
                while line := stream.readline():
                    found.append(line)
        except EOFError:
            pass
        # fewer bytes than the name of a codec are no log, and any others are the beginning of the log
        assert end < 8 or whole.startswith(b"".join(found)), end
    for at in range(8, len(packed), 499):
        log.write_bytes(packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :])
        with suppress(SpecError):
            event_log.read_event_log(log)


def lz4(data: bytes, size: int, token: int = 0x25) -> bytes:
    return event_log.LZ4_HEADER.pack(b"LZ4Block", token, len(data), size, 0) + data


def snappy(*blocks: bytes) -> bytes:
    head = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


BLOCK = pa.Codec("lz4_raw").compress(b"x" * 1000, asbytes=True)
REFUSED = {
    "a longer block": lz4(BLOCK, 999),
    "a shorter block": lz4(BLOCK, 1001),
    "a stored block of another size": lz4(b"abc", 4, 0x15),
    "an unknown method": lz4(b"abc", 3, 0x35),
    "a large block": lz4(bytes(event_log.MAX_BLOCK_BYTES + 1), event_log.MAX_BLOCK_BYTES + 1, 0x15),
    "a negative size": lz4(BLOCK, -1),
    "no block": lz4(b"", 1000),
    "another stream": lz4(BLOCK, 1000) + lz4(b"abc", 3, 0x15).replace(b"LZ4", b"LZ5"),
    "a longer chunk": snappy(b"\x03" + pa.compress(b"abcd", "snappy", asbytes=True)[1:]),
    "a shorter chunk": snappy(b"\x7f" + pa.compress(b"abcd", "snappy", asbytes=True)[1:]),
    "a large chunk": snappy(pa.compress(bytes(event_log.MAX_BLOCK_BYTES + 1), "snappy", asbytes=True)),
    "no size": snappy(b"\xff" * 9),
    "an empty chunk": snappy(b""),
    "a long chunk": snappy()[:16] + b"\x7f\xff\xff\xff",
    "zstd with a window of 2 GiB": b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(20),
    "after zstd": zstandard.compress(b"{}\n") + b"{}\n{}\n",
    "LZF": b"ZV\x01\x3e\x01\xff\xff\x1f",
}


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED)
def test_streams_that_are_not_as_spark_writes_them_are_refused(content: bytes, tmp_path: Path) -> None:
    log = tmp_path / "local-1"
    log.write_bytes(content)
    assert is_event_log(log)
    with pytest.raises(SpecError, match=r"local-1: ZL002 cannot read the event log: .*\w"):
        event_log.read_event_log(log)


def test_blocks_as_spark_writes_them(tmp_path: Path) -> None:
    log, end = tmp_path / "log", lz4(b"", 0, 0x15)
    assert unpacked(lz4(BLOCK, 1000) + lz4(b"abc", 3, 0x15) + end, log) == b"x" * 1000 + b"abc"
    assert unpacked(lz4(BLOCK, 1000) + end + lz4(BLOCK, 1000), log) == b"x" * 2000
    block = pa.compress(b"y" * 1000, "snappy", asbytes=True)
    assert unpacked(snappy(block, block) + snappy(block), log) == b"y" * 3000
    assert unpacked(snappy(b"\0", block), log) == b"y" * 1000
    most = b"z" * event_log.MAX_BLOCK_BYTES
    assert unpacked(lz4(pa.Codec("lz4_raw").compress(most, asbytes=True), len(most)), log) == most


def test_a_compacted_file_replaces_the_files_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    names = ("1_local-1", "2_local-1", "2_local-1.compact", "4_local-1.compact", "4_local-1", "5_local-1", "10_local-1")
    for number, name in enumerate(names):
        (folder / f"events_{name}").write_text(start(delta(f"[EqualTo(a,{number})]")))
    (folder / "events_x").write_text("other")
    assert [s.predicate for s in read_workload([folder]).scans] == [Compare("a", "=", str(n)) for n in (3, 5, 6)]


def test_a_file_of_a_rolling_log_that_is_cut_off_does_not_end_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    shutil.copytree(LOGS / folder.name, folder)
    first = folder / "events_1_local-1.zstd"
    whole = unpacked(first.read_bytes(), tmp_path / "whole")
    blocks = lz4(whole[:9000], 9000, 0x15) + lz4(whole[9000:], len(whole) - 9000, 0x15)
    first.write_bytes(blocks[:-10])
    found = event_log.read_event_log(folder)
    assert found.queries == 1
    # of MERGE, only an execution that it has started remains
    assert found.left_out == {LeftOut.CHANGE: 1, LeftOut.COMMAND: 1, LeftOut.UNKNOWN: 1}


def test_a_folder_of_applications(tmp_path: Path) -> None:
    shutil.copytree(LOGS, tmp_path / "logs")
    (tmp_path / "logs/README.md").write_text("no log")
    assert [path.name for path in event_logs(tmp_path / "logs")] == sorted(PACKED)
    assert read_workload([tmp_path / "logs"]).queries == 8
    assert event_logs(tmp_path) == [tmp_path]
    assert event_logs(LOGS / PACKED[-1]) == [LOGS / PACKED[-1]]
    assert event_logs(Path("a\0b")) == [Path("a\0b")]


# as Spark 3.5 describes a write to the format noop
NOOP = (
    "OverwriteByExpression org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$$Lambda$3575/"
    "0x00007f8501155b78@740b28a1, org.apache.spark.sql.execution.datasources.noop.NoopWrite$@6f2e1a7"
)


def test_the_statement_of_an_execution_may_come_later(tmp_path: Path) -> None:
    log, scan = tmp_path / "log", delta("[EqualTo(a,1)]")

    def execution(number: int, root: object, name: str, *nodes: dict[str, object]) -> str:
        event = json.loads(start(*nodes, name=name))
        return json.dumps(event | {"executionId": number, "rootExecutionId": root}, separators=(",", ":")) + "\n"

    log.write_text(
        HEAD
        + execution(1, 2, "Project", scan)
        + execution(2, 2, "Execute UpdateCommand")
        + execution(3, 3, "Project", scan)
        + execution(4, None, "AppendData", scan)
        + execution(5, "x", "Project", scan)
        + execution(7, 6, "Project", scan)
        + execution(6, 6, "CacheTable", scan)
        + execution(8, 8, "OverwriteByExpression", scan, scan)
        + execution(9, 9, "AppendData", scan).replace(
            '"simpleString":"AppendData"', '"simpleString":"AppendData NoopWrite"'
        )
        + execution(10, 10, "AppendData", scan).replace('"simpleString":"AppendData"', f'"simpleString":"{NOOP}"')
        + execution(12, 11, "AppendData", scan)
        + execution(11, 11, "Call")
    )
    found = event_log.read_event_log(log)
    assert [(s.query.location, s.query.weight) for s in found.scans] == [(f"{log}:4", 6.0)]
    assert found.left_out == {LeftOut.CHANGE: 1, LeftOut.WRITE: 2, LeftOut.COMMAND: 1}


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
