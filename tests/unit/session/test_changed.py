"""`changed:REV`: the layouts that differ from those at the merge base, by effective values."""

import errno
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from support.git_projects import PROJECT, GitProject
from support.projects import Cli

from zlayout.errors import SpecError, TableError
from zlayout.planner import document
from zlayout.planner.model import Changes, LayoutChange
from zlayout.session.plan_file import write_plan
from zlayout.session.project import load_project
from zlayout.session.session import drift, plan, read_plan

ROWS = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(range(100), pa.int64())})
ORDERS = "table: lake.db.orders\nzorder: {columns: [a]}\nfiles: {target_size: 1KiB}\n"
ITEMS = "table: lake.db.items\ndescription: all items\ntags: [nightly]\nzorder: {columns: [a]}\n"
WEB = "match: lake.web.*\nzorder: {columns: [a]}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitProject:
    """Two layouts and a rule for two tables."""
    made = GitProject(tmp_path / "repository", orders=ORDERS, items=ITEMS, web=WEB)
    monkeypatch.chdir(made.root)
    for name in ("db/orders", "db/items", "web/clicks", "web/views"):
        made.table(name, ROWS)
    return made


def found(*select: str) -> dict[str, list[str]]:
    """The tables that are selected, with the keys of their settings that differ."""
    tables = plan(load_project(), select or ("changed:main",)).tables
    return {t.table: [s.key for s in t.change.settings] + list(t.change.catalog) for t in tables if t.change}


def changes() -> Changes:
    found = plan(load_project(), "changed:main").document.changes
    assert found is not None
    return found


def change_of(table: str) -> LayoutChange:
    (found,) = (t.change for t in plan(load_project(), "changed:main").tables if t.table == table)
    assert found is not None
    return found


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", ["plan", "drift", "apply --auto-approve"])
def test_nothing_changed_is_a_success(cli: Cli, command: str) -> None:
    printed = cli(*command.split(), "changed:main")
    assert "note: ZL470 no layout differs from" in printed.out
    assert "the merge base with main" in printed.out


def test_edits_without_an_effect_select_nothing(project: GitProject) -> None:
    project.layout("orders", f"# a comment\n{ORDERS}tolerance: {{unclustered: 10%}}\n")  # the default
    project.layout("items", ITEMS.replace("all items", "every item"))
    (project.root / "layouts/web.yaml").rename(project.root / "layouts/clicks.yaml")
    with (project.root / "zlayout.yaml").open("a") as file:
        file.write(
            "spark: {conf: {spark.sql.shuffle.partitions: '7'}}\nprices: {scan_per_tib: 5, compute_per_hour: 2}\n"
        )
    assert found() == {}
    project.commit()
    assert found() == {}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (ORDERS.replace("[a]", "[a, b]"), ["zorder.columns"]),
        (ORDERS.replace("[a]", "[a], curve: linear"), ["zorder.curve"]),
        (ORDERS.replace("1KiB", "2KiB, max_group_size: 1MiB"), ["files.target_size", "files.max_group_size"]),
        (f"{ORDERS}partition_by: [b]\n", ["partition_by"]),
        (f"{ORDERS}tolerance: {{unclustered: 20%}}\n", ["tolerance.unclustered"]),
        (f"{ORDERS}tags: [nightly]\n", ["tags"]),
        (f"{ORDERS}where: b = 1\n", ["where"]),
    ],
)
def test_each_setting_is_compared(project: GitProject, text: str, keys: list[str]) -> None:
    project.layout("orders", text)
    assert found() == {"lake.db.orders": keys}
    project.commit()
    assert found() == {"lake.db.orders": keys}
    assert [s.location.path for s in change_of("lake.db.orders").settings if s.location] == [
        "layouts/orders.yaml"
    ] * len(keys)


def test_values_before_and_after(project: GitProject) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[a, {name: b, weight: 2}]"))
    (setting,) = change_of("lake.db.orders").settings
    assert (setting.before, setting.after) == (["a"], ["a", {"name": "b", "weight": 2.0}])


