"""init: flags, questions, and a project that loads, with schemas beside it."""

import errno
import os
from pathlib import Path

import pytest
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


def test_an_example_is_named_as_one(cli: Cli) -> None:
    example = "The layout is an example, because --table and --columns had no value: change it first."
    assert example in cli("init", "one", "--no-input").err
    given = cli("init", "two", "--no-input", "--table", "lake.db.t", "--columns", "a").err
    assert "example" not in given


def test_flags_say_it_all(cli: Cli) -> None:
    flags = [
        "--table", "ice.`a.b`.Orders: new", "--columns", "yes, b #c", "--uri", "https://c.example", "--warehouse",
        "w",
    ]  # fmt: skip
    assert cli("init", "--format", "iceberg", *flags, "--no-workflows").out.splitlines() == [
        "wrote zlayout.yaml",
        "wrote layouts/Orders__new.yaml",
        "wrote .zlayout/project.schema.json",
        "wrote .zlayout/layout.schema.json",
    ]
    project = load_project(Path(), {})
    (spec,) = project.layouts
    assert spec.table.identifier == ("a.b", "Orders: new")
    assert spec.column_names == ("yes", "b #c")
    assert (project.catalogs["ice"].type, project.catalogs["ice"].options["uri"]) == ("rest", "https://c.example")


def test_a_terminal_is_asked_for_what_no_flag_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, "iceberg", "ice.db.t", "", "", "")
    assert run(["init", "--columns", "x"]) == 0
    assert [q.split(",")[0].split(":")[0] for q in asked] == [
        "Format of the tables",
        "First table",
        "Type of the catalog",
        "Warehouse",
        "Address of the catalog",
    ]
    (spec,) = load_project(Path(), {}).layouts
    assert (str(spec.table), spec.column_names) == ("ice.db.t", ("x",))


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
    assert run(["init", "--format", format, "--table", "lake.db.t", "--columns", "x"]) == 0
    assert asked[-1] == asked_last
    assert load_project(Path(), {}).catalogs["lake"].type == type_ or not type_


def test_an_invalid_answer_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = on_a_terminal(monkeypatch, "parquet", "delta", "orders", "lake.db.t", "x", "hms", "path", "w")
    assert run(["init"]) == 0
    assert [len([q for q in asked if q.startswith(start)]) for start in ("Format", "First", "Type")] == [2, 2, 2]
    reported = capsys.readouterr().err
    assert "error: ZL048 expected a format out of delta, iceberg, found 'parquet'\n" in reported
    assert "error: ZL020 " in reported
    assert "error: ZL048 expected a catalog type out of path, hive, glue, unity, found 'hms'\n" in reported
    (spec,) = load_project(Path(), {}).layouts
    assert str(spec.table) == "lake.db.t"


def test_nothing_is_asked_where_a_project_is(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    assert run(["init", "--no-input"]) == 0
    asked = on_a_terminal(monkeypatch)
    assert "ZL047 zlayout.yaml already exists" in cli("init", code=1).err
    assert asked == []


def test_no_input_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch)
    assert run(["init", "--no-input"]) == 0
    assert asked == []


@pytest.mark.parametrize(
    ("flags", "folder", "names"),
    [
        ([], ".github/workflows", ["zlayout-nightly.yml", "zlayout-pull-request.yml"]),
        (["--ci", "gitlab"], ".", ["zlayout.gitlab-ci.yml"]),
        (["--ci", "gitlab", "--no-workflows"], ".", []),
    ],
)
def test_the_files_for_ci_are_the_templates(flags: list[str], folder: str, names: list[str]) -> None:
    assert run(["init", *flags]) == 0
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
    assert run(["init", "--format", "iceberg", "--uri", uri, "--warehouse", "s3://lake"]) == 0
    for name, more in (("pull-request", ""), ("nightly", ",spark")):
        assert f"'zlayout[{extras}{more}]'" in Path(f".github/workflows/zlayout-{name}.yml").read_text()


def test_editors_find_the_schemas() -> None:
    assert run(["init"]) == 0
    for file, name in (("zlayout.yaml", "project"), ("layouts/orders.yaml", "layout")):
        first = Path(file).read_text().splitlines()[0]
        target = Path(file).parent / first.removeprefix("# yaml-language-server: $schema=")
        assert target.read_text() == schema_text(name)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--format", "hudi"], "ZL048"),
        (["--format", "delta", "--uri", "sqlite:///c.db"], "ZL048"),
        (["--table", "orders"], "ZL020"),
        (["--columns", "a,a"], "ZL016"),
        (["--columns", ", "], "ZL013"),
    ],
)
def test_bad_answers_leave_nothing_behind(here: Path, flags: list[str], code: str, cli: Cli) -> None:
    assert code in cli("init", *flags, code=1).err
    assert [p for p in here.rglob("*") if p.is_file()] == []


def test_a_folder_that_cannot_be_created_is_an_error(cli: Cli) -> None:
    Path("file").write_text("")
    assert "ZL067" in cli("init", "file", code=1).err


def test_a_disk_that_is_full_keeps_no_part_of_a_file(here: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    written, replace = [], os.replace

    def fail_at_the_second(part: Path, path: Path) -> None:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        replace(part, path)

    monkeypatch.setattr(os, "replace", fail_at_the_second)
    error = cli("init", code=1).err
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
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--uri", uri)
    catalog = load_project(Path(), {}).catalogs["ice"]
    assert (catalog.type, "warehouse" in catalog.options) == (type_, warehouse)


def test_a_given_catalog_type_needs_no_uri_if_the_type_needs_none(cli: Cli) -> None:
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--catalog-type", "glue")
    catalog = load_project(Path(), {}).catalogs["ice"]
    assert (catalog.type, catalog.options) == ("glue", {})


def test_a_given_catalog_type_wins_over_the_scheme_of_the_uri(cli: Cli) -> None:
    uri = "https://glue.eu-west-1.amazonaws.com"
    cli("init", "--format", "iceberg", "--table", "ice.db.t", "--catalog-type", "glue", "--uri", uri)
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
    assert found in cli("init", "--format", "iceberg", "--table", "ice.db.t", *flags, code=1).err
    assert [p for p in here.rglob("*") if p.is_file()] == []


def test_a_terminal_is_asked_for_the_type_that_the_uri_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = on_a_terminal(monkeypatch, "rest")
    assert run(["init", "--format", "iceberg", "--uri", "jdbc://host", "--table", "ice.db.t", "--columns", "x"]) == 0
    assert asked[-1] == "Type of the catalog, sql, rest, hive or glue: "
    assert load_project(Path(), {}).catalogs["ice"].type == "rest"
