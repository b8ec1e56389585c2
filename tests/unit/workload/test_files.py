"""Weights, places, and hostile files: bounded, and never a traceback."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.errors import SpecError
from zlayout.workload import files
from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Workload
from zlayout.workload.statements import read_query, split


def read(tmp_path: Path, content: str | bytes, name: str = "q.sql") -> Workload:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_workload([path])


def test_weights_and_places_of_statements() -> None:
    text = "-- weight: 20\nSELECT 1;\n/* weight: 2 */ SELECT ';-- weight: 9' -- x;\n;;\n\nSELECT 3"
    found = [(q.location, q.weight, q.text) for q in split(text, "q.sql")]
    assert found == [
        ("q.sql:2", 20.0, "SELECT 1"),
        ("q.sql:3", 2.0, "SELECT ';-- weight: 9'"),
        ("q.sql:6", 1.0, "SELECT 3"),
    ]


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "1e308", "1000000000001", "many"])
def test_a_bad_weight_is_an_error_at_its_line(weight: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"q\.sql:2:1: ZL071"):
        read(tmp_path, f"SELECT 1;\n-- weight: {weight}\nSELECT 2")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.sql", "-- days: 0\nSELECT 1", "expected a number of days above 0, at most 1,000,000,000,000, found '0'"),
        ("q.csv", "query,count\nSELECT 1,x\n", "expected a count above 0, at most 1,000,000,000,000, found 'x'"),
    ],
)
def test_an_error_names_the_number_that_is_invalid(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"ZL071 {message}"):
        read(tmp_path, content, name)


def test_a_csv_of_query_and_count(tmp_path: Path) -> None:
    workload = read(tmp_path, 'count,query\n20,"SELECT *\nFROM t WHERE a = 1;"\n3,SELECT * FROM u\n', "q.csv")
    assert [(s.table, s.query.weight, Path(s.query.location).name) for s in workload.scans] == [
        ("t", 20.0, "q.csv:2"),
        ("u", 3.0, "q.csv:4"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("q.csv", "sql,n\nSELECT 1,2\n", "ZL072"),
        ("q.csv", "query,count\nSELECT 1\n", "ZL072"),
        ("q.csv", "query,count\nSELECT 1,x\n", "ZL071"),
        ("q.csv", "query,count\n" + "x" * 200_000, "ZL072"),
        ("q.csv", "", "ZL072"),
        ("q.sql", b"\xff\xfe", "ZL003"),
        ("q.sql", b" " * (files.MAX_BYTES + 1), "ZL070"),
    ],
)
def test_files_that_cannot_be_read(name: str, content: str | bytes, code: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=code):
        read(tmp_path, content, name)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="ZL002"):
        read_workload([tmp_path / "none.sql"])


def test_too_many_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_QUERIES", 2)
    with pytest.raises(SpecError, match="ZL070"):
        read(tmp_path, "SELECT 1; SELECT 2; SELECT 3")


DOUBLING = "WITH " + ", ".join(f"c{i + 1} AS (SELECT * FROM c{i} a, c{i} b)" for i in range(1, 30))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "nested deeper"),
        ("SELECT * FROM t WHERE " + "NOT " * 5000 + "a", "nested deeper"),
        ("SELECT " + "CASE WHEN a THEN " * 500, "nested deeper"),
        (" UNION ALL ".join(["SELECT 1 FROM t"] * 3000), "nested deeper"),
        ("SELECT '" + "x" * 200_000 + "'", "more than 100000 characters"),
        ("SELECT FROM WHERE )(", "not Spark SQL"),
        ("SELECT 'open", "not Spark SQL"),
        ("\x00\x01 ☃", ""),
        ("WITH RECURSIVE c AS (SELECT a FROM t UNION ALL SELECT a FROM c) SELECT * FROM c", "a recursive query"),
        ("DELETE FROM t WHERE a = 1", "not a query"),
        ("SELECT * FROM " + ", ".join(f"t{i}" for i in range(3000)) + " WHERE a = 1", "too many tables"),
        (DOUBLING.replace("FROM c1 a, c1 b", "FROM t a, t b") + " SELECT * FROM c30", "too many tables"),
    ],
)
def test_hostile_statements_end_in_a_reason(statement: str, reason: str) -> None:
    begin = time.process_time()
    read = read_query(Query(statement, "q.sql:1"), {})
    scans, unused = list(read.scans), list(read.unused)
    assert scans == []
    assert len(unused) == 1
    assert reason in unused[0].reason
    assert len(unused[0].text) <= 200
    assert time.process_time() - begin < 20


def test_a_long_chain_is_no_depth() -> None:
    chain = " AND ".join(f"a <> {i}" for i in range(3000))
    read = read_query(Query(f"SELECT * FROM t WHERE {chain}", "q.sql:1"), {})
    scans, unused = list(read.scans), list(read.unused)
    assert len(scans[0].predicate.operands) == 3000  # type: ignore[union-attr]
    assert unused == []


WORDS = "select from where t a ( ) , = 1 'x' and or not in between like join left on with as union case end * ."
TOKENS = WORDS.split(" ")


@pytest.mark.parametrize("unit", ["/*", "'\\", '"\\', "`", "-- weight: 2\na ", "/* weight:  ", "''", "(", "SELECT 1 "])
def test_a_large_file_takes_one_pass(unit: str) -> None:
    begin = time.process_time()
    found = list(split(unit * (2_000_000 // len(unit)), "q.sql"))
    assert len(found) <= 1
    assert sum(len(read_query(query, {}).scans) for query in found) == 0
    assert time.process_time() - begin < 10


@given(st.lists(st.sampled_from(TOKENS) | st.text(max_size=4), max_size=25))
def test_garbage_never_raises(words: list[str]) -> None:
    for query in split(" ".join(["select * from t where", *words]), "q.sql"):
        read = read_query(query, {})
        scans, unused = list(read.scans), list(read.unused)
        assert scans or unused or "from" not in query.text