def test_added_removed_and_renamed_layouts(project: GitProject) -> None:
    project.table("db/new", ROWS)
    project.layout("new", ORDERS.replace("orders", "new"))
    project.remove("items")
    assert found() == {"lake.db.new": ["zorder.columns", "zorder.curve", "files.target_size"]}
    assert change_of("lake.db.new").is_new
    (removed,) = changes().removed
    assert (removed.table, str(removed.location), removed.rule) == ("lake.db.items", "layouts/items.yaml:2:1", "")
    project.layout("orders", ORDERS.replace("orders", "items"))  # the table of the layout is another one
    assert sorted(found()) == ["lake.db.items", "lake.db.new"]
    assert [one.table for one in changes().removed] == ["lake.db.orders"]


def test_the_last_layout_can_be_removed(project: GitProject) -> None:
    for name in ("orders", "items", "web"):
        project.remove(name)
    assert found() == {}
    removed = {one.table: one.rule for one in changes().removed}
    assert removed == {
        "lake.db.items": "",
        "lake.db.orders": "",
        "lake.web.clicks": "lake.web.*",
        "lake.web.views": "lake.web.*",
    }


def test_defaults_and_catalogs_concern_the_layouts_that_have_them(project: GitProject) -> None:
    project.write(**{"zlayout.yaml": f"{PROJECT}defaults: {{files: {{target_size: 4KiB}}}}\n"})
    assert found() == {name: ["files.target_size"] for name in ("lake.db.items", "lake.web.clicks", "lake.web.views")}
    project.write(**{"zlayout.yaml": PROJECT.replace("./tables", "./tables/.")})
    assert found() == {}  # the same folder
    (project.root / "tables").rename(project.root / "moved")
    project.write(**{"zlayout.yaml": PROJECT.replace("./tables", "./moved")})
    names = ("lake.db.items", "lake.db.orders", "lake.web.clicks", "lake.web.views")
    assert found() == {name: ["warehouse"] for name in names}


def test_a_zlayout_yaml_that_the_plan_does_not_use_is_reported(project: GitProject, cli: Cli) -> None:
    """Workflows replace it by that of the base branch, because it chooses who receives credentials."""
    project.write(**{"zlayout.yaml": f"{PROJECT}defaults: {{files: {{target_size: 4KiB}}}}\n"})
    project.commit()
    assert "ZL471" not in cli("plan", "changed:main").out
    project.write(**{"zlayout.yaml": PROJECT})
    printed = cli("plan", "changed:main", "--report", "markdown=comment.md").out
    assert "ZL470" in printed
    assert "warning: zlayout.yaml: ZL471 HEAD changes zlayout.yaml" in printed
    assert "- **warning** ``ZL471 HEAD changes zlayout.yaml" in Path("comment.md").read_text()
    project.write(**{"zlayout.yaml": f"# another comment\n{PROJECT}"})
    assert "ZL471" not in cli("plan", "changed:main").out


def test_workload_files_are_compared_by_their_content(project: GitProject) -> None:
    project.write(**{"workloads/a.sql": "SELECT * FROM lake.db.orders WHERE a = 1;\n"})
    project.commit()
    project.git("checkout", "--quiet", "-B", "main")
    assert found() == {}
    project.write(**{"workloads/a.sql": "SELECT * FROM lake.db.orders WHERE a = 1;\r\n"})
    assert found() == {}  # only line ends differ
    project.write(**{"workloads/a.sql": "SELECT * FROM lake.db.orders WHERE b = 1;\n"})
    names = ("lake.db.items", "lake.db.orders", "lake.web.clicks", "lake.web.views")
    assert found() == {name: ["workload"] for name in names}
    (setting,) = change_of("lake.db.orders").settings
    assert setting.before == ["workloads/a.sql (406b44f4)"]
    project.layout("orders", f"{ORDERS}workload: more.sql\n")
    project.write(**{"more.sql": "SELECT 1;\n"})
    assert change_of("lake.db.orders").settings[0].after == ["more.sql (e0ac49d1)"]


