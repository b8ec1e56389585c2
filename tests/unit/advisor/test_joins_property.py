"""Random star queries: no file that holds a row which the query needs is skipped, with DuckDB as the oracle.

Each query returns the numbers of the rows of the fact that it needs. DuckDB runs it on the rows themselves. The same
query without its oracle columns is a workload, whose conditions through joins prune the files of the fact.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from zlayout.advisor.joins import Evaluation, NotEvaluatedError, ReadRows, Rows
from zlayout.errors import Location
from zlayout.predicate.model import InKeys, Predicate, leaves
from zlayout.predicate.prune import may_match
from zlayout.session.workloads import OtherTables
from zlayout.spec.model import Export, Project, SparkConfig, TableName
from zlayout.table.state import Column, ColumnBounds
from zlayout.workload.files import read_workload

FILES, ROWS_PER_FILE = 40, 25
DAYS, ITEMS, STORES, REGIONS = 120, 60, 12, 4


def nulled(rng: random.Random, values: list, share: float = 0.06) -> list:
    return [None if rng.random() < share else value for value in values]


def star(rng: random.Random) -> dict[str, pa.Table]:
    """A snowflake of small tables. Keys may be null, absent in the dimension, or there more than once."""
    first = date(2000, 1, 1)
    day = {
        "d_sk": pa.array(nulled(rng, list(range(1000, 1000 + DAYS))), pa.int32()),
        "d_date": [first + timedelta(n) for n in range(DAYS)],
        "d_month": pa.array(nulled(rng, [n // 30 for n in range(DAYS)]), pa.int64()),
        "d_name": nulled(rng, [f"{first + timedelta(n):%a}" for n in range(DAYS)]),
    }
    item = {
        "i_sk": pa.array([n if rng.random() < 0.9 else rng.randrange(ITEMS) for n in range(ITEMS)], pa.int64()),
        "i_code": nulled(rng, [f"c{n:03}" for n in range(ITEMS)]),
        "i_class": nulled(rng, [rng.choice("abc") for _ in range(ITEMS)]),
        "i_text": nulled(rng, [text(rng) for _ in range(ITEMS)]),
        "i_price": nulled(rng, [rng.randrange(100) / 4 for _ in range(ITEMS)]),
    }
    store = {
        "s_sk": pa.array(range(STORES), pa.int16()),
        "s_region": pa.array(nulled(rng, [rng.randrange(REGIONS + 1) for _ in range(STORES)]), pa.int64()),
        "s_size": [rng.randrange(5) for _ in range(STORES)],
    }
    region = {"r_sk": list(range(REGIONS)), "r_name": nulled(rng, ["n", "s", "e", "w"])}
    n = FILES * ROWS_PER_FILE
    sold = sorted(rng.randrange(990, 1010 + DAYS) for _ in range(n))
    fact = {
        "f_row": list(range(n)),
        "f_day": pa.array(nulled(rng, sold), pa.int64()),
        "f_ship": pa.array(nulled(rng, [d + rng.randrange(6) for d in sold]), pa.int64()),
        "f_item": pa.array(nulled(rng, sorted(rng.randrange(ITEMS + 3) for _ in range(n)), 0.02), pa.int64()),
        "f_code": nulled(rng, [f"c{rng.randrange(ITEMS):03}" for _ in range(n)]),
        "f_store": pa.array(nulled(rng, [at * STORES // n for at in range(n)]), pa.int64()),
        "f_qty": [rng.randrange(100) for _ in range(n)],
    }
    made = {"day": day, "item": item, "store": store, "region": region, "fact": fact}
    return {name: pa.table(columns) for name, columns in made.items()}


def text(rng: random.Random) -> str:
    """A short string with the signs of LIKE."""
    return "".join(rng.choice("ab%_!é\n") for _ in range(rng.randrange(5)))


def pattern(rng: random.Random) -> str:
    """A random pattern as a literal, with ESCAPE or without it."""
    escaped = rng.random() < 0.5
    signs = ["a", "b", "é", "%", "%", "_", " ", *(["!%", "!_", "!!"] if escaped else ["!"])]
    made = "".join(rng.choice(signs) for _ in range(rng.randrange(5))) + rng.choice(["", "%"])
    return f"'{made}'" + (" ESCAPE '!'" if escaped else "")


@dataclass
class Writer:
    """Writes random star queries."""

    rng: random.Random
    number: int = 0

    def alias(self) -> str:
        self.number += 1
        return f"x{self.number}"

    def condition(self, table: str, q: str, depth: int = 2) -> str:
        """A random condition on the columns of one table. q: the qualifier."""
        r = self.rng
        if depth and r.random() < 0.35:
            joined = r.choice([" AND ", " OR ", " OR "])
            return f"({joined.join(self.condition(table, q, depth - 1) for _ in range(2))})"
        if depth and r.random() < 0.12:
            return f"NOT ({self.condition(table, q, depth - 1)})"
        low, high = sorted((r.randrange(DAYS), r.randrange(DAYS)))
        days = [f"2000-{1 + n // 31:02}-{1 + n % 28:02}" for n in (low, high)]
        options = {
            "day": [
                f"{q}d_month = {r.randrange(5)}",
                f"{q}d_month IN ({r.randrange(5)}, {r.randrange(5)})",
                f"{q}d_month IS NULL",
                f"{q}d_month IS NOT NULL",
                f"{q}d_date BETWEEN '{days[0]}' AND '{days[1]}'",
                f"{q}d_date >= DATE '{days[0]}'",
                f"{q}d_date = CAST('{days[0]}' AS DATE) + INTERVAL '3' DAY",
                f"{q}d_name = '{r.choice(['Mon', 'Sun', 'None'])}'",
                f"{q}d_name LIKE 'S%'",
                f"{q}d_name NOT LIKE 'S%'",
                f"{q}d_month + 1 = {r.randrange(5)}",
                f"{q}d_sk < {1000 + low}",
                f"coalesce({q}d_month, 3) = 3",
                f"({q}d_month = 1) IS NULL",
                f"year({q}d_date) = 2000 AND {q}d_month <> {r.randrange(5)}",
            ],
            "item": [
                f"{q}i_class = '{r.choice('abc')}'",
                f"{q}i_class IN ('a', '{r.choice('abc')}')",
                f"{q}i_class NOT IN ('a', 'b')",
                f"{q}i_price > {r.randrange(25)}.5",
                f"{q}i_code BETWEEN 'c{low:03}' AND 'c{high:03}'",
                f"{q}i_sk = {r.randrange(ITEMS)}",
                f"substr({q}i_code, 1, 3) = 'c0{r.randrange(6)}'",
                f"{q}i_class < {q}i_code",
                f"{q}i_text LIKE {pattern(r)}",
                f"{q}i_text NOT LIKE {pattern(r)}",
                f"NOT ({q}i_text NOT LIKE {pattern(r)})",
                f"{q}i_code {r.choice(['', 'NOT '])}LIKE '%{r.randrange(10)}_'",
                f"({q}i_text LIKE {pattern(r)}) IS NULL",
            ],
            "store": [f"{q}s_size = {r.randrange(5)}", f"{q}s_size > {r.randrange(5)}", f"{q}s_region = 1"],
            "region": [f"{q}r_name = '{r.choice('nsew')}'", f"{q}r_name IS NULL", f"{q}r_name <> 'n'"],
            "fact": [f"{q}f_qty < {r.randrange(100)}", f"{q}f_store = {r.randrange(STORES)}", f"{q}f_item IS NULL"],
        }
        return r.choice(options[table])

    def dimension(self) -> tuple[str, str, str]:
        """The table of a random dimension, the column of the fact, and the key of the dimension."""
        keys = [
            ("day", "f_day", "d_sk"),
            ("day", "f_day", "d_sk"),
            ("day", "f_ship", "d_sk"),
            ("item", "f_item", "i_sk"),
            ("item", "f_code", "i_code"),
            ("store", "f_store", "s_sk"),
        ]
        return self.rng.choice(keys)

    def filtered(self, table: str, key: str) -> str:
        """A query whose only column is the key of a filtered dimension."""
        r, q = self.rng, self.alias()
        source, where = f"{table} {q}", self.condition(table, f"{q}.")
        if table == "store" and r.random() < 0.5:
            where += f" AND {q}.s_region IN (SELECT r_sk FROM region WHERE {self.condition('region', '')})"
        column = f"{q}.{key}"
        made = r.randrange(6)
        if made == 0:
            return f"SELECT {column} FROM {source} WHERE {where} GROUP BY {column} HAVING count(*) >= 1"
        if made == 1:
            more = self.condition(table, "")
            how = r.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            return f"SELECT {column} FROM {source} WHERE {where} {how} SELECT {key} FROM {table} WHERE {more}"
        if made == 2:
            return f"SELECT DISTINCT {column} FROM {source} WHERE {where}"
        if made == 3:
            other, on = self.alias(), self.condition(table, f"{q}.", 1)
            side = r.choice(["LEFT", "RIGHT", "FULL", ""])
            joined = f"{source} {side} JOIN {table} {other} ON {q}.{key} = {other}.{key} AND {on}"
            return f"SELECT {r.choice([q, other])}.{key} FROM {joined} WHERE {where}"
        if made == 4:
            return f"SELECT {key} FROM (SELECT * FROM {source}) z WHERE {where.replace(q + '.', 'z.')}"
        return f"SELECT {column} FROM {source} WHERE {where}"

    def query(self) -> str:
        """A query of the form SELECT f_row FROM ..., whose rows are those of the fact that it needs."""
        r = self.rng
        f, withs, froms, wheres = "f", [], [], []
        fact_first = r.random() < 0.75
        for _ in range(r.randrange(1, 4)):
            table, column, key = self.dimension()
            q, made = self.alias(), r.randrange(10)
            on = f"{f}.{column} = {q}.{key}" if r.random() < 0.7 else f"{q}.{key} = {f}.{column}"
            if made == 0:
                wheres.append(f"{f}.{column} {r.choice(['', '', 'NOT '])}IN ({self.filtered(table, key)})")
            elif made == 1:
                extra = self.condition(table, f"{q}.")
                no, selected = r.choice(["", "", "NOT "]), r.choice(["1", "*", f"{q}.{key}", f"max({q}.{key})"])
                more = r.choice(["", "", f" OR {self.condition('fact', f + '.')}"])
                wheres.append(f"({no}EXISTS (SELECT {selected} FROM {table} {q} WHERE {on} AND {extra}){more})")
            elif made == 2:
                withs.append(f"{q} AS ({self.filtered(table, key)})")
                froms.append(f"{r.choice(['JOIN', 'JOIN', 'LEFT JOIN'])} {q} ON {on}")
            elif made == 3:
                froms.append(f"JOIN ({self.filtered(table, key)}) {q} ON {on}")
            elif made == 4:
                wheres.append(
                    f"({f}.{column} IN ({self.filtered(table, key)}) {r.choice(['OR', 'AND'])} "
                    f"{self.condition('fact', f + '.')})"
                )
            else:
                side = r.choice(["", "", "", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI "])
                if table == "store" and r.random() < 0.25:
                    g = self.alias()
                    inside = f"{q}.s_region = {g}.r_sk AND {self.condition('region', g + '.')}"
                    froms.append(f"{r.choice(['', 'LEFT '])}JOIN (store {q} JOIN region {g} ON {inside}) ON {on}")
                    continue
                if "SEMI" in side or "ANTI" in side:
                    both = f"{on} AND {self.condition(table, q + '.')}"
                    froms.append(f"{side}JOIN {table} {q} ON {both}")
                    continue
                extra = f" AND {self.condition(table, q + '.')}" if r.random() < 0.4 else ""
                froms.append(f"{side}JOIN {table} {q} ON {on}{extra}")
                if table == "store" and r.random() < 0.6:
                    g = self.alias()
                    kind = r.choice(["", "LEFT ", "RIGHT "])
                    if r.random() < 0.3:
                        froms.append(f"CROSS JOIN region {g}")
                        wheres.append(f"{q}.s_region = {g}.r_sk")
                    else:
                        froms.append(f"{kind}JOIN region {g} ON {q}.s_region = {g}.r_sk")
                    wheres.append(self.condition("region", f"{g}."))
                if r.random() < 0.8:
                    wheres.append(self.condition(table, f"{q}."))
                if r.random() < 0.15:
                    other, more, other_key = self.dimension()
                    p = self.alias()
                    froms.append(f"CROSS JOIN {other} {p}")
                    branches = " OR ".join(
                        f"({f}.{more} = {p}.{other_key} AND {self.condition(other, p + '.', 1)}"
                        f" AND {self.condition(table, q + '.', 1)})"
                        for _ in range(2)
                    )
                    wheres.append(f"({branches})")
        if r.random() < 0.25:
            wheres.append(self.condition("fact", f"{f}."))
        where = f" WHERE {' AND '.join(wheres)}" if wheres else ""
        head = f"WITH {', '.join(withs)} " if withs else ""
        if not fact_first and froms and " ON " in froms[0] and not any(s in froms[0] for s in ("SEMI", "ANTI")):
            # the first dimension on the left: d JOIN fact ON ...
            join, _, rest = froms[0].partition("JOIN ")
            item, _, on = rest.partition(" ON ") if not rest.startswith("(") else (rest, "", "")
            if on:
                froms[0] = f"FROM {item} {join}JOIN fact f ON {on}"
                return f"{head}SELECT f.f_row FROM {froms[0][5:]} {' '.join(froms[1:])}{where}"
        return f"{head}SELECT f.f_row FROM {self.fact()} f {' '.join(froms)}{where}"

    def fact(self) -> str:
        """The fact, or a derived table of it."""
        r = self.rng
        names = "f_row, f_day, f_ship, f_item, f_code, f_store, f_qty"
        where = f" WHERE {self.condition('fact', '')}" if r.random() < 0.5 else ""
        swapped = names.replace("f_day, f_ship", "f_ship AS f_day, f_day AS f_ship")
        options = [f"(SELECT {r.choice(['*', names, swapped])} FROM fact{where})"]
        options += [f"(SELECT {names}, count(*) AS n FROM fact{where} GROUP BY {names})"]
        options += [f"(SELECT *, row_number() OVER (ORDER BY f_row) AS n FROM fact{where})"]
        return r.choice([*["fact"] * 6, *options])

    def correlated(self) -> str:
        """A query with the fact in a subquery, which returns lists of the rows that it needs."""
        table, column, key = self.dimension()
        where = f"f.{column} = {table}.{key} AND {self.condition('fact', 'f.')}"
        rows = f"(SELECT list(f.f_row) FROM fact f WHERE {where})"
        return f"SELECT {rows} FROM {table} WHERE {self.condition(table, '')}"


def bounds(fact: pa.Table) -> dict[str, ColumnBounds]:
    found = {}
    for name in fact.column_names:
        chunks = [fact[name].slice(n * ROWS_PER_FILE, ROWS_PER_FILE).combine_chunks() for n in range(FILES)]
        low, high = ([pc.min_max(c)[side] for c in chunks] for side in ("min", "max"))
        nulls = np.array([c.null_count for c in chunks], np.int64)
        kind = fact[name].type
        sides = (pa.array([v.as_py() for v in side], kind) for side in (low, high))
        found[name] = ColumnBounds(*sides, nulls, np.zeros(FILES, bool))
    return found


def column_of(table: pa.Table) -> dict[str, Column]:
    return {field.name: Column(field.name, field.type, True) for field in table.schema}


def exported(duck: duckdb.DuckDBPyConnection, rng: random.Random, kind: str, folder: Path) -> OtherTables:
    """The dimensions as DuckDB exports them, each without one of its columns at times. kind: csv or parquet."""
    types = {"INTEGER": "integer", "BIGINT": "integer", "SMALLINT": "integer", "VARCHAR": "string", "DATE": "date"}
    types["DOUBLE"] = "decimal(9, 2)"  # the prices have two decimals
    exports = {}
    for table in ("day", "item", "store", "region"):
        columns = duck.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall()
        if rng.random() < 0.5:
            columns.remove(rng.choice(columns))
        names = ", ".join(name for name, _ in columns)
        options = "FORMAT csv, HEADER" if kind == "csv" else "FORMAT parquet, ROW_GROUP_SIZE 2048"
        duck.execute(f"COPY (SELECT {names} FROM {table}) TO '{folder / table}.{kind}' ({options})")
        declared = {name: types[written] for name, written in columns} if kind == "csv" else {}
        exports[table] = Export(table, f"{table}.{kind}", declared, Location("zlayout.yaml", 1, 1))
    project = Project(folder, {}, SparkConfig(None, {}), (), exports=exports)
    return OtherTables(TableName("lake", ("db",), "fact"), {}, project)


def check(seed: int, tmp_path: Path, queries: int = 20) -> tuple[int, int]:
    """Check queries on one random star; returns the number of used conditions, and of files that they skip.

    Of five stars, one has its dimensions in CSV files, and one in Parquet files.
    """
    rng = random.Random(seed)
    tables = star(rng)
    known = {name: table.column_names for name, table in tables.items()}
    duck = duckdb.connect()
    for name, table in tables.items():
        duck.register(name, table)

    def registered(name: str, names: frozenset[str]) -> Rows:
        keys = {c: tables[name][c].combine_chunks() for c in tables[name].column_names if c in names}
        return Rows(column_of(tables[name]), keys)

    read: ReadRows = registered
    if seed % 5 < 2:
        others = exported(duck, rng, ("csv", "parquet")[seed % 5], tmp_path)
        known, read = {**known, **others.columns(others.project.exports)}, others.rows
    max_ranges = (1, 2, 5, 64)[seed % 4]
    evaluation, of_fact, own = (
        Evaluation(read, max_ranges, 50 * (seed % 2)),
        bounds(tables["fact"]),
        column_of(tables["fact"]),
    )
    rows = np.full(FILES, ROWS_PER_FILE, np.int64)
    used = skipped = 0
    path = tmp_path / "q.sql"
    for _ in range(queries):
        writer = Writer(rng)
        query = writer.query() if rng.random() < 0.9 else writer.correlated()
        needed = duck.execute(query.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")).fetchall()
        rows_of = [found if isinstance(found, list) else [found] for (found,) in needed]
        files = {row // ROWS_PER_FILE for found in rows_of for row in found if row is not None}
        path.write_text(query)
        workload = read_workload([path], known)
        assert not workload.unread, query
        opened = np.zeros(FILES, bool)
        scans = [scan for scan in workload.scans if scan.table == "fact"]
        assert len(scans) == 1, query
        for scan in scans:
            parts: list[Predicate] = [] if scan.predicate is None else [scan.predicate]
            for predicate in scan.through:
                try:
                    parts.append(evaluation.on_columns(predicate, own))
                    used += 1
                except NotEvaluatedError:
                    continue
            opened |= np.logical_and.reduce([np.ones(FILES, bool), *(may_match(p, of_fact, rows) for p in parts)])
        missed = files - set(np.flatnonzero(opened).tolist())
        assert not missed, f"seed {seed}: files {sorted(missed)} are skipped by\n{query}\n{scans}"
        skipped += FILES - int(opened.sum())
    return used, skipped


def test_no_string_that_matches_a_pattern_is_left_out(tmp_path: Path) -> None:
    """Also if an engine adds spaces to the strings, as to those of a CHAR."""
    rng = random.Random(3)
    texts = list(dict.fromkeys(text(rng) for _ in range(150)))
    known = {"k": Column("k", pa.int64(), True), "t": Column("t", pa.string(), True)}
    rows = Rows(known, {"k": pa.array(range(len(texts)), pa.int64()), "t": pa.array(texts)})
    evaluation, path, left_out = Evaluation(lambda _table, _names: rows), tmp_path / "q.sql", 0
    duck = duckdb.connect()
    duck.register("d", pa.table({"k": rows.keys["k"], "t": texts}))
    spaces = "(SELECT repeat(' ', n) AS s FROM range(3) r(n))"
    for _ in range(300):
        like = f"{rng.choice(['', 'NOT '])}LIKE {pattern(rng)}"
        path.write_text(f"SELECT * FROM f JOIN d ON f.k = d.k WHERE d.t {like}")
        matching = {k for (k,) in duck.execute(f"SELECT k FROM d, {spaces} WHERE t || s {like}").fetchall()}
        workload = read_workload([path], {"f": ["k"], "d": ["k", "t"]})
        for condition in [p for scan in workload.scans if scan.table == "f" for p in scan.through]:
            (leaf,) = leaves(condition)
            assert isinstance(leaf, InKeys)
            try:
                found = evaluation.values(leaf.sets)
            except NotEvaluatedError:
                continue
            kept = set(found.every.filter(pa.array(found.selected)).to_pylist())
            assert matching <= kept, f"{sorted(texts[k] for k in matching - kept)} are left out by {like}"
            left_out += len(texts) - len(kept)
    assert left_out > 100 * len(texts)


def test_no_file_with_a_needed_row_is_skipped(tmp_path: Path) -> None:
    found = np.array([check(seed, tmp_path) for seed in range(10)])
    used, skipped = found.sum(axis=0)
    assert used > 100, "most queries have a condition that is used"
    assert skipped > 10 * FILES, "and the conditions skip files"


@pytest.mark.long
def test_no_file_with_a_needed_row_is_skipped_by_2000_queries(tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path)[0] for seed in range(100, 200)) > 1_000
