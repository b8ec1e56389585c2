"""`import zlayout`: which names it has and what they cost. What type checkers see: tests/public_types.py."""

import ast
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.projects import write_project

import zlayout
from zlayout.errors import Diagnostic, Location, Refused, SpecError, TableError, ZlayoutError
from zlayout.spec.model import CatalogConfig

PACKAGE = Path(zlayout.__file__).parent
FUNCTIONS = {
    "advise",
    "apply",
    "count_files",
    "drift",
    "drop_trial",
    "history",
    "import_layout",
    "import_workload",
    "inspect",
    "is_relevant",
    "load_project",
    "meets_box",
    "next_jump_in",
    "plan",
    "plan_drop_trial",
    "plan_publish",
    "plan_rollback",
    "plan_trial",
    "publish",
    "rollback",
    "read_plan",
    "spark_conf",
    "trial",
    "write_plan",
    "z_ranges",
}


def test_every_name_of_all_is_there_and_is_the_one_that_type_checkers_see() -> None:
    assert zlayout.__all__ == sorted(zlayout.__all__)
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    seen = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(zlayout.__all__) == {*seen, "__version__"}
    assert seen == zlayout._MODULE_OF
    for name in zlayout.__all__:
        assert getattr(zlayout, name) is not None
    assert {name for name in zlayout.__all__ if name.islower() and name != "__version__"} == FUNCTIONS
    assert set(dir(zlayout)) >= set(zlayout.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'zlayout' has no attribute 'nothing'"):
        zlayout.nothing  # noqa: B018


def test_every_public_function_documents_its_arguments_and_errors() -> None:
    for name in sorted(FUNCTIONS - {"count_files", "is_relevant", "meets_box", "next_jump_in", "z_ranges"}):
        text = getattr(zlayout, name).__doc__
        assert "\n    Args:\n" in text, name
        assert "\n    Raises:\n" in text, name


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import zlayout; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.startswith("zlayout")} == {"zlayout"}
    assert not {"numpy", "pyarrow", "typer"} & set(done.stdout.split())


