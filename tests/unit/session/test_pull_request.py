"""Comments on prepared pull requests: each alone must state what changes, what it costs, and what is wrong with it.

The golden files are the comments.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.git_projects import PROJECT, GitProject
from support.goldens import assert_golden
from support.projects import Cli

GOLDEN = Path(__file__).parent / "golden"
ORDERS = """\
table: lake.sales.orders
zorder: {columns: [customer]}
files: {target_size: 4KiB}
"""
WEB = ("clicks", "views", "carts", "pages", "logins", "searches", "banners", "errors", "forms", "tours")


def rows(seed: int, count: int = 2000, *, ordered: str = "") -> pa.Table:
    """Random rows with one country each, in the order of a column or without any."""
    random = np.random.default_rng(seed)
    columns = {"customer": random.permutation(count), "product": random.permutation(count)}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    table = table.append_column("country", pa.array([("DE", "FR", "IT")[seed % 3]] * count))
    return table.sort_by(ordered) if ordered else table


def write(project: GitProject, name: str, files: int = 4, ordered: str = "", partition_by: str | None = None) -> None:
    whole = rows(0, ordered=ordered)
    step = len(whole) // files
    for number in range(files):
        part = whole.slice(number * step, step) if ordered else rows(number)
        location = str(project.root / "tables" / name)
        write_deltalake(location, part, mode="append", partition_by=[partition_by] if partition_by else None)


def edited_columns(project: GitProject) -> list[str]:
    """One column more, and a smaller tolerance."""
    project.layout("orders", ORDERS.replace("[customer]", "[customer, product]") + "tolerance: {unclustered: 5%}\n")
    return ["--sample"]


def rule_takes_over(project: GitProject) -> list[str]:
    """A rule instead of ten layouts, one of which had another column."""
    for name in WEB:
        project.remove(name)
    project.layout("web", "match: lake.web.*\nzorder: {columns: [product]}\nfiles: {target_size: 16KiB}\n")
    return []


def deleted_layout(project: GitProject) -> list[str]:
    project.remove("orders")
    return []


def misspelt_filter(project: GitProject) -> list[str]:
    """A partition that does not exist."""
    project.layout("events", EVENTS.replace("'DE'", "'GE'"))
    return []


def reads_more(project: GitProject) -> list[str]:
    """The table is in the order of `customer`, by which most queries read it."""
    project.layout("sorted", SORTED.replace("[customer]", "[product, customer]"))
    return ["--sample"]


def new_table_and_settings(project: GitProject) -> list[str]:
    """A new layout, and a default that concerns the tables that do not set it; the others are planned too."""
    project.write(**{"zlayout.yaml": f"{PROJECT}defaults: {{files: {{target_size: 8KiB}}}}\n"})
    project.layout("new", "table: lake.sales.returns\nzorder: {columns: [customer], curve: hilbert}\n")
    return ["lake.sales.*"]


def nothing(project: GitProject) -> list[str]:
    project.layout("orders", f"# only a comment\n{ORDERS}")
    return []


EVENTS = "table: lake.sales.events\nzorder: {columns: [customer]}\nfiles: {target_size: 4KiB}\nwhere: country = 'DE'\n"
SORTED = "table: lake.sales.sorted\nzorder: {columns: [customer]}\nfiles: {target_size: 4KiB}\n"
SCENARIOS = (
    edited_columns,
    rule_takes_over,
    deleted_layout,
    misspelt_filter,
    reads_more,
    new_table_and_settings,
    nothing,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> GitProject:
    layouts = {name: f"table: lake.web.{name}\nzorder: {{columns: [customer]}}\n" for name in WEB}
    layouts["tours"] = layouts["tours"].replace("customer", "country")
    folder = tmp_path_factory.mktemp("team") / "repository"
    project = GitProject(folder, orders=ORDERS, events=EVENTS, sorted=SORTED, **layouts)
    for name in WEB:
        write(project, f"web/{name}", files=2)
    write(project, "sales/orders", files=8)
    write(project, "sales/returns")
    write(project, "sales/events", files=6, partition_by="country")
    write(project, "sales/sorted", files=16, ordered="customer")
    return project


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda made: made.__name__)
def test_the_comment(
    prepared: GitProject,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[GitProject], list[str]],
    tmp_path: Path,
) -> None:
    project = prepared
    monkeypatch.chdir(project.root)
    project.git("checkout", "--quiet", "-B", scenario.__name__, "main")
    arguments = scenario(project)
    project.commit()
    reports = {name: tmp_path / f"report.{name}" for name in ("markdown", "html", "github", "junit", "sarif")}
    options = [f"--report={name}={path}" for name, path in reports.items()]
    plan = tmp_path / "plan.json"
    cli("plan", "changed:main", *arguments, "--out", str(plan), *options, code=0)
    comment = reports["markdown"].read_text()
    assert_golden(comment, GOLDEN / f"{scenario.__name__}.md")
    assert_golden(reports["github"].read_text(), GOLDEN / f"{scenario.__name__}.log")
    assert len(comment) < 65_536
    assert "drift" not in comment.partition("Backlog")[0]
    assert "drift" not in reports["github"].read_text()
    assert ("<failure" in reports["junit"].read_text()) == (scenario in (misspelt_filter, new_table_and_settings))
    # the saved plan gives the same comment
    cli("show", str(plan), f"--report=markdown={tmp_path}/again.md")
    assert (tmp_path / "again.md").read_text() == comment
