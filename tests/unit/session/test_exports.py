"""Tables that queries join and that are exported to Parquet or CSV files of the project."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from support.memory_format.store import MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.errors import Location, SpecError
from zlayout.planner.model import TablePlan
from zlayout.session import workloads
from zlayout.spec.model import Export, Project, SparkConfig, TableName

ROWS, FILES, DAYS = 4_000, 20, 1000
LAYOUT = "version: 1\ntable: lake.db.orders\nzorder: {columns: [a, day]}\n"
JOIN = "SELECT count(*) FROM orders JOIN warehouse.dates ON day = d_key WHERE"
QUERIES = f"{JOIN} d_month = 7;\n"
DATES = pa.table(
    {
        "d_key": pa.array(range(DAYS), pa.int32()),
        "d_month": pa.array([day // 25 for day in range(DAYS)], pa.int64()),
        "d_name": [None if day % 25 == 3 else f'the "{day}", of {day // 25}' for day in range(DAYS)],
        "d_first": [day % 25 == 0 for day in range(DAYS)],
    }
)
PARQUET = "warehouse.dates: {files: exports/dates.parquet}"
COLUMNS = "columns: [d_key integer, d_month integer, d_name string, d_first boolean]"
CSV = f"Warehouse.Dates: {{files: exports/dates.csv, {COLUMNS}}}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fact of 20 files, each with 50 days, and a dimension of 1,000 days in months of 25 days, as files."""
    columns = {"a": np.arange(ROWS) % 7, "day": np.arange(ROWS) * DAYS // ROWS}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    fact = MemoryTable(rows.schema)
    fact.append(rows, files=FILES)
    workload_project(tmp_path, monkeypatch, LAYOUT, fact, QUERIES)
    (tmp_path / "exports").mkdir()
    pq.write_table(DATES, tmp_path / "exports/dates.parquet", row_group_size=300)
    arrow_csv.write_csv(DATES, tmp_path / "exports/dates.csv")
    return tmp_path


def declare(exports: str, engine: str = "trino") -> None:
    path = Path("zlayout.yaml")
    written = f"workload:\n  engine: {engine}\n  exports:\n    {exports}\n"
    path.write_text(path.read_text().partition("workload:")[0] + written)


def planned(queries: str = QUERIES) -> TablePlan:
    Path("workloads/orders.sql").write_text(queries)
    return zlayout.plan(zlayout.load_project(), sample=False).tables[0]


@pytest.mark.parametrize("exports", [PARQUET, CSV])
@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("d_month = 7", 1),
        ("d_month IN (0, 3)", 2),
        ("d_name LIKE '%, of 39'", 1),
        ("d_name IS NULL AND d_month > 37", 1),
        ("d_first AND d_key < 150", 3),
        ("warehouse.dates.d_month = 7", 1),
    ],
)
@pytest.mark.usefixtures("project")
def test_the_keys_of_an_export_skip_files(exports: str, condition: str, files: int) -> None:
    declare(exports)
    found = planned(f"{JOIN} {condition}").workload
    assert found is not None
    assert (found.now.files, found.through) == (files, ("day = warehouse.dates",))


