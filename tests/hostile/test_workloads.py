"""Workload files from anybody: scans, or a reason why not; never more than that."""

import os
import random
from pathlib import Path

import pytest
from hostile.asking import refused
from hostile.mutants import NAMES

from zlayout.workload.files import read_workload

WORDS = (
    "SELECT", "*", "a", "t.a", "FROM", "t", "lake.db.orders", "JOIN", "LEFT", "ON", "WHERE", "a = 1", "AND", "OR",
    "NOT", "(", ")", "IN", "EXISTS", "(SELECT 1)", "WITH x AS (SELECT 1)", "UNION ALL", "GROUP BY", "HAVING",
    "LIMIT 5", ";", "-- weight: 3\n", "-- weight: nan\n", "/* weight: -1 */", "'", '"', "`", "/*", "CASE", "END",
    "DROP TABLE t", "INSERT INTO t", "LATERAL VIEW", "explode(a)", "INTERVAL 1 DAY", "DATE '2026-01-01'", "1e999",
    "\\", "\x00", "\u202e", "😀", ",", "TABLESAMPLE", "PIVOT",
)  # fmt: skip
NASTY = {
    "nested.sql": "SELECT * FROM t WHERE " + "(" * 5000,
    "union.sql": " UNION ".join(["SELECT a FROM t"] * 3000),
    "ctes.sql": "WITH c0 AS (SELECT * FROM t)"
    + "".join(f", c{n} AS (SELECT * FROM c{n - 1} JOIN c{n - 1})" for n in range(1, 40)),
    "quote.sql": "'" * 50_001,
    "comment.sql": "/*" * 50_000,
    "and.sql": "SELECT * FROM t WHERE " + " AND ".join(["a = 1"] * 9000),
    "long.sql": "SELECT '" + "x" * 200_000 + "'",
    "semicolons.sql": ";" * 500_000,
    "cell.csv": "query,count\n" + '"' + "x" * 300_000,
    "count.csv": "query,count\nSELECT 1,1e400\n",
    "header.csv": ",".join(["query"] * 10_000) + "\n",
    "nul.csv": "query,count\n\x00,1\n",
    "utf16.sql": "SELECT 1".encode("utf-16"),
    "bytes.sql": bytes(range(256)),
}


def test_statements_of_any_words(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = tmp_path / "q.sql"
    for _ in range(350):
        text = "SELECT * FROM t " + " ".join(chance.choices((*WORDS, *NAMES[:20]), k=chance.randrange(1, 25)))
        path.write_text(text, "utf-8", "replace")
        refused(lambda: read_workload([path], {"t": ["a"]}), text)


@pytest.mark.parametrize("name", NASTY)
def test_large_and_broken_files(name: str, tmp_path: Path) -> None:
    content = NASTY[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(lambda: read_workload([tmp_path / name]), name)


def test_a_path_that_is_not_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sql")
    for path in (tmp_path / "pipe.sql", tmp_path, Path("/dev/zero"), tmp_path / "none.csv", Path("a\0b")):
        assert refused(lambda path=path: read_workload([path])) is not None
