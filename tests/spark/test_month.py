"""A month of a team in one repository: its tables, three pull requests, their merges, a week of appends, a rollback.

GitHub is a recording `gh` with a store of artifacts. The scripts are those of the templates, and the tables, Spark and
zlayout are real. The golden files are the comments of the pull requests and what the nightly run reports.
"""

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import IdentityTransform
from support.ci import Runner, git
from support.goldens import assert_golden
from support.projects import Cli, cli
from support.repositories import NIGHTLY, GitHub

from zlayout.cli.main import run

__all__ = ["cli"]

GOLDEN = Path(__file__).parent / "golden"
WEB = ("banners", "carts", "clicks", "errors", "forms", "logins", "pages", "searches", "tours", "views")
SMALL = [f"bronze.ref.list_{number:02}" for number in range(26)]
GROWING = ("bronze.sales.orders", "gold.mart.revenue")
SIZE = "8192"  # bytes of a file
FIRST = date(2026, 11, 2)
GOLD = """\
  gold: {format: iceberg, type: sql, uri: "sqlite:///gold.db", warehouse: ./gold}
"""
RULE = "version: 1\nmatch: bronze.web.*\nzorder: {columns: [customer, day]}\nfiles: {target_size: 8KiB}\n"


def rows(day: int, count: int = 1000) -> pa.Table:
    """The events of one day."""
    random = np.random.default_rng(day)
    columns = {"customer": random.integers(0, 5000, count), "product": random.permutation(count)}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return table.append_column("day", pa.array([FIRST + timedelta(days=day)] * count, pa.date32()))


