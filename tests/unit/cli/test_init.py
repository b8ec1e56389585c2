"""init: flags, questions, and a project that loads, with schemas beside it."""

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from support.projects import Cli

from zlayout.cli.console import Console
from zlayout.cli.main import run
from zlayout.spec.check import schema_text
from zlayout.spec.load import load_project

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Answer the questions in turn; gives the list that they are put into."""
    asked: list[str] = []
    left = iter(answers)

    def ask(_: Console, question: str) -> str:
        asked.append(question)
        return next(left)

    monkeypatch.setattr(Console, "interactive", property(lambda _: True))
    monkeypatch.setattr(Console, "ask", ask)
    return asked


def test_flags_say_it_all(cli: Cli) -> None:
    flags = [
        "--table", "ice.`a.b`.Orders: new", "--columns", "yes, b #c", "--uri", "https://c.example", "--warehouse",
        "w",
    ]  # fmt: skip
    assert cli("init", "--format", "iceberg", *flags, "--no-workflows", "--offline").out.splitlines() == [
        "wrote zlayout.yaml",
        "wrote layouts/a_b_Orders_new.yaml",
        "wrote .zlayout/project.schema.json",
        "wrote .zlayout/layout.schema.json",
    ]
    project = load_project(Path(), {})
    (spec,) = project.layouts
    assert spec.table.identifier == ("a.b", "Orders: new")
    assert spec.column_names == ("yes", "b #c")
    assert (project.catalogs["ice"].type, project.catalogs["ice"].options["uri"]) == ("rest", "https://c.example")


def test_a_terminal_is_asked_for_what_no_flag_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, "iceberg", "ice", "", "", "")
    assert run(["init", "--offline"]) == 0
    assert [q.split(",")[0].split(":")[0] for q in asked] == [
        "Format of the tables",
        "Name of the catalog",
        "Type of the catalog",
        "Warehouse",
        "Address of the catalog",
    ]
    assert list(load_project(Path(), {}).catalogs) == ["ice"]


@pytest.mark.parametrize(
    ("format", "type_", "answers", "asked_last"),
    [
        ("delta", "", ["", ""], "Warehouse: the folder or URL below which the tables are stored [./warehouse]: "),
        ("delta", "hive", ["hive", "thrift://host:9083"], "Address of the catalog, with thrift://: "),
        ("delta", "glue", ["glue"], "Type of the catalog, path, hive, glue or unity [path]: "),
        ("delta", "unity", ["unity", "main", "https://h"], "Address of the catalog, with http:// or https://: "),
        ("iceberg", "rest", ["rest", "https://h"], "Address of the catalog, with http:// or https://: "),
        ("iceberg", "hive", ["hive", "thrift://host:9083"], "Address of the catalog, with thrift://: "),
        ("iceberg", "glue", ["glue"], "Type of the catalog, sql, rest, hive or glue [sql]: "),
    ],
)
def test_every_catalog_type_is_offered(
    monkeypatch: pytest.MonkeyPatch, format: str, type_: str, answers: list[str], asked_last: str
) -> None:
    asked = on_a_terminal(monkeypatch, *answers)
    assert run(["init", "--format", format, "--table", "lake.db.t", "--columns", "x", "--offline"]) == 0
    assert asked[-1] == asked_last
    assert load_project(Path(), {}).catalogs["lake"].type == type_ or not type_


def test_an_invalid_answer_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = on_a_terminal(monkeypatch, "parquet", "delta", "a.b", "", "hms", "path", "w")
    assert run(["init", "--offline"]) == 0
    assert [len([q for q in asked if q.startswith(start)]) for start in ("Format", "Name", "Type")] == [2, 2, 2]
    reported = capsys.readouterr().err
    assert "error: ZL048 expected a format out of delta, iceberg, found 'parquet'\n" in reported
    assert "error: ZL048 expected a catalog type out of path, hive, glue, unity, found 'hms'\n" in reported


def test_nothing_is_asked_where_a_project_is(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    assert run(["init", "--no-input", "--offline"]) == 0
    asked = on_a_terminal(monkeypatch)
    assert "ZL047 zlayout.yaml already exists" in cli("init", code=1).err
    assert asked == []


def test_no_input_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch)
    assert run(["init", "--no-input", "--offline"]) == 0
    assert asked == []


@pytest.mark.parametrize(
    ("flags", "folder", "names"),
    [
        ([], ".github/workflows", ["zlayout-apply.yml", "zlayout-nightly.yml", "zlayout-pull-request.yml"]),
        (["--ci", "gitlab"], ".", ["zlayout.gitlab-ci.yml"]),
        (["--ci", "gitlab", "--no-workflows"], ".", []),
    ],
)
def test_the_files_for_ci_are_the_templates(flags: list[str], folder: str, names: list[str]) -> None:
    assert run(["init", "--offline", *flags]) == 0
    written = {path.name: path.read_text() for path in Path(folder).glob("*.yml")}
    assert sorted(written) == names
    assert written == {name: (ROOT / "zlayout/session/templates" / name).read_text() for name in names}
    assert Path(".github").exists() == (folder != ".")


@pytest.mark.parametrize(
    ("uri", "extras"),
    [
        ("sqlite:///c.db", "report,sql"),
        ("postgresql+psycopg2://db/c", "report,postgres"),
        ("mysql://db/c", "report,mysql"),
        ("thrift://metastore:9083", "report,hive"),
        ("https://catalog", "report"),
    ],
)
def test_the_workflows_install_what_the_catalog_needs(uri: str, extras: str) -> None:
    assert run(["init", "--format", "iceberg", "--uri", uri, "--warehouse", "s3://lake", "--offline"]) == 0
    for name, more in (("pull-request", ""), ("apply", ",spark")):
        assert f"'zlayout[{extras}{more}]'" in Path(f".github/workflows/zlayout-{name}.yml").read_text()


def test_editors_find_the_schemas() -> None:
    assert run(["init", "--offline", "--table", "lake.sales.orders"]) == 0
    for file, name in (("zlayout.yaml", "project"), ("layouts/sales_orders.yaml", "layout")):
        first = Path(file).read_text().splitlines()[0]
        target = Path(file).parent / first.removeprefix("# yaml-language-server: $schema=")
        assert target.read_text() == schema_text(name)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--format", "hudi"], "ZL048"),
        (["--format", "delta", "--uri", "sqlite:///c.db"], "ZL048"),
        (["--table", "orders"], "ZL020"),
        (["--table", "lake.db.t", "--columns", "a,a"], "ZL016"),
        (["--table", "lake.db.*"], "ZL038"),
    ],
)
def test_bad_answers_leave_nothing_behind(here: Path, flags: list[str], code: str, cli: Cli) -> None:
    assert code in cli("init", *flags, "--offline", code=1).err
    assert [p for p in here.rglob("*") if p.is_file()] == []


def test_a_folder_that_cannot_be_created_is_an_error(cli: Cli) -> None:
    Path("file").write_text("")
    assert "ZL067" in cli("init", "file", "--offline", code=1).err


def test_a_disk_that_is_full_keeps_no_part_of_a_file(here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    written, replace = [], os.replace

    def fail_at_the_second(part: Path, path: Path) -> None:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        replace(part, path)

    monkeypatch.setattr(os, "replace", fail_at_the_second)
    error = cli("init", "--offline", "--table", "lake.db.t", code=1).err
    assert "ZL067 cannot write layouts/" in error
    assert "(free space there)" in error
    assert [p for p in here.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    ("uri", "type_", "warehouse"),
    [
        ("sqlite:///c.db", "sql", True),
        ("postgresql+psycopg2://host/db", "sql", True),
        ("mysql://host/db", "sql", True),
        ("http://localhost:8181", "rest", False),
        ("HTTPS://c.example", "rest", False),
        ("thrift://metastore:9083", "hive", False),
    ],
)
def test_the_catalog_type_is_that_of_the_uri(uri: str, type_: str, warehouse: bool, cli: Cli) -> None:
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--uri", uri, "--offline")
    catalog = load_project(Path(), {}).catalogs["ice"]
    assert (catalog.type, "warehouse" in catalog.options) == (type_, warehouse)


def test_a_given_catalog_type_needs_no_uri_if_the_type_needs_none(cli: Cli) -> None:
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--catalog-type", "glue", "--offline")
    catalog = load_project(Path(), {}).catalogs["ice"]
    assert (catalog.type, catalog.options) == ("glue", {})


def test_a_given_catalog_type_wins_over_the_scheme_of_the_uri(cli: Cli) -> None:
    uri = "https://glue.eu-west-1.amazonaws.com"
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--catalog-type", "glue", "--uri", uri, "--offline")
    catalog = load_project(Path(), {}).catalogs["ice"]
    assert (catalog.type, catalog.options) == ("glue", {"uri": uri})


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--uri", "nessie://host"], "expected a uri that begins with one of sqlite:"),
        (["--catalog-type", "nessie"], "expected a catalog type out of sql, rest, hive, glue, found 'nessie'"),
        (["--catalog-type", "hive"], "key 'uri' is missing"),
    ],
)
def test_a_catalog_whose_type_is_not_known_is_not_guessed(flags: list[str], found: str, here: Path, cli: Cli) -> None:
    assert found in cli("init", "--format", "iceberg", "--table", "ice.db.t", "--offline", *flags, code=1).err
    assert [p for p in here.rglob("*") if p.is_file()] == []


def test_a_terminal_is_asked_for_the_type_that_the_uri_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, "rest")
    assert run(["init", "--format", "iceberg", "--uri", "jdbc://host", "--table", "ice.db.t", "--offline"]) == 0
    assert asked[-1] == "Type of the catalog, sql, rest, hive or glue: "
    assert load_project(Path(), {}).catalogs["ice"].type == "rest"


# The tables of the catalog. Each table has four files of the target size.


SIZE = "1024"


def lake(folder: Path) -> None:
    """Write Delta tables ordered by time, by a column, and by none, a small one, and a folder that is no table."""
    start, random = datetime(2026, 1, 1, tzinfo=UTC), np.random.default_rng(1)
    for n in range(4):
        at = pa.array([start + timedelta(days=n, seconds=second) for second in range(200)])
        noise = random.random(200)
        tables = {
            "sales/events": {"who": noise, "at": at, "same": [1] * 200},
            "sales/orders": {"id": np.arange(200) + 200 * n, "noise": noise},
            "web/blobs": {"noise": noise, "xs": [[1]] * 200},
        }
        for name, columns in tables.items():
            write_deltalake(
                folder / name, pa.table(columns), mode="append", configuration={"delta.targetFileSize": SIZE}
            )
    write_deltalake(folder / "web/small", pa.table({"at": at}))
    (folder / "web/readme").mkdir()
    (folder / "web/readme/x.txt").write_text("no table")


def columns_of_layouts() -> dict[str, tuple[str, ...]]:
    return {str(spec.table): spec.column_names for spec in load_project(Path(), {}).layouts}


def test_layouts_are_proposed_for_the_tables_that_are_there(here: Path, cli: Cli) -> None:
    lake(here / "w")
    printed = cli("init", "--no-input", "--all", "--warehouse", "w", "--no-workflows")
    assert columns_of_layouts() == {
        "lake.sales.events": ("at",),
        "lake.sales.orders": ("id",),
        "lake.web.blobs": (),
        "lake.web.small": (),
    }
    assert "left out, because they are not tables of the catalog's format: lake.web.readme\n" in printed.err
    assert "lake.sales.events: order by [at] (the statistics of 4 files)\n" in printed.err
    assert "lake.web.blobs: compaction alone (no order is known)\n" in printed.err
    assert "lake.web.small: compaction alone (its rows fit in one file)\n" in printed.err
    assert "Plan: " in printed.out
    assert "lake.sales.orders (delta, version 3)" in printed.out


def test_the_recorded_order_of_a_table_is_kept(here: Path, cli: Cli) -> None:
    options = {"uri": f"sqlite:///{here}/ice.db", "warehouse": f"file://{here}/w"}
    catalog = load_catalog("ice", type="sql", **options)
    catalog.create_namespace("db")
    for name in ("ordered", "empty"):
        table = catalog.create_table(f"db.{name}", pa.schema([("id", pa.int64()), ("city", pa.string())]))
        if name == "ordered":
            with table.update_sort_order() as order:
                order.asc("city", "identity")
    catalog.close()
    flags = ["--format", "iceberg", "--uri", "sqlite:///ice.db", "--warehouse", "w", "--table", "ice.db.*"]
    assert "ice.db.ordered: order by [city] (the table's sort order)" in cli("init", *flags).err
    assert columns_of_layouts() == {"ice.db.ordered": ("city",), "ice.db.empty": ()}


def test_tables_are_chosen_from_a_list(here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    lake(here / "w")
    asked = on_a_terminal(monkeypatch, "", "", "", "w", "9", "1-2x", "3, sales.ev*")
    printed = cli("init", "--no-workflows").err
    assert [question[:6] for question in asked[-3:]] == ["Tables"] * 3
    assert printed.count("ZL088 expected numbers or patterns of tables, found ") == 2
    rows = [line.split() for line in printed.splitlines() if line.split()[:1] in (["1"], ["3"])]
    listed = [(row[0], row[3], row[-1]) for row in rows]
    assert listed == [("1", "4", "lake.sales.events"), ("3", "4", "lake.web.blobs")]
    assert list(columns_of_layouts()) == ["lake.sales.events", "lake.web.blobs"]


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ([], "ZL088"),
        (["--table", "lake.nowhere.*"], "ZL038"),
        (["--table", "lake.sales.gone"], "ZL110"),
        (["--table", "lake.sales.events", "--columns", "gone"], "ZL012"),
        (["--table", "lake.web.blobs", "--columns", "xs"], "ZL034"),
        (["--all", "--columns", "at"], "ZL012"),
        (["--all", "--workload", "none.sql"], "ZL002"),
    ],
)
def test_nothing_is_written_if_a_layout_would_not_fit_its_table(
    here: Path, flags: list[str], code: str, cli: Cli
) -> None:
    lake(here / "w")
    before = sorted(here.rglob("*"))
    assert code in cli("init", "--no-input", "--warehouse", "w", *flags, code=1).err
    assert sorted(here.rglob("*")) == before


def test_a_catalog_that_cannot_be_reached_is_an_error(here: Path, cli: Cli) -> None:
    flags = ["--format", "iceberg", "--uri", "http://127.0.0.1:9", "--all", "--timeout", "5"]
    assert "ZL121" in cli("init", *flags, code=1).err
    assert "ZL114 the warehouse of catalog lake cannot be listed: " in cli("init", "--all", code=1).err
    assert list(here.iterdir()) == []
    Path("warehouse").mkdir()
    assert "ZL038 no table of catalog lake matches lake.*.*" in cli("init", "--all", code=1).err


def test_tables_with_the_same_file_name_get_a_file_each(here: Path, cli: Cli) -> None:
    for name in ("a/b c", "a/b-c", "a/b_c"):
        write_deltalake(here / "w" / name, pa.table({"x": [1]}))
    cli("init", "--all", "--warehouse", "w")
    assert sorted(path.name for path in Path("layouts").iterdir()) == ["a_b-c.yaml", "a_b_c.yaml", "a_b_c_2.yaml"]
    assert len(columns_of_layouts()) == 3


def test_more_tables_than_can_be_read_need_a_pattern(here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    lake(here / "w")
    monkeypatch.setattr("zlayout.session.init.MAX_TABLES", 3)
    error = cli("init", "--all", "--warehouse", "w", code=1).err
    assert "ZL038 5 names match lake.*.*, more than 3 (use a pattern that matches fewer tables)" in error
    cli("init", "--all", "--warehouse", "w", "--table", "lake.sales.*")


def test_ctrl_c_while_files_are_written_leaves_none(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, replace = [], os.replace

    def interrupted(part: Path, path: Path) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        replace(part, path)

    monkeypatch.setattr(os, "replace", interrupted)
    assert run(["init", "--offline", "--table", "lake.db.t"]) == 130
    assert [p for p in here.rglob("*") if p.is_file()] == []