@pytest.mark.parametrize(
    ("queries", "engine"),
    [
        (QUERIES, "spark"),
        (QUERIES.replace("d_month = 7", "d_other = 7"), "trino"),
        (QUERIES.replace("warehouse.dates", "dates"), "trino"),
        # Only some columns of the exported table are known: `a` may be one of its own.
        ("SELECT 1 FROM orders WHERE day IN (SELECT d_key FROM warehouse.dates WHERE a = 3)", "trino"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_is_not_certain_is_no_condition(queries: str, engine: str) -> None:
    declare(PARQUET, engine)
    assert planned(queries).workload is None


@pytest.mark.usefixtures("project")
def test_the_namespace_of_an_export_is_that_of_its_declaration() -> None:
    declare(PARQUET.replace("warehouse.", ""))
    found = planned("SELECT 1 FROM lake.db.orders JOIN dates ON day = d_key WHERE d_month = 7").workload
    assert found is not None
    assert found.now.files == 1


@pytest.mark.parametrize(("inner", "is_certain"), [("orders", True), ("orders, warehouse.dates", False)])
@pytest.mark.usefixtures("project")
def test_a_column_that_an_export_may_have_is_not_one_of_the_enclosing_query(inner: str, is_certain: bool) -> None:
    pq.write_table(pa.table({"k": [7, 8], "m": [1, 2]}), "exports/keys.parquet")
    declare(f"{PARQUET}\n    keys: {{files: exports/keys.parquet}}")
    query = f"SELECT (SELECT count(*) FROM {inner} WHERE day = k) FROM keys WHERE m = 1"
    assert (planned(query).workload is not None) == is_certain


@pytest.mark.usefixtures("project")
def test_several_files_are_one_table() -> None:
    Path("exports/dates").mkdir()
    for number, at in enumerate(range(0, DAYS, 300)):
        pq.write_table(DATES.slice(at, 300), f"exports/dates/part-{number}.parquet", use_dictionary=["d_name"])
    declare("warehouse.dates: {files: exports/dates/*.parquet}")
    found = planned(f"{JOIN} d_name LIKE '%, of 39' OR d_month = 38").workload
    assert found is not None
    assert found.now.files == 1


@pytest.mark.usefixtures("project")
def test_a_quoted_empty_value_is_not_null() -> None:
    Path("exports/dates.csv").write_text('d_key,d_name\n0,""\n500,\n999,x\n')
    declare("warehouse.dates: {files: exports/dates.csv, columns: [d_key integer, d_name string]}")
    for condition, files in (("d_name IS NULL", 1), ("d_name = ''", 1), ("d_name <> 'x'", 1), ("d_name >= ''", 20)):
        found = planned(f"{JOIN} {condition}").workload
        assert found is not None, condition
        assert found.now.files == files, condition


def write(content: bytes | str) -> Callable[[], Any]:
    data = content.encode() if isinstance(content, str) else content
    return lambda: Path("exports/dates.csv").write_bytes(data)


def damaged() -> None:
    data = bytearray(Path("exports/dates.parquet").read_bytes())
    data[40:3000] = b"\xff" * 2960
    Path("exports/dates.parquet").write_bytes(bytes(data))


def repeated() -> None:
    """A string of 1 MiB in each of 100,000 rows, in a file of some KiB."""
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * (1 << 20)]))
    keys = pa.array(range(100_000), pa.int32())
    pq.write_table(pa.table({"d_key": keys, "d_month": values}), "exports/dates.parquet", compression="zstd")


def outside() -> None:
    Path("exports/dates.parquet").unlink()
    Path("exports/dates.parquet").symlink_to("/etc/hosts")


PARQUET_FILES: dict[str, tuple[Callable[[], Any], str]] = {
    "missing": (lambda: Path("exports/dates.parquet").unlink(), "no file matches 'exports/dates.parquet'"),
    "text": (lambda: Path("exports/dates.parquet").write_text("hello, world"), "expected a Parquet file"),
    "empty": (lambda: Path("exports/dates.parquet").write_bytes(b""), "expected a Parquet file"),
    "damaged": (damaged, "expected a Parquet file"),
    "cut off": (lambda: os.truncate("exports/dates.parquet", 5000), "expected a Parquet file"),
    "pipe": (lambda: (Path("exports/dates.parquet").unlink(), os.mkfifo("exports/dates.parquet")), "expected a file"),
    "link": (outside, "a link points outside the project"),
    "large values": (repeated, "the strings have more than 256 MiB"),
    "letter case": (
        lambda: pq.write_table(pa.table({"d_key": [1], "D_KEY": [2]}), "exports/dates.parquet"),
        "differ by more than letter case",
    ),
}
CSV_FILES: dict[str, tuple[Callable[[], Any], str]] = {
    "wrong type": (write("d_key,d_month\n1,2\n2,x\n"), "conversion error to int64: invalid value 'x'"),
    "a float": (write("d_key,d_month\n1,2.0\n"), "conversion error to int64: invalid value '2.0'"),
    "missing column": (write("d_key,month\n1,2\n"), "expected a header with the column 'd_month', found no such"),
    "two columns": (write("d_key,d_month,d_key\n1,2,3\n"), "expected a header with the column 'd_key', found several"),
    "ragged": (write("d_key,d_month\n1,2\n3\n"), "Expected 2 columns, got 1"),
    "empty": (write(""), "expected a header"),
    "null bytes": (write(b"\0" * 5000), "expected a header"),
    "not UTF-8": (write(b"d_key,d_month\n1,\xff\n"), "invalid UTF8 data"),
    "escaped": (write('d_key,d_month,x\n1,2,"a \\"b\\", c"\n'), "expected quotes in values to be doubled"),
    "unclosed quote": (write('d_key,d_month,x\n1,2,"' + "a\n" * 10_000), "expected an even number of quotes"),
    "long line": (write("d_key,d_month\n1,2" + "0" * 2_000_000 + "\n"), "expected a CSV file"),
}