def test_a_rule_selects_the_tables_that_it_gains_changes_and_loses(project: GitProject) -> None:
    project.layout("web", WEB.replace("[a]", "[b]"))
    assert found() == {"lake.web.clicks": ["zorder.columns"], "lake.web.views": ["zorder.columns"]}
    project.layout("web", f"{WEB}exclude: [lake.web.views]\n")
    assert found() == {}
    assert [(one.table, one.rule) for one in changes().removed] == [("lake.web.views", "lake.web.*")]
    project.layout("web", WEB.replace("web.*", "*.*"))
    # the tables with layouts of their own keep these
    assert found() == {"lake.web.clicks": ["rule"], "lake.web.views": ["rule"]}
    project.remove("orders")
    project.remove("items")
    taken = found()
    assert taken["lake.db.orders"] == ["rule", "files.target_size"]
    assert taken["lake.db.items"] == ["rule", "tags"]
    assert changes().removed == ()


def test_a_narrower_rule_and_a_layout_of_its_own_take_over_a_table(project: GitProject) -> None:
    project.layout("clicks", "match: lake.web.c*\nzorder: {columns: [b]}\n")
    assert found() == {"lake.web.clicks": ["rule", "zorder.columns"]}
    project.layout("clicks", "table: lake.web.clicks\nzorder: {columns: [a]}\n")
    assert found() == {"lake.web.clicks": ["rule"]}


def test_conditions_of_a_rule(project: GitProject) -> None:
    project.layout("web", f"{WEB}only: {{columns: [missing]}}\n")
    assert found() == {}
    assert [one.table for one in changes().removed] == ["lake.web.clicks", "lake.web.views"]


