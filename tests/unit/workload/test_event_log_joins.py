"""Joins in the query plans of Spark's event logs become conditions on the keys of the tables."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import zstandard

import zlayout
from zlayout.predicate.model import Compare, In, InKeys, Keys, Predicate, conjunction
from zlayout.predicate.parse import to_sql
from zlayout.workload.event_log import MAX_HOPS, NOT_READ, NOT_TRACED, read_event_log
from zlayout.workload.files import read_workload
from zlayout.workload.histories import read_history

LOGS = Path(__file__).parents[2] / "fixtures" / "event-log-joins"
FACT, DATES, WIDE = "ice.db.t1", "ice.db.t1_d", "ice.db.t1_w"
MONTH = Compare("d_month", "=", 3)


def key(column: str, predicate: Predicate, of: str = "d_key", table: str = DATES) -> InKeys:
    return InKeys(column, (Keys(table, of, predicate),))


IN_MONTH = key("day", MONTH)
# The conditions on the fact in each distinct query of the log of Iceberg, in the order of the log; and the joins of it
# that are not used.
EXPECTED: list[tuple[list[InKeys], list[str]]] = [
    ([IN_MONTH], []),
    ([key("day", conjunction([In("d_month", (3, 4)), Compare("d_name", "=", "x, y")]))], []),
    ([], []),  # the kept side of an outer join, also NOT IN and NOT EXISTS
    ([IN_MONTH], []),  # the other side
    ([IN_MONTH, key("day", IN_MONTH, "day", FACT)], []),
    ([], ["day = d_key"]),  # UNION
    ([IN_MONTH, key("a", Compare("d_name", "=", "n5"))], []),
    ([], ["day = d_key"]),  # a window
    ([], ["day = (d_key + 1)"]),
    ([key("small", MONTH)], []),  # of type int
    ([], []),  # a condition that is a subquery
    ([], []),  # FULL JOIN
    ([key("day", Compare("c29", "=", 3), table=WIDE)], []),
]


def test_the_joins_of_iceberg() -> None:
    log = read_event_log(LOGS / "iceberg.zstd")
    found: dict[str, list[tuple[list[InKeys], list[str]]]] = {}
    for scan in log.scans:
        if scan.table == FACT:
            notes = [u.text for u in log.unused if u.query is scan.query and u.reason == NOT_TRACED]
            one = (list(scan.through), list(dict.fromkeys(notes)))
            if one not in found.setdefault(scan.query.location, []):
                found[scan.query.location].append(one)
    assert list(found.values()) == [[one] for one in EXPECTED]


def as_text(predicate: Predicate) -> str:
    """SQL in which the literals and names of both formats are equal."""
    text = to_sql(predicate).replace("delta.`file:/tmp/tables/delta/db/", "`ice`.`db`.`")
    return text.replace("'3'", "3").replace("'4'", "4")


def test_the_joins_of_delta_are_those_of_iceberg() -> None:
    log = read_event_log(LOGS / "delta.zstd")
    facts = [scan for scan in log.scans if scan.table.endswith("/t1")]
    found = [tuple(map(as_text, scan.through)) for scan in facts if scan.through]
    expected = [tuple(map(as_text, through)) for through, _ in EXPECTED if through]
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(expected))
    # EqualTo(d_month,ScalarSubquery#4287) is no condition on a constant
    assert [u.text for u in log.unused if u.reason == NOT_READ] == ["EqualTo(d_month,ScalarSubquery#4287)"]


def plan_of(name: str, number: int) -> tuple[str, dict[str, Any]]:
    lines = zstandard.decompress((LOGS / name).read_bytes()).decode().splitlines()
    return lines[0], json.loads(lines[number])


def changed(tmp_path: Path, change: Callable[[str], str], number: int = 1, name: str = "iceberg.zstd") -> Any:
    """The scans of one query whose plan is changed as text."""
    head, event = plan_of(name, number)
    event["sparkPlanInfo"] = json.loads(change(json.dumps(event["sparkPlanInfo"])))
    log = tmp_path / "local-1"
    log.write_text(f"{head}\n{json.dumps(event, separators=(',', ':'))}\n")
    return read_event_log(log)


CHANGES = {
    "full": ("Inner, BuildRight", "FullOuter, BuildRight"),
    "anti": ("Inner, BuildRight", "LeftAnti, BuildRight"),
    "unknown": ("Inner, BuildRight", "LeftSingle, BuildRight"),
    "reused": ('"nodeName": "Exchange"', '"nodeName": "ReusedExchange"'),
    "cached": ('"nodeName": "Filter"', '"nodeName": "InMemoryTableScan"'),
    "assigned": ("Project [d_key#155L]", "Project [upper(d_key#155L) AS d_key#155L]"),
    "names with commas": ("[day#152L] IcebergScan", "[x,day#152L] IcebergScan"),
    "two conversions": ("[day#152L], [d_key#155L]", "[cast(day#152 as bigint)], [cast(d_key#155 as bigint)]"),
    "a narrowing conversion": ("[day#152L], [d_key#155L]", "[cast(day#152L as int)], [d_key#155]"),
    "more keys on one side": ("[d_key#155L], Inner", "[d_key#155L, d_month#156], Inner"),
    "a branch": ("snapshotId=996884880816689425, branch=null", "snapshotId=1, branch=audit"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_certain_is_no_condition(change: str, tmp_path: Path) -> None:
    assert any(scan.through for scan in changed(tmp_path, lambda text: text).scans)
    before, after = CHANGES[change]
    log = changed(tmp_path, lambda text: text.replace(before, after))
    assert not any(scan.through for scan in log.scans if scan.table == FACT), change


@pytest.mark.parametrize(
    ("name", "pushed", "expected"),
    [
        ("int", "In(d_month, [3,4])", "`d_month` IN ('3', '4')"),
        ("string", "In(d_month, [3,4])", ""),  # perhaps one string
        ("string", "IsNull(d_month)", ""),  # perhaps a comparison with 'null'
        ("string", "Not(In(d_month, [3,4]))", ""),
        ("string", "EqualTo(d_month,3)", "`d_month` = '3'"),
        ("string", "Or(EqualTo(d_month,3),In(d_month, [3,4]))", ""),
        ("decimal(5,2)", "Or(EqualTo(d_month,3.10),IsNull(d_month))", "(`d_month` = '3.10') OR (`d_month` IS NULL)"),
        ("timestamp", "EqualTo(d_month,3)", ""),
    ],
)
def test_only_what_delta_prints_in_one_way_selects_keys(name: str, pushed: str, expected: str, tmp_path: Path) -> None:
    def change(text: str) -> str:
        text = text.replace("IsNotNull(d_month), EqualTo(d_month,3)", pushed)
        return text.replace("d_key:bigint,d_month:int", f"d_key:bigint,d_month:{name}")

    log = changed(tmp_path, change, name="delta.zstd")
    (scan,) = (scan for scan in log.scans if scan.table.endswith("/t1"))
    found = [to_sql(one.sets[0].predicate) for one in scan.through]
    assert found == ([expected] if expected else [])


def test_a_plan_of_any_nodes_is_read_in_bounded_time(tmp_path: Path) -> None:
    """A chain of joins, each with the scan of a table and a filter on it: the hops and the scans are limited."""
    rng = random.Random(5)

    def scan(n: int) -> dict[str, Any]:
        text = f"BatchScan i.d.t{n}[k#{n}L, v#{n + 10_000}] IcebergScan(table=i.d.t{n}, branch=null, filters=v = {n}, "
        return {
            "nodeName": f"BatchScan i.d.t{n}",
            "simpleString": f"{text}runtimeFilters=, groupedBy=)",
            "children": [],
        }

    for count in (150, 1500):
        tree = scan(0)
        for n in range(1, count):
            text = f"SortMergeJoin [k#{rng.randrange(n)}L], [k#{n}L], Inner"
            tree = {"nodeName": "SortMergeJoin", "simpleString": text, "children": [tree, scan(n)]}
        head, event = plan_of("iceberg.zstd", 1)
        event["sparkPlanInfo"] = tree
        log = tmp_path / "local-1"
        log.write_text(f"{head}\n")
        try:
            line = json.dumps(event)
        except RecursionError:
            continue
        log.write_text(f"{head}\n{line}\n")
        scans = read_event_log(log).scans
        assert all(text.count("SELECT") <= MAX_HOPS * 100 for s in scans for text in map(to_sql, s.through))


def test_plan_uses_the_joins_of_a_log_with_the_tables_at_its_locations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    days = pa.table({"a": range(100), "day": range(100), "qty": range(100), "small": pa.array(range(100), pa.int32())})
    for at in range(0, 100, 10):
        deltalake.write_deltalake("tables/db/t1", days.slice(at, 10), mode="append")
    months = pa.array([n // 10 for n in range(100)], pa.int32())
    dates = pa.table({"d_key": range(100), "d_month": months, "d_name": [f"n{n}" for n in range(100)]})
    deltalake.write_deltalake("tables/db/t1_d", dates)
    (tmp_path / "zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: ./tables}\nworkload: {engine: trino}\n"
    )
    (tmp_path / "layouts").mkdir()
    layout = "version: 1\ntable: lake.db.t1\nzorder: {columns: [a, day]}\nworkload: log\n"
    (tmp_path / "layouts" / "t1.yaml").write_text(layout)
    head, event = plan_of("delta.zstd", 1)
    text = json.dumps(event, separators=(",", ":")).replace("/tmp/tables/delta", f"{tmp_path}/tables")
    (tmp_path / "log").write_text(f"{head}\n{text}\n")
    forecast = zlayout.plan(zlayout.load_project(), sample=False).tables[0].workload
    assert forecast is not None
    assert (forecast.now.files, forecast.through) == (1, (f"day = file:{tmp_path}/tables/db/t1_d",))


@pytest.mark.parametrize("name", ["iceberg.zstd", "delta.zstd"])
def test_import_writes_the_conditions_as_statements(name: str, tmp_path: Path) -> None:
    log = read_event_log(LOGS / name)
    executed = [one.text for one in read_history([LOGS / name]).executed]
    assert len(executed) == len(log.scans)
    for scan, text in zip(log.scans, executed, strict=True):
        (tmp_path / "q.sql").write_text(text)
        again = [s for s in read_workload([tmp_path / "q.sql"]).scans if s.table == scan.table]
        through = [to_sql(one) for s in again for p in s.through for one in [p]]
        assert all(any(to_sql(one) in t for t in through) for one in scan.through), text