class Team(GitHub):
    """The repository of a team, with its tables in folders that Git ignores."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.heads: dict[int, str] = {}
        (self.root / ".gitignore").write_text("/bronze/\n/gold/\n/gold.db\n")
        for name in WEB:
            for day in range(4):
                self.append(f"bronze.web.{name}", day)
        for name in ("orders", "returns", "users"):
            for day in range(6):
                self.append(f"bronze.sales.{name}", day)
        for day in range(12):
            self.append("bronze.sales.stock", day, 60)
        for name in SMALL:
            self.append(name, 0, 10)
        self.commit()

    def make_gold(self) -> None:
        """Make two Iceberg tables, which declare to be ordered by day."""
        self.catalog.create_namespace("mart")
        for name in ("revenue", "visits"):
            properties = {"write.target-file-size-bytes": SIZE}
            table = self.catalog.create_table(f"mart.{name}", rows(0).schema, properties=properties)
            table.update_sort_order().asc("day", IdentityTransform()).commit()
            for day in range(6):
                self.append(f"gold.mart.{name}", day)

    @property
    def catalog(self) -> Catalog:
        return load_catalog(
            "gold", type="sql", uri=f"sqlite:///{self.root}/gold.db", warehouse=f"file://{self.root}/gold"
        )

    def append(self, table: str, day: int, count: int = 1000) -> None:
        if table.startswith("gold"):
            self.catalog.load_table(table.partition(".")[2]).append(rows(day, count))
            return
        properties = {"delta.targetFileSize": SIZE}
        write_deltalake(self.folder(table), rows(day, count), mode="append", configuration=properties)

    def folder(self, table: str) -> str:
        return str(self.root.joinpath(*table.split(".")))

    def rows(self, table: str) -> list[dict[str, Any]]:
        if table.startswith("gold"):
            found = self.catalog.load_table(table.partition(".")[2]).scan().to_arrow()
        else:
            found = DeltaTable(self.folder(table)).to_pyarrow_table()
        return sorted_rows(found.to_pylist())

    def open(self, number: int, name: str, files: dict[Path, str | None]) -> None:
        """Open a pull request that writes and removes (None) files, and compare its comment."""
        git(self.root, "checkout", "--quiet", "--force", "-B", name, "main")
        for path, text in files.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.heads[number] = self.commit()
        self.pull(number, self.heads[number])
        assert_golden(self.runner.posted, GOLDEN / f"{name}.md")

    def merge_pull(self, number: int) -> Path:
        """Merge a pull request, and return the plan that is to be approved."""
        head = self.heads[number]
        self.merged(number, head, self.merge(head, "--squash"))
        return self.push()

    def layout(self, table: str) -> Path:
        _, *names = table.split(".")
        return self.root / "layouts" / f"{'_'.join(names)}.yaml"


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """`apply` runs in this process, and uses the session of all tests."""
    monkeypatch.setattr("zlayout.spark.session.SparkRuntime.stop", lambda _: None)
    team = Team(Runner(tmp_path))
    monkeypatch.chdir(team.root)
    return team


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_a_month(team: Team, cli: Cli) -> None:
    start(team, cli)
    reviews(team)
    merges(team, cli)
    a_week_of_appends(team, cli)
    rollback(team, cli)


def start(team: Team, cli: Cli) -> None:
    """Write layouts of 40 tables and of two Iceberg tables, and apply the first plan after an approval."""
    said = cli("init", "--format", "delta", "--warehouse", "./bronze", "--table", "bronze.*.*", "--no-input")
    assert "40 tables read" in said.out
    assert said.err.count("compaction alone (its rows fit in one file)") == 26
    assert said.err.count("order by [day] (the statistics of") == 14
    project = team.root / "zlayout.yaml"
    project.write_text(project.read_text().replace("catalogs:\n", f"catalogs:\n{GOLD}"))
    team.make_gold()
    assert "wrote layouts/mart_revenue.yaml" in cli("import", "gold.mart.*").out
    team.commit()
    planned = team.push()
    assert len(documents(planned)) == 42
    kept = {name: team.rows(name) for name in ("bronze.sales.stock", "gold.mart.revenue", "gold.mart.visits")}
    assert sorted(changing(planned)) == sorted(kept)
    apply(cli, team.approve(planned), *kept)
    assert {name: team.rows(name) for name in kept} == kept
    cli("drift")


def reviews(team: Team) -> None:
    """Three people propose changes. Each comment alone says what is reviewed."""
    orders, revenue = (team.layout(name) for name in ("bronze.sales.orders", "gold.mart.revenue"))
    columns = {path: path.read_text().replace("[day]", "[customer, day]") for path in (orders, revenue)}
    team.open(7, "columns", columns)
    team.open(
        8, "rule", {team.layout(f"bronze.web.{name}"): None for name in WEB} | {team.root / "layouts/web.yaml": RULE}
    )
    team.open(9, "deleted", {team.layout("bronze.sales.returns"): None})


def merges(team: Team, cli: Cli) -> None:
    """Appends do not change what is applied. A deletion does: the plan is made again, and reviewed again."""
    kept = {name: team.rows(name) for name in GROWING}
    for name, count in zip(GROWING, (1000, 50), strict=True):  # more than the tolerance, and less
        team.append(name, 6, count)
        kept[name] = sorted_rows([*kept[name], *rows(6, count).to_pylist()])
    planned = team.merge_pull(7)
    assert "ZL451" not in planned.read_text()
    assert sorted(changing(planned)) == sorted(kept)
    apply(cli, team.approve(planned), *kept)
    assert {name: team.rows(name) for name in kept} == kept

    DeltaTable(team.folder("bronze.web.clicks")).delete("customer < 100")
    left = team.rows("bronze.web.clicks")
    assert 0 < len(left) < 4000
    planned = team.merge_pull(8)
    (found,) = (name for name, table in documents(planned).items() if "ZL451" in json.dumps(table["diagnostics"]))
    assert found == "bronze.web.clicks"
    ((number, comment),) = team.posts
    assert number == "8"
    assert_golden(comment, GOLDEN / "planned-again.md")
    apply(cli, team.approve(planned), *(f"bronze.web.{name}" for name in WEB))
    assert team.rows("bronze.web.clicks") == left
    assert all(table["rule"] == "bronze.web.*" for table in changing(planned).values())

    assert changing(team.merge_pull(9)) == {}
    assert team.runner.outputs["plan"]["has_changes"] == "false"
    cli("drift", code=2)  # what was appended
    assert "bronze.sales.returns" not in cli("plan").out


def a_week_of_appends(team: Team, cli: Cli) -> None:
    """At the end of the week, the nightly workflow reports what is not as declared, and repairs it."""
    codes = []
    for day in range(7, 14):
        for name in GROWING:
            team.append(name, day, 250)
        codes.append(run(["drift"]))
    assert codes == sorted(codes)
    assert codes[-1] == 2
    kept = {name: team.rows(name) for name in GROWING}
    git(team.root, "checkout", "--quiet", "--force", "main")
    (drift,) = (step for step in team.steps(NIGHTLY, "drift") if step.get("name") == "Drift")
    assert_golden(team.run(drift), GOLDEN / "night.log")
    assert team.runner.outputs["drift"]["has_changes"] == "true"
    found = json.loads(Path(team.runner.outputs["drift"]["sarif"]).read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in found].count("layout-decay") == 3 * len(GROWING)  # three measures of each
    apply(cli, team.applied(NIGHTLY), *GROWING)
    assert {name: team.rows(name) for name in kept} == kept
    cli("drift")


def rollback(team: Team, cli: Cli) -> None:
    """The files of before return, and so does what the run repaired."""
    kept = {name: team.rows(name) for name in GROWING}
    for name in GROWING:
        assert "Rolled back" in cli("rollback", name, "--auto-approve").out
    assert {name: team.rows(name) for name in GROWING} == kept
    cli("drift", code=2)


def documents(plan: Path) -> dict[str, dict[str, Any]]:
    """The tables of a plan by name."""
    return {table["table"]: table for table in json.loads(plan.read_text())["tables"]}


def changing(plan: Path) -> dict[str, dict[str, Any]]:
    return {name: table for name, table in documents(plan).items() if table["actions"]}


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["day"], row["product"], row["customer"]))


def apply(cli: Cli, arguments: list[str], *tables: str) -> None:
    """Apply as CI does, to these tables and no others."""
    said = cli(*arguments).out.rpartition("\n\n")[0].rpartition("\n\n")[2]
    assert all(name in said for name in tables)
    assert " ".join(said.split()).count(" 1 commit,") == len(tables)