def test_a_catalog_is_not_listed_if_no_rule_differs(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    monkeypatch.setattr("zlayout.formats.delta.names.list_folders", None)
    assert sorted(found()) == ["lake.db.orders"]


def test_a_changed_rule_that_matches_nothing_is_reported(project: GitProject) -> None:
    project.layout("web", WEB.replace("web", "wbe"))
    planned = plan(load_project(), "changed:main").document
    assert [d.code for d in planned.diagnostics] == ["ZL444"]
    assert planned.changes is not None
    assert [one.table for one in planned.changes.removed] == ["lake.web.clicks", "lake.web.views"]


def test_what_happened_on_the_other_branch_since_is_no_change(project: GitProject) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.commit()
    project.git("checkout", "--quiet", "main")
    project.layout("items", ITEMS.replace("[a]", "[b]"))
    project.commit()
    project.git("checkout", "--quiet", "change")
    assert sorted(found()) == ["lake.db.orders"]
    assert sorted(found("changed:HEAD")) == []
    assert sorted(found("changed:HEAD~1")) == ["lake.db.orders"]


def test_with_other_selectors(project: GitProject, cli: Cli) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.layout("web", WEB.replace("[a]", "[b]"))

    def selected(*arguments: str) -> list[str]:
        return [
            table["table"].removeprefix("lake.")
            for table in json.loads(cli("plan", *arguments, "--json").out)["tables"]
        ]

    assert selected("changed:main") == ["db.orders", "web.clicks", "web.views"]
    assert selected("changed:main", "--exclude", "lake.web.*") == ["db.orders"]
    assert selected("changed:main", "tag:nightly") == ["db.items", "db.orders", "web.clicks", "web.views"]
    assert selected("--exclude", "changed:main") == ["db.items"]
    assert selected("lake.db.*", "--exclude", "changed:main") == ["db.items"]
    project.commit()
    assert selected("changed:main", "--exclude", "changed:HEAD") == selected("changed:main")
    assert selected("changed:HEAD", "lake.db.items") == ["db.items"]
    with pytest.raises(SpecError, match="ZL045"):
        plan(load_project(), ("changed:main", "lake.db.missing"))


def test_the_command_that_comes_next_selects_the_same(project: GitProject, cli: Cli) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    assert "To apply: zlayout apply changed:main" in cli("plan", "changed:main").err
    assert [t.table for t in drift(load_project(), "changed:main").drifted] == ["lake.db.orders"]


def test_a_plan_file_keeps_what_changed(project: GitProject, cli: Cli) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.remove("items")
    made = plan(load_project(), "changed:main")
    write_plan(made, "plan.json")
    saved = document.read(Path("plan.json")).plan
    assert saved.changes == made.document.changes
    assert saved.tables[0].change == made.tables[0].change
    assert '"changes": {' not in cli("plan", "lake.db.orders", "--json").out
    # the plan is applied without Git
    assert [t.status for t in read_plan(load_project(), "plan.json").tables] == ["changes"]
    assert read_plan(load_project(), "plan.json", exclude="changed:main").tables == ()


def test_a_project_below_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = GitProject(tmp_path, other=ORDERS)
    monkeypatch.chdir(tmp_path)
    made.write(**{"sub/zlayout.yaml": PROJECT, "sub/layouts/orders.yaml": f"version: 1\n{ORDERS}"})
    made.table("../sub/tables/db/orders", ROWS)
    assert [t.change.is_new for t in plan(load_project("sub"), "changed:main").tables if t.change] == [True]
    made.git("add", "sub/zlayout.yaml", "sub/layouts")
    made.git("commit", "--quiet", "--message", "sub")
    assert plan(load_project("sub"), "changed:HEAD").tables == ()
    monkeypatch.chdir(tmp_path / "sub")
    made.write(**{"sub/layouts/orders.yaml": f"version: 1\n{ORDERS.replace('[a]', '[b]')}"})
    assert found("changed:HEAD") == {"lake.db.orders": ["zorder.columns"]}


# Links and errors.


def test_a_link_to_a_layout_is_followed_within_the_project(project: GitProject) -> None:
    project.write(**{"drafts/orders.yaml": f"version: 1\n{ORDERS}"})
    project.remove("orders")
    (project.root / "layouts/orders.yaml").symlink_to("../drafts/orders.yaml")
    assert found() == {}
    project.commit()
    project.remove("orders")
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    assert found("changed:HEAD") == {"lake.db.orders": ["zorder.columns"]}


def test_a_link_out_of_the_project_is_no_file(project: GitProject, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(f"version: 1\n{ORDERS.replace('orders', 'secret')}")
    (project.root / "layouts/secret.yaml").symlink_to("../../secret.yaml")
    (project.root / "layouts/loop.yaml").symlink_to("loop.yaml")
    (project.root / "layouts/absolute.yaml").symlink_to(tmp_path / "secret.yaml")
    project.commit()
    for name in ("secret", "loop", "absolute"):
        project.remove(name)
    assert found("changed:HEAD") == {}
    assert plan(load_project(), "changed:HEAD").document.changes == Changes(
        "HEAD", project.git("rev-parse", "HEAD"), (), 3
    )


def refused(code: str, select: str = "changed:main") -> str:
    with pytest.raises(SpecError) as error:
        plan(load_project(), select)
    assert [d.code for d in error.value.diagnostics] == [code]
    return str(error.value)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "name", ["nope", "", "--all", "--output=x", "-h", "main..change", "^main", "main\n", "main\0", "a" * 5000]
)
def test_an_unknown_revision(name: str) -> None:
    assert "unknown revision" in refused("ZL094", f"changed:{name}")
    assert sorted(Path().iterdir()) == [Path(p) for p in (".git", ".gitignore", "layouts", "tables", "zlayout.yaml")]


@pytest.mark.usefixtures("project")
def test_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install Git" in refused("ZL092")


def test_in_no_repository(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / ".git").rename(project.root / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    assert "not a git repository" in refused("ZL093")


@pytest.mark.parametrize(
    ("options", "code"), [(["--depth=1"], "ZL094"), (["--depth=1", "--no-single-branch"], "ZL095"), (["--depth=4"], "")]
)
def test_a_shallow_clone(
    project: GitProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: str
) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.commit()
    shallow = ("clone", "--quiet", *options, "--branch=change", f"file://{project.root}", str(tmp_path / "clone"))
    project.git(*shallow)
    (tmp_path / "clone/tables").symlink_to(project.root / "tables")
    monkeypatch.chdir(tmp_path / "clone")
    if code:
        assert "fetch-depth: 0" in refused(code, "changed:origin/main")
    else:
        base = project.git("rev-parse", "main")
        assert found(f"changed:{base}") == {"lake.db.orders": ["zorder.columns"]}


def test_a_clone_without_the_files_fetches_nothing(
    project: GitProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.commit()
    project.git("config", "uploadpack.allowFilter", "true")
    project.git("clone", "--quiet", "--filter=blob:none", f"file://{project.root}", str(tmp_path / "clone"))
    monkeypatch.chdir(tmp_path / "clone")
    assert "--filter" in refused("ZL095", "changed:origin/main")


def test_unrelated_histories(project: GitProject) -> None:
    project.git("checkout", "--quiet", "--orphan", "other")
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    project.commit()
    assert "no common ancestor" in refused("ZL095")


def test_an_invalid_project_at_the_merge_base(project: GitProject) -> None:
    project.layout("orders", "table: lake.db.orders\nzorder: {colums: [a]}\n")
    project.commit()
    project.layout("orders", ORDERS)
    message = refused("ZL096", "changed:HEAD")
    assert "layouts/orders.yaml:3:1: ZL011 key 'columns' is missing in zorder, and 1 more" in message


def test_a_rule_that_is_gone_and_whose_catalog_does_not_answer(project: GitProject) -> None:
    project.remove("web")
    (project.root / "tables").rename(project.root / "away")
    with pytest.raises(TableError, match="ZL114"):
        plan(load_project(), "changed:main")
    project.layout("web", WEB.replace("[a]", "[b]"))
    (table,) = plan(load_project(), "changed:main").tables
    assert [d.code for d in table.diagnostics] == ["ZL114"]


def test_a_folder_that_cannot_be_listed(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def selector(path: str, **options: bool) -> pa_fs.FileSelector:
        if path == "web":  # the user who runs the tests may be root, who can list every folder
            raise PermissionError(errno.EACCES, "Permission denied")
        return selecting(path, **options)

    selecting = pa_fs.FileSelector
    monkeypatch.setattr(pa_fs, "FileSelector", selector)
    project.layout("web", "match: lake.w*.*\nzorder: {columns: [b]}\n")
    (table,) = plan(load_project(), "changed:HEAD").tables
    assert (table.table, [d.code for d in table.diagnostics]) == ("lake.web.*", ["ZL114"])


def test_sha256_repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", "."], check=True)
    made = GitProject(tmp_path, orders=ORDERS)
    made.write(**{"workloads/a.sql": "SELECT 1;\n"})
    base = made.commit()
    made.table("db/orders", ROWS)
    assert len(base) == 64
    assert found("changed:HEAD") == {}
    made.write(**{"workloads/a.sql": "SELECT 2;\n"})
    assert found("changed:HEAD") == {"lake.db.orders": ["workload"]}


def test_many_layouts_need_few_processes(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        project.layout(f"t{number}", ORDERS.replace("orders", f"t{number}"))
    project.commit()
    project.layout("t7", ORDERS.replace("orders", "t7").replace("[a]", "[b]"))
    calls: list[tuple[str, ...]] = []
    from zlayout.session import revisions

    run: Callable[..., bytes] = revisions._git

    def counted(root: Path, *arguments: str, limit: int = 0) -> bytes:
        calls.append(arguments)
        return run(root, *arguments, limit=limit)

    monkeypatch.setattr(revisions, "_git", counted)
    assert sorted(found("changed:HEAD")) == ["lake.db.t7"]
    assert [call[0] for call in calls] == ["rev-parse", "merge-base", "ls-tree", "cat-file", "ls-tree"]