class TestUse:
    @pytest.mark.usefixtures("memory")
    def test_plan_apply_and_plan_again(self) -> None:
        events: list[object] = []
        plan = zlayout.plan(zlayout.load_project())
        report = zlayout.apply(plan, on_event=events.append)
        (result,) = report.results.values()
        assert (result.outcome, result.files_removed) == (zlayout.ResultStatus.AS_DECLARED, 4)
        assert result.rollback == f"zlayout rollback lake.db.orders --run {result.run_id}"
        stages = [e.stage for e in events if isinstance(e, zlayout.Progress)]
        assert stages == ["starting_spark", "rewriting", "observing"]
        kinds = [type(e).__name__ for e in events if not isinstance(e, zlayout.Progress)]
        assert kinds == ["TableStarted", "TableEvent", "TableFinished"]
        assert not zlayout.plan(plan.project).has_changes
        assert zlayout.apply(zlayout.plan(plan.project)).results == {}

    @pytest.mark.usefixtures("memory")
    def test_a_plan_file_is_checked_when_it_is_read(self, tmp_path: Path) -> None:
        project = zlayout.load_project()
        zlayout.write_plan(zlayout.plan(project), tmp_path / "p.json")
        read = zlayout.read_plan(project, tmp_path / "p.json")
        assert (read.reviewed, read.has_changes) == (True, True)
        zlayout.apply(read)
        stale = zlayout.read_plan(project, tmp_path / "p.json")
        assert [t.status for t in stale.tables] == [zlayout.Status.REFUSED]
        with pytest.raises(Refused, match="ZL203"):
            zlayout.apply(stale)

    @pytest.mark.parametrize(("status", "error"), [("refused", Refused), ("error", TableError)])
    @pytest.mark.usefixtures("memory")
    def test_a_table_that_cannot_be_changed_stops_the_others_only_if_all_are_wanted(
        self, status: str, error: type[ZlayoutError]
    ) -> None:
        plan = zlayout.plan(zlayout.load_project())
        problem = Diagnostic("ZL999", "it cannot", "refused" if status == "refused" else "error")
        other = replace(plan.tables[0], table="lake.db.z", status=zlayout.Status(status), actions=())
        other = replace(other, diagnostics=(problem,))
        plan = replace(plan, document=replace(plan.document, tables=(*plan.tables, other)))
        with pytest.raises(error, match="ZL999"):
            zlayout.apply(plan, all_or_nothing=True)
        report = zlayout.apply(plan)
        assert [result.outcome for result in report.results.values()] == [zlayout.ResultStatus.AS_DECLARED]
        assert report.failed == {"lake.db.z": (problem,)}

    @pytest.mark.usefixtures("memory")
    def test_a_plan_of_refused_tables_alone_is_refused(self) -> None:
        plan = zlayout.plan(zlayout.load_project())
        table = replace(plan.tables[0], status=zlayout.Status.REFUSED)
        with pytest.raises(Refused):
            zlayout.apply(replace(plan, document=replace(plan.document, tables=(table,))))

    @pytest.mark.usefixtures("memory")
    def test_a_plan_prints_as_the_screen_and_its_representation_holds_no_files(self) -> None:
        plan = zlayout.plan(zlayout.load_project(), "lake.db.orders")
        assert "-/+ rewrite" in str(plan)
        assert repr(plan) == "<ProjectPlan: Plan: 1 to rewrite. Rewrites 7.49 KiB.>"
        drift = zlayout.drift(plan.project)
        assert repr(drift).startswith("<DriftReport: Drift: 1 of 1 table is not as declared.")
        assert "-/+ rewrite" in str(drift)
        assert repr(zlayout.apply(plan)) == "<RunReport: 1 planned, 1 as_declared>"

    @pytest.mark.usefixtures("root")
    def test_the_representation_of_a_project_holds_no_secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KEY", "hidden-key")
        secret = "version: 1\ncatalogs:\n  lake:\n    warehouse: ./tables\n    format: delta\n"
        secret += "    properties: {aws_secret_access_key: '${KEY}'}\n"
        secret += "spark:\n  conf: {spark.hadoop.fs.s3a.secret.key: '${KEY}'}\n"
        Path("zlayout.yaml").write_text(secret)
        project = zlayout.load_project()
        assert project.spark.conf["spark.hadoop.fs.s3a.secret.key"] == "hidden-key"
        shown = (zlayout.plan(project), project.spark, project.catalogs)
        assert not [each for each in shown if "hidden-key" in repr(each)]
        assert repr(project) == f"<Project {Path().resolve()}, layouts: 1, rules: 0, catalogs: lake>"
        inspection = zlayout.inspect(project, "lake.db.orders")
        assert repr(inspection).startswith("<Inspection of lake.db.orders: delta, version 1, 2 files, ")

    @pytest.mark.usefixtures("memory")
    def test_an_interrupt_is_raised_again(self) -> None:
        def interrupt(_event: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            zlayout.apply(zlayout.plan(zlayout.load_project()), on_event=interrupt)
        assert zlayout.plan(zlayout.load_project()).has_changes

    @pytest.mark.usefixtures("root")
    def test_drift_inspect_and_import(self) -> None:
        project = zlayout.load_project()
        assert [t.table for t in zlayout.drift(project).drifted] == ["lake.db.orders"]
        with pytest.raises(SpecError, match="ZL084"):  # it may hold full rewrites that nobody has allowed
            zlayout.apply(zlayout.drift(project).plan)  # type: ignore[arg-type]
        found = zlayout.inspect(project, "lake.db.orders", ["b"])
        assert [c.column for c in found.columns] == ["b"]
        with pytest.raises(SpecError, match="ZL064"):
            zlayout.import_layout(project, "lake.db.orders")


def iceberg(project: zlayout.Project) -> zlayout.Project:
    """The project with a catalog of Iceberg, which is not opened."""
    options = {"uri": "sqlite:///catalog.db", "warehouse": "warehouse"}
    ice = CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml"))
    return replace(project, catalogs={**project.catalogs, "ice": ice})


ARGUMENTS: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: zlayout.plan("."), "ZL084 expected a Project, found '.' (use zlayout.load_project(PATH))"),  # type: ignore[arg-type]
    (lambda _: zlayout.drift(Path("a")), "ZL084 expected a Project, found 'a'"),  # type: ignore[arg-type]
    (lambda _: zlayout.inspect(None, "lake.db.orders"), "ZL084 expected a Project, found NoneType"),  # type: ignore[arg-type]
    (lambda _: zlayout.read_plan("p.json", "p.json"), "ZL084 expected a Project, found 'p.json'"),  # type: ignore[arg-type]
    (lambda _: zlayout.import_workload(1, ["a.sql"]), "ZL084 expected a Project, found 1"),  # type: ignore[arg-type]
    (lambda _: zlayout.apply("p.json"), "ZL084 expected a ProjectPlan, found 'p.json'"),  # type: ignore[arg-type]
    (lambda project: zlayout.apply(project), "ZL084 expected a ProjectPlan, found Project (use zlayout.plan(PROJECT)"),
    (lambda project: zlayout.plan(project, max_rewrite_bytes="much"), "ZL050 expected a size"),
    (lambda project: zlayout.plan(project, max_rewrite_bytes=-1), "ZL050 expected a size"),
    (lambda project: zlayout.plan(project, max_rewrite_bytes=1.5), "ZL050 expected a size"),  # type: ignore[arg-type]
    (lambda project: zlayout.plan(project, avoid_hot="soon"), "ZL056 expected a duration"),
    (lambda project: zlayout.plan(project, avoid_hot=60), "ZL056 expected a duration"),  # type: ignore[arg-type]
    (
        lambda project: zlayout.plan(project, timeout="60"),
        "ZL084 expected a number of at least 0 for timeout, found '60'",
    ),  # type: ignore[arg-type]
    (lambda project: zlayout.drift(project, timeout=None), "for timeout, found NoneType (use for example timeout=60)"),  # type: ignore[arg-type]
    (lambda project: zlayout.inspect(project, "lake.db.orders", timeout=True), "for timeout, found True"),
    (lambda project: zlayout.read_plan(project, "p.json", timeout=-1), "for timeout, found -1"),
    (lambda project: zlayout.import_layout(project, "lake.db.new", timeout=math.nan), "for timeout, found nan"),
    (lambda project: zlayout.drift(project, timeout=10**400), "for timeout, found 1000"),
    (lambda project: zlayout.plan_rollback(project, "lake.db.orders", timeout="60"), "for timeout, found '60'"),  # type: ignore[arg-type]
    (lambda project: zlayout.plan_drop_trial(iceberg(project), "ice.db.t", branch="b", timeout="60"), "for timeout"),  # type: ignore[arg-type]
    (lambda project: zlayout.plan_trial(iceberg(project), "ice.db.t", branch="b", timeout="60"), "for timeout"),  # type: ignore[arg-type]
    (lambda project: zlayout.plan(project, parallelism="8"), "expected an integer above 0 for parallelism, found '8'"),  # type: ignore[arg-type]
    (lambda project: zlayout.apply(zlayout.plan(project), concurrent_tables=0), "for concurrent_tables, found 0"),
    (lambda project: zlayout.apply(zlayout.plan(project), max_minutes="5"), "for max_minutes, found '5'"),  # type: ignore[arg-type]
    (
        lambda project: zlayout.apply(zlayout.plan(project), verify="Full"),
        "expected gate or full for verify, found 'Full'",
    ),  # type: ignore[arg-type]
    (lambda project: zlayout.read_plan(project, "p.json", stale="Strict"), "expected compatible or strict for stale"),  # type: ignore[arg-type]
    (lambda _: zlayout.StudyOptions(time_limit="60"), "for time_limit, found '60'"),  # type: ignore[arg-type]
    (lambda _: zlayout.StudyOptions(files=0), "expected an integer from 1 to 10,000,000 for files, found 0"),
    (lambda _: zlayout.StudyOptions(files=10**7 + 1), "for files, found 10000001 (use for example files=8)"),
    (lambda _: zlayout.StudyOptions(sample_rows="9"), "for sample_rows, found '9'"),  # type: ignore[arg-type]
    (lambda project: zlayout.history(project, "lake.db.orders", limit=0), "for limit, found 0"),
    (lambda project: zlayout.import_workload(project, ["a.sql"], "all"), "expected keep or bin or omit for values"),
    (lambda project: zlayout.import_workload(project, ["a.sql"], bins="9"), "for bins, found '9'"),  # type: ignore[arg-type]
    (lambda project: zlayout.import_workload(project, ["a.sql"], days="9"), "for days, found '9'"),  # type: ignore[arg-type]
    (
        lambda project: zlayout.import_workload(project, ["a.sql"], days=0),
        "expected a number above 0, at most 1,000,000,000,000, for days, found 0",
    ),
    (lambda project: zlayout.import_workload(project, ["a.sql"], days=1e13), "for days, found 1"),
    (lambda project: zlayout.read_plan(project, "a\0"), "ZL040 cannot read the plan file: the path contains"),
    (lambda project: zlayout.write_plan(zlayout.plan(project), "a\0"), "ZL043 cannot write the plan to a"),
    (lambda _: zlayout.load_project("a\0"), "ZL001 file"),
    (lambda project: zlayout.import_workload(project, ["a\0"]), "ZL002 cannot read the file: the path contains"),
]


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(("call", "message"), ARGUMENTS)
def test_an_invalid_argument_is_an_error_with_a_code(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(SpecError) as error:
        call(zlayout.load_project())
    assert message in str(error.value)


@pytest.mark.usefixtures("memory")
def test_infinity_is_no_limit_and_numpy_has_numbers_too() -> None:
    zlayout.StudyOptions(time_limit=math.inf, files=np.int64(8))  # type: ignore[arg-type]
    project = zlayout.load_project()
    assert zlayout.plan(project, timeout=math.inf, parallelism=np.int64(2)).document  # type: ignore[arg-type]


@pytest.mark.usefixtures("memory")
def test_sizes_and_durations_are_accepted_as_text() -> None:
    project = zlayout.load_project()
    assert zlayout.plan(project, max_rewrite_bytes="10GiB").options.max_rewrite_bytes == 10 * 2**30
    assert zlayout.plan(project, max_rewrite_bytes="5").options.max_rewrite_bytes == 5
    assert zlayout.plan(project, avoid_hot="1h").document.only_waits


@pytest.mark.parametrize("start", [["-m", "zlayout"], [str(PACKAGE / "__main__.py")]], ids=["module", "file"])
def test_it_runs_as_a_module_and_as_a_file(start: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file, Python would find `zlayout/secrets.py` in place of its own."""
    write_project(tmp_path, monkeypatch, "version: 1\ntable: lake.db.t\nzorder: {columns: [a]}\n")
    done = subprocess.run([sys.executable, *start, "validate"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 layout valid\n", "")
