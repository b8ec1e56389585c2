"""`simulate` and `advise` on a real Delta table; only the sample comes from elsewhere than Spark."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.projects import Cli, Scripted, write_project
from unit.advisor.tables import sample_of

from zlayout.cli.main import run
from zlayout.errors import Diagnostic
from zlayout.session import sampling
from zlayout.session.files import write_atomically
from zlayout.spec.model import TableName

LAYOUT = """\
version: 1
table: lake.db.orders
zorder:
  columns: [day, part]
files: {target_size: 16KiB}
"""
QUERIES = """\
-- weight: 3
select * from orders where part = 77;
select * from orders o join other x on o.id = x.id where o.day between 10 and 19 and o.id = x.key;
select count(*) from orders;
select * from orders where upper(name) = 'X' and part < 50;
"""
ROWS = 19_992
Drawn = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 12 files in no order, for each test to copy."""
    rng = np.random.default_rng(0)
    part, day = rng.integers(0, 5_000, ROWS), rng.integers(0, 365, ROWS)
    rows = pa.table({"id": np.arange(ROWS), "part": part, "day": day, "after": day + rng.integers(0, 3, ROWS)})
    rows = rows.append_column("name", pa.array([f"n{v % 7}" for v in part.tolist()]))
    rows = rows.append_column("tags", pa.array([[1]] * ROWS))
    folder = tmp_path_factory.mktemp("orders")
    for at in range(12):
        write_deltalake(str(folder), rows.slice(at * ROWS // 12, ROWS // 12), mode="append")
    return folder


@pytest.fixture
def drawn(tmp_path: Path, orders: Path, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """A project with the table `orders`; the list gets (columns, rows, seed) of each sample drawn."""
    write_project(tmp_path, monkeypatch, LAYOUT)
    (tmp_path / "q.sql").write_text(QUERIES)
    table = tmp_path / "tables" / "db" / "orders"
    copytree(orders, table)
    asked: Drawn = []

    def draw(*arguments):  # type: ignore[no-untyped-def]
        columns, rows, seed = arguments[3:]
        asked.append((tuple(columns), rows, seed))
        data = DeltaTable(str(table)).to_pyarrow_table(columns=list(columns))
        order = np.random.default_rng(seed).permutation(len(data))[:rows]
        keys = {name: data[name].combine_chunks().take(pa.array(order)) for name in columns}
        return sample_of(keys, np.zeros(len(order)), seed, len(data))

    monkeypatch.setattr("zlayout.session.advise.draw_sample", draw)
    monkeypatch.setattr(sampling, "SMALL_BYTES", 0)
    return asked


def test_a_small_table_is_sampled_without_spark(drawn: Drawn, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("advise", "lake.db.orders", "--workload", "q.sql", "--sample-rows", "9000", "--seed", "4")
    on_spark = cli(*command).out
    monkeypatch.setattr(sampling, "SMALL_BYTES", 2**26)
    here = cli(*command).out
    assert len(drawn) == 1
    assert "sample    9,000 rows, seed 4" in here
    found = [[line for line in out.splitlines() if "<- best" in line] for out in (on_spark, here)]
    assert found[0] == found[1]
    again, before = (
        [line for line in out.splitlines() if "layouts in" not in line] for out in (cli(*command).out, here)
    )
    assert again == before, "but for the time of the search"
    for name in ("SMALL_FILES", "SMALL_VALUES"):
        with monkeypatch.context() as patched:
            patched.setattr(sampling, name, 0)
            cli(*command)
    assert len(drawn) == 3


def test_a_table_with_deleted_rows_is_sampled_by_spark(memory: Scripted) -> None:
    table = TableName("lake", ("db",), "orders")
    state = memory.observe(table, ("a",))
    found = sampling.rows_of_small(memory, table, state, ("a",), 50, 0)
    assert found is not None
    assert (len(found), found.complete, found.by_row) == (50, False, True)
    gone = replace(state, files=replace(state.files, deleted=np.array([1, 0, 0, 0])))
    uncertain = replace(state, notes=(Diagnostic("ZL448", "counts", "note"),))
    fewer = replace(state, files=replace(state.files, rows=state.files.rows - 1))
    for other in (gone, uncertain, fewer):
        assert sampling.rows_of_small(memory, table, other, ("a",), 50, 0) is None


def test_advise_says_what_to_do_and_what_it_means_for_each_query(drawn: Drawn, cli: Cli) -> None:
    out, err = cli("advise", "lake.db.orders", "--workload", "q.sql", "--sample-rows", "9000", "--seed", "4")
    assert drawn == [(("day", "part"), 9000, 4)]
    assert "sample    9,000 rows, seed 4" in out
    assert "q.sql: 4 queries, 3 with conditions on this table" in out
    assert "1 query reads the whole table in any layout" in out
    assert "  faster\n" in out
    assert "  slower: none" in out
    assert "Cost of each further column" in out
    assert "\nzorder:\n" in out
    assert "1  a function or arithmetic on a column, " in out
    assert "        UPPER(name) = 'X'\n" in out
    assert "searching, one column" in err
    assert all(len(line) <= 100 for line in out.splitlines())
    assert max(map(len, out.splitlines())) > 60


def test_a_missing_pyspark_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    (root / "q.sql").write_text("select * from orders where a = 7;")
    command = ("advise", "lake.db.orders", "--workload", "q.sql")
    assert "kd: a" in cli(*command).out, "a small table needs no Spark"
    monkeypatch.setattr(sampling, "SMALL_BYTES", 0)
    assert "ZL303 pyspark is not installed" in cli(*command, code=1).err


@pytest.mark.usefixtures("drawn")
def test_verbose_lists_conditions_that_were_not_used(cli: Cli) -> None:
    assert "UPPER(name) = 'X'" in cli("advise", "lake.db.orders", "--workload", "q.sql", "-v").out


@pytest.mark.usefixtures("drawn")
def test_simulate_tries_the_layouts_given_and_no_other(cli: Cli) -> None:
    arguments = ["simulate", "lake.db.orders", "-w", "q.sql", "--columns", "part", "--columns", "id,part=4"]
    assert "10000000" in cli(*arguments, "--files", "999999999999999999999", code=64).err
    found = json.loads(cli(*arguments, "--files", "25", "--output", "json").out)
    assert [c["columns"] for c in found["layouts"]] == [
        [{"name": "part", "weight": 1.0}],
        [{"name": "id", "weight": 1.0}, {"name": "part", "weight": 4.0}],
    ]
    assert [c["files"] for c in found["layouts"]] == [25, 25]
    assert found["sample"] == {"rows": ROWS, "seed": 0}
    assert found["search"]["layouts"] == 2
    first = {q["query"]: q for q in found["queries"]}["q.sql:2"]
    assert first["files"]["now"] == 12
    assert first["files"]["then"] == 1
    assert first["weight"] == 3
    # 3 * 1 + 25 + 1 over a weight of 5: the day is in no order, `part < 50` is in the first file
    assert found["layouts"][0]["files_opened"] == pytest.approx((3 * 1 + 25 + 1) / 5)


@pytest.mark.usefixtures("drawn")
def test_columns_may_be_written_in_any_letter_case(cli: Cli) -> None:
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[day, part]", "[Day, PART]"))
    found = json.loads(cli("simulate", "lake.db.orders", "-w", "q.sql", "--columns", "Part", "--output", "json").out)
    names = [[column["name"] for column in layout["columns"]] for layout in (found["layouts"][0], found["declared"])]
    assert names == [["part"], ["day", "part"]]


@pytest.mark.usefixtures("drawn")
def test_the_number_of_files_is_what_the_target_size_gives(cli: Cli) -> None:
    found = json.loads(cli("simulate", "lake.db.orders", "-w", "q.sql", "--columns", "part", "--output", "json").out)
    assert found["layouts"][0]["files"] == round(found["bytes"] / (16 * 1024))


@pytest.mark.usefixtures("drawn")
def test_html_is_a_page_that_loads_nothing(tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    assert run(["advise", "lake.db.orders", "-w", "q.sql", "--output", "html", "--out", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == 2
    assert "zorder:\n" in text
    assert "q.sql:2" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


ERRORS = [
    (["--columns", "prat"], "--columns: ZL012 unknown column 'prat' (did you mean 'part'?)"),
    (["--columns", "tags"], "ZL034 column 'tags' has no order"),
    (["--columns", "part,part"], "--columns: ZL016"),
    (["--columns", "part,Part"], "--columns: ZL016 duplicate column 'part'"),
    (["--columns", "part=0"], "--columns: ZL074 expected a weight above 0 and at most 1000, found 'part=0'"),
    (["--columns", "part=1e308,day=1e308"], "--columns: ZL074"),
    (["--columns", "part,,"], "--columns: ZL074"),
]


@pytest.mark.parametrize(("arguments", "message"), ERRORS)
def test_invalid_columns_are_reported_before_spark_starts(
    drawn: Drawn, arguments: list[str], message: str, cli: Cli
) -> None:
    assert message in cli("simulate", "lake.db.orders", "-w", "q.sql", *arguments, code=1).err
    assert drawn == []


UNFIT = [
    ("[day, prat]", "orders.yaml:4:18: ZL012 unknown column 'prat' in zorder.columns (did you mean 'part'?)"),
    ("[part, tags]", "orders.yaml:4:19: ZL034 expected an orderable column"),
]


@pytest.mark.parametrize("command", [["advise"], ["simulate", "--columns", "part"]])
@pytest.mark.parametrize(("declared", "message"), UNFIT)
def test_a_declared_layout_that_does_not_fit_the_table_is_reported_before_spark_starts(
    drawn: Drawn, declared: str, message: str, command: list[str], cli: Cli
) -> None:
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[day, part]", declared))
    assert message in cli(*command, "lake.db.orders", "-w", "q.sql", code=1).err
    assert drawn == []


def partitioned_by_day(partition_by: str) -> None:
    """The same table with a partition for each hundred days, and a spec that says how it shall be partitioned."""
    place = "tables/db/orders"
    rows = DeltaTable(place).to_pyarrow_table()
    days = pa.array([day // 100 for day in rows["day"].to_pylist()])
    rows = rows.set_column(rows.schema.get_field_index("day"), "day", days)
    write_deltalake(place, rows, mode="overwrite", schema_mode="overwrite", partition_by=["day"])
    Path("layouts/orders.yaml").write_text(LAYOUT + partition_by)


def test_a_declared_layout_by_a_partition_column_is_an_error(drawn: Drawn, cli: Cli) -> None:
    partitioned_by_day("")
    err = cli("advise", "lake.db.orders", "-w", "q.sql", code=1).err
    assert "orders.yaml:4:13: ZL035 column 'day' in zorder.columns is a partition column" in err
    assert drawn == []


def test_a_declared_layout_of_another_partitioning_is_reported_and_not_simulated(drawn: Drawn, cli: Cli) -> None:
    partitioned_by_day("partition_by: []\n")
    note = "The declared layout is not simulated: it changes the partitioning, and simulations keep the partitioning."
    found = json.loads(cli("advise", "lake.db.orders", "-w", "q.sql", "--output", "json").out)
    assert found["declared"] is None
    idle = (
        "1 query (20% of the weight) opens no file: the metadata shows that no row matches."  # of a day from 10 to 19
    )
    assert found["notes"][0].startswith(idle)
    assert found["notes"][1:] == [note]
    assert note in " ".join(cli("advise", "lake.db.orders", "-w", "q.sql").out.split())
    cli("advise", "lake.db.orders", "-w", "q.sql", "--output", "html", "--out", "a.html")
    assert note in Path("a.html").read_text()
    assert [columns for columns, _, _ in drawn] == [("part",)] * 3


NATIVE = LAYOUT + "engine: native\n"
CHOICE = "The declared layout uses engine native. All simulated layouts use engine zlayout."


def test_a_table_of_engine_native_gets_a_layout_to_paste_that_its_spec_takes(drawn: Drawn, cli: Cli) -> None:
    spec = Path("layouts/orders.yaml")
    spec.write_text(NATIVE)
    done = cli("advise", "lake.db.orders", "-w", "q.sql", "--columns", "part=4,day", "--output", "json")
    found = json.loads(done.out)
    assert found["notes"] == [CHOICE]
    assert found["declared"]["curve"] == "zorder"
    # weights have an effect, as the engine zlayout lays out by them
    given = found["layouts"][0]
    assert given["touched"]["part"] < given["touched"]["day"]
    spec.write_text(f"version: 1\ntable: lake.db.orders\n{found['zorder']}files: {{target_size: 16KiB}}\n")
    cli("validate")
    assert "engine: zlayout\n" in spec.read_text()
    assert len(drawn) == 1


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 1 from elsewhere where a = 1", "ZL073 no query of the workload reads lake.db.orders (the queries rea"),
        ("select 1 from orders where abs(part) = 1", "ZL073 no query of the workload has a condition"),
        ("rubbish;", "ZL073 no query of the workload reads lake.db.orders (no query could be read)"),
        ("", "ZL073"),
    ],
)
def test_a_workload_that_asks_nothing_is_an_error(
    drawn: Drawn, sql: str, message: str, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "q.sql").write_text(sql)
    assert message in cli("advise", "lake.db.orders", "-w", "q.sql", code=1).err
    assert drawn == []


def test_a_name_that_is_no_text_is_written_as_escapes(tmp_path: Path, drawn: Drawn) -> None:
    query = (tmp_path / "q.sql").rename(tmp_path / os.fsdecode(b"q\xff.sql"))
    assert run(["advise", "lake.db.orders", "-w", str(query), "--output", "json", "--out", "a.json"]) == 0
    assert json.loads(Path("a.json").read_text())["workload"]["files"] == [str(query)]
    assert len(drawn) == 1


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_a_seed_is_a_number_of_63_bits(drawn: Drawn, seed: str) -> None:
    assert run(["advise", "lake.db.orders", "-w", "q.sql", "--seed", seed]) == 64
    assert run(["simulate", "lake.db.orders", "-w", "q.sql", "--columns", "part", "--seed", seed]) == 64
    assert drawn == []


def test_a_text_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "a.txt", "\udcff")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_an_error(drawn: Drawn, cli: Cli, tmp_path: Path) -> None:
    assert "ZL021" in cli("advise", "nowhere.db.orders", "-w", "q.sql", code=1).err
    assert "missing.sql: ZL002" in cli("advise", "lake.db.orders", "-w", "missing.sql", code=1).err
    assert "ZL077" in cli("advise", "lake.db.orders", code=1).err
    assert "--columns" in cli("simulate", "lake.db.orders", "-w", "q.sql", code=64).err
    assert "ZL061" in cli("advise", "lake.db.orders", "-w", "q.sql", "-o", str(tmp_path / "no" / "x.txt"), code=1).err
    assert len(drawn) == 1


@pytest.mark.usefixtures("drawn")
def test_a_table_without_a_layout_has_the_workload_of_the_project(cli: Cli) -> None:
    Path("layouts/orders.yaml").unlink()
    Path("workloads").mkdir()
    Path("q.sql").rename("workloads/q.sql")
    found = json.loads(cli("simulate", "lake.db.orders", "--columns", "part", "--json").out)
    assert all("workloads/q.sql:" in query["query"] for query in found["queries"])
    assert found["queries"]


@pytest.mark.usefixtures("drawn")
def test_write_changes_the_layout_file_and_keeps_its_comments(cli: Cli) -> None:
    path = Path("layouts/orders.yaml")
    path.write_text("# ours\n" + LAYOUT.replace("[day, part]", "[after, id]  # old"))
    Path("workloads").mkdir()
    Path("q.sql").rename("workloads/orders.sql")
    printed = cli("advise", "lake.db.orders", "--write")
    assert "layout written to layouts/orders.yaml" in printed.err
    text = path.read_text()
    assert text.startswith("# ours\nversion: 1\ntable: lake.db.orders\nzorder:\n")
    assert "  # old\nfiles: {target_size: 16KiB}\n" in text
    assert "part" in text
    assert "id" not in text.partition("zorder")[2]


@pytest.mark.usefixtures("drawn")
def test_write_needs_a_layout_that_names_the_table(cli: Cli) -> None:
    Path("layouts/orders.yaml").unlink()
    assert "ZL076" in cli("advise", "lake.db.orders", "-w", "q.sql", "--write", code=1).err