@pytest.mark.parametrize("case", PARQUET_FILES)
@pytest.mark.usefixtures("project")
def test_a_parquet_file_that_cannot_be_used_is_an_error_with_its_place(case: str) -> None:
    make, message = PARQUET_FILES[case]
    make()
    declare(PARQUET)
    with pytest.raises(SpecError, match=message) as caught:
        planned()
    assert [(d.code, str(d.location)) for d in caught.value.diagnostics] == [("ZL098", "zlayout.yaml:7:5")]


@pytest.mark.parametrize("case", CSV_FILES)
@pytest.mark.usefixtures("project")
def test_a_csv_file_that_cannot_be_used_is_an_error_with_its_place(case: str) -> None:
    make, message = CSV_FILES[case]
    make()
    kind = "string" if case == "not UTF-8" else "integer"
    declare(f"warehouse.dates: {{files: exports/dates.csv, columns: [d_key integer, d_month {kind}]}}")
    with pytest.raises(SpecError, match="cannot be read") as caught:
        planned()
    assert message in str(caught.value)
    assert [(d.code, str(d.location)) for d in caught.value.diagnostics] == [("ZL098", "zlayout.yaml:7:5")]


@pytest.mark.parametrize("exports", [PARQUET, CSV])
@pytest.mark.parametrize(
    ("limit", "message"),
    [("MAX_ROWS", "more than 3 rows"), ("MAX_BYTES", "more than 0 MiB"), ("MAX_FILES", "1 files match")],
)
@pytest.mark.usefixtures("project")
def test_what_is_read_is_limited(exports: str, limit: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, limit, 0 if limit == "MAX_FILES" else 3)
    declare(exports)
    with pytest.raises(SpecError, match=message):
        planned()


def test_the_time_is_limited(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads.Folder, "matching", lambda *_: time.sleep(0.5) or iter(()))
    export = Export("dates", "dates.parquet", {}, Location("zlayout.yaml", 7, 5))
    empty = Project(project, {}, SparkConfig(None, {}), (), exports={"dates": export})
    others = workloads.OtherTables(TableName("lake", ("db",), "orders"), {}, empty, timeout=0.01)
    with pytest.raises(SpecError, match=r"were not read within 0.01 s"):
        others.columns(["dates"])


MISTAKES = {
    "a URL": ("dates: {files: 's3://bucket/dates.parquet'}", "ZL097", "expected files in the folder of the project"),
    "absolute": ("dates: {files: /etc/dates.csv, columns: [a string]}", "ZL097", "expected files in the folder"),
    "above": ("dates: {files: ../dates.parquet}", "ZL097", "expected files in the folder of the project"),
    "ending": ("dates: {files: dates.json}", "ZL097", "expected files that end with .parquet or .csv"),
    "CSV without types": ("dates: {files: dates.csv}", "ZL097", "expected columns with their types"),
    "Parquet with types": ("dates: {files: a.parquet, columns: [a string]}", "ZL097", "expected no columns"),
    "column twice": ("dates: {files: a.csv, columns: [a string, A date]}", "ZL097", "duplicate column 'A'"),
    "table twice": ("dates: {files: a.parquet}\n    DATES: {files: b.parquet}", "ZL097", "duplicate export of 'DATES'"),
    "decimal": ("dates: {files: a.csv, columns: ['a decimal(39,2)']}", "ZL097", "expected decimal(p,s)"),
    "type": ("dates: {files: a.csv, columns: [a float]}", "ZL013", "a column and its type"),
    "no map": ("dates: exports/dates.parquet", "ZL013", "expected a map with files, columns"),
    "a number": ("dates: {files: 5}", "ZL013", "expected a pattern of Parquet or CSV files"),
    "name": ("a/b: {files: a.parquet}", "ZL013", "expected the name of a table as the queries write it"),
    "variable": ("dates: {files: '${HOME}.parquet'}", "ZL017", "is not allowed"),
}


@pytest.mark.parametrize("case", MISTAKES)
@pytest.mark.usefixtures("project")
def test_a_mistake_in_the_declaration_is_an_error_with_its_place(case: str) -> None:
    exports, code, message = MISTAKES[case]
    declare(exports)
    with pytest.raises(SpecError) as caught:
        zlayout.load_project()
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert message in found.message
    assert found.location is not None
    assert found.location.line in (7, 8)
