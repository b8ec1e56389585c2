"""`tolerance.rarely_read`: from the files of a project to the plan, its file, and its application."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.projects import Cli, write_project
from support.runs import apply_planned

import zlayout
from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable
from zlayout.planner.model import TablePlan, Wait
from zlayout.planner.work import PlanOptions
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import plan_tables
from zlayout.session.plan_file import check_saved
from zlayout.session.results import Applied

ROWS, REGIONS = 1000, ("east", "north", "west")
LAYOUT = """\
version: 1
table: lake.db.orders
zorder: {columns: [a]}
files: {target_size: SIZE}
tolerance: {rarely_read: 0%}
"""
WORKLOAD, QUERY = Path("workloads/orders.sql"), "SELECT * FROM orders WHERE region = 'west' AND a = 500;\n"


class Memory(MemoryBackend):
    """Before each of the first `conflicts` rewrites, another writer appends rows in all regions."""

    conflicts = 0

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(MemoryCatalog({"db.orders": table}))
        self.table = table

    def append(self) -> None:
        for region in REGIONS:
            self.table.append(rows_of(region, seed=9).slice(0, 400))

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        if self.conflicts:
            self.conflicts -= 1
            self.append()
            yield GroupFailed(tuple(g.id for g in work.groups), CommitConflict.of("ZL321", "someone was faster"))
            return
        yield from super().execute(work, notify)


def rows_of(region: str, seed: int = 3) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, 1000, ROWS)
    return pa.table({"a": pa.array(keys), "region": pa.array([region] * ROWS)})


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A table with one partition for each region, laid out and then decayed in all of them. Queries read west."""
    memory = MemoryTable(rows_of("east").schema, ("region",))
    for region in REGIONS:
        memory.append(rows_of(region), files=8)
    write_project(tmp_path, monkeypatch, LAYOUT.replace("SIZE", str(rows_of("east").nbytes // 8)))
    WORKLOAD.parent.mkdir()
    WORKLOAD.write_text(QUERY)
    backend = Memory(memory)
    monkeypatch.setattr("zlayout.session.plan.backend_for", lambda *_: backend)
    monkeypatch.setattr("zlayout.session.apply.RETRY_SECONDS", 0.0)
    first = run(backend)
    assert sum(c.files_removed for c in first.commits) == 24
    backend.append()
    return backend


def run(backend: Memory) -> Applied:
    (planned,) = plan_tables(zlayout.load_project().layouts, {"lake": backend})
    applied = apply_planned(planned, backend)
    if applied.error is not None:
        raise applied.error
    return applied


def planned(max_rewrite_bytes: int | None = None) -> tuple[zlayout.ProjectPlan, TablePlan]:
    found = zlayout.plan(zlayout.load_project(), sample=False, max_rewrite_bytes=max_rewrite_bytes)
    return found, found.tables[0]


def regions(table: TablePlan) -> list[str]:
    return [group.partition.removeprefix("region=") for group in table.groups]


def codes(table: TablePlan) -> list[str]:
    return [diagnostic.code for diagnostic in table.diagnostics]


def declare(text: str) -> None:
    layout = Path("layouts/orders.yaml")
    layout.write_text(layout.read_text().replace("tolerance: {rarely_read: 0%}", text))


def numbers(table: TablePlan) -> tuple[int, ...]:
    waiting = table.that_wait(Wait.RARELY_READ)
    return waiting.partition_numbers if waiting else ()


@pytest.mark.usefixtures("backend")
def test_without_the_setting_or_without_a_workload_every_decayed_partition_is_rewritten() -> None:
    everything = ["east", "north", "west"]
    declared = Path("layouts/orders.yaml").read_text()
    declare("")
    assert regions(planned()[1]) == everything
    Path("layouts/orders.yaml").write_text(declared)
    WORKLOAD.unlink()
    _, table = planned()
    assert (regions(table), table.that_wait(Wait.RARELY_READ)) == (everything, None)
    assert codes(table) == ["ZL404"]


@pytest.mark.usefixtures("backend")
def test_partitions_that_no_query_reads_wait() -> None:
    found, table = planned()
    assert regions(table) == ["west"]
    assert numbers(table) == (1, 2)
    assert "ZL416 decay of 2 partitions is tolerated" in " ".join(str(found).split())


def test_apply_is_complete_and_the_next_plan_is_empty_and_still_names_them(backend: Memory) -> None:
    applied = run(backend)
    assert sum(c.files_removed for c in applied.commits) == 9
    assert (applied.after.status, numbers(applied.after), applied.exit_code) == ("unchanged", (1, 2), 0)
    found, table = planned()
    assert (table.status, numbers(table), found.has_changes) == ("unchanged", (1, 2), False)
    assert "2 partitions is tolerated" in " ".join(str(found).split())
    assert not run(backend).commits


def test_they_are_rewritten_when_queries_read_them(backend: Memory) -> None:
    run(backend)
    WORKLOAD.write_text(QUERY + QUERY.replace("west", "east"))
    _, table = planned()
    assert (regions(table), numbers(table)) == (["east"], (2,))


@pytest.mark.usefixtures("backend")
def test_those_that_few_executions_read_wait_with_a_larger_share() -> None:
    WORKLOAD.write_text(QUERY * 98 + QUERY.replace("west", "east") + QUERY.replace("west", "north"))
    for share, waiting in (("0%", ()), ("1%", (1,)), ("2%", (1, 2)), ("50%", (1, 2))):
        declared = Path("layouts/orders.yaml").read_text()
        declare(f"tolerance: {{rarely_read: {share}}}")
        assert numbers(planned()[1]) == waiting
        Path("layouts/orders.yaml").write_text(declared)


@pytest.mark.usefixtures("backend")
def test_an_execution_of_a_query_counts_once_for_each_partition_that_it_reads() -> None:
    """A self-join of one region is one execution; a query of all regions reads each of them."""
    declare("tolerance: {rarely_read: 50%}")
    WORKLOAD.write_text(
        QUERY + "SELECT * FROM orders x JOIN orders y ON x.a = y.a WHERE x.region = y.region AND "
        "x.region = 'east' AND y.region = 'east';\n"
    )
    assert numbers(planned()[1]) == (1, 2)
    WORKLOAD.write_text(QUERY + "SELECT * FROM orders WHERE a = 500;\n")
    assert numbers(planned()[1]) == (1,)


@pytest.mark.usefixtures("backend")
def test_nothing_waits_if_no_query_can_skip_files() -> None:
    WORKLOAD.write_text("SELECT count(*) FROM orders;\nSELECT * FROM others WHERE a = 1;\n")
    _, table = planned()
    assert (regions(table), codes(table)) == (["east", "north", "west"], ["ZL404"])


@pytest.mark.usefixtures("backend")
def test_an_execution_whose_conditions_cannot_be_used_counts_as_one_that_may_read_what_waits() -> None:
    WORKLOAD.write_text(QUERY * 9 + "SELECT * FROM orders WHERE my_function(region) = 1;\n")
    _, table = planned()
    assert (numbers(table), codes(table)) == ((), ["ZL404"])
    assert "10% of the executions of the workload may read any partition" in table.diagnostics[0].message
    declare("tolerance: {rarely_read: 10%}")
    assert numbers(planned()[1]) == (1, 2)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("condition", ["my_function(region) = 1", "a IN (SELECT b FROM other)"])
def test_an_execution_may_read_what_waits_if_only_one_of_its_scans_has_conditions_that_can_be_used(
    condition: str,
) -> None:
    query = QUERY.replace(";\n", f" UNION ALL SELECT * FROM orders WHERE {condition};\n")
    WORKLOAD.write_text(QUERY * 9 + query)
    _, table = planned()
    assert (numbers(table), codes(table)) == ((), ["ZL404"])
    assert "10% of the executions of the workload may read any partition" in table.diagnostics[0].message
    declare("tolerance: {rarely_read: 10%}")
    assert numbers(planned()[1]) == (1, 2)


def test_nothing_waits_in_a_plan_that_moves_files_to_the_declared_partitioning(backend: Memory) -> None:
    fields = backend.table.current.fields
    backend.table.set_partitioning(())
    backend.table.append(rows_of("west", seed=8).slice(0, 5))
    backend.table.set_partitioning(fields)
    _, table = planned()
    assert (len(table.groups), numbers(table), codes(table)) == (3, (), ["ZL404"])
    run(backend)
    assert planned()[1].status == "unchanged"


@pytest.mark.usefixtures("backend")
def test_the_plan_document_names_what_waits() -> None:
    found, _ = planned()
    zlayout.write_plan(found, "plan.json")
    table = json.loads(Path("plan.json").read_text())["tables"][0]
    (waiting,) = table["waiting"]
    assert (waiting["reason"], waiting["groups"], waiting["files"]) == ("rarely_read", 2, 19)
    assert waiting["partition_numbers"] == [1, 2]
    assert waiting["bytes"] > 0
    assert "ZL416" in [d["code"] for d in table["diagnostics"]]


@pytest.mark.parametrize("change", ["remove", "ask for others", "append", "declare nothing"])
def test_a_saved_plan_is_carried_out_whatever_happens_to_the_workload(backend: Memory, change: str) -> None:
    found, table = planned()
    zlayout.write_plan(found, "plan.json")
    match change:
        case "remove":
            WORKLOAD.unlink()
        case "ask for others":
            WORKLOAD.write_text(QUERY.replace("west", "east"))
        case "append":
            backend.table.append(rows_of("south", seed=4), files=8)
        case "declare nothing":
            declare("")
    again = zlayout.read_plan(zlayout.load_project(), "plan.json")
    (note,) = (d for d in again.tables[0].diagnostics if d.code == "ZL416")
    assert "%" not in note.message  # the share that was declared when the plan was made is not known
    assert (again.tables[0].groups, again.tables[0].that_wait(Wait.RARELY_READ)) == (
        table.groups,
        table.that_wait(Wait.RARELY_READ),
    )
    applied = apply_planned(again.planned[0], backend, attempts=1)
    assert sum(c.files_removed for c in applied.commits) == 9
    expected = "changes" if change == "append" else "unchanged"
    assert applied.after.status == expected  # a partition that was added is not known to the saved plan


def test_a_saved_plan_in_which_nothing_waits_is_carried_out_after_the_workload_changed(backend: Memory) -> None:
    WORKLOAD.write_text("".join(QUERY.replace("west", region) for region in REGIONS))
    found, table = planned()
    assert len(table.groups) == 3
    zlayout.write_plan(found, "plan.json")
    WORKLOAD.write_text(QUERY)
    again = zlayout.read_plan(zlayout.load_project(), "plan.json")
    assert again.tables[0].groups == table.groups
    assert sum(c.files_removed for c in apply_planned(again.planned[0], backend, attempts=1).commits) == 28


def test_a_saved_plan_with_a_budget_keeps_both_choices(backend: Memory) -> None:
    WORKLOAD.write_text(QUERY + QUERY.replace("west", "north"))
    size = sum(f.rows.nbytes for f in backend.table.current.files.values()) // 3 + 500
    found, table = planned(max_rewrite_bytes=size)
    assert (len(table.groups), numbers(table)) == (1, (1,))
    assert table.that_wait(Wait.BUDGET) is not None
    zlayout.write_plan(found, "plan.json")
    WORKLOAD.write_text(QUERY.replace("west", "east"))
    again = zlayout.read_plan(zlayout.load_project(), "plan.json").tables[0]
    assert (again.groups, again.that_wait(Wait.RARELY_READ)) == (table.groups, table.that_wait(Wait.RARELY_READ))
    assert again.that_wait(Wait.BUDGET).bytes == table.that_wait(Wait.BUDGET).bytes


def test_a_saved_plan_is_stale_if_a_pinned_file_changes(backend: Memory) -> None:
    (one,) = plan_tables(zlayout.load_project().layouts, {"lake": backend})
    backend.table.compact()
    (now,) = plan_tables(zlayout.load_project().layouts, {"lake": backend}, workloads=False)
    with pytest.raises(zlayout.Refused, match="stale"):
        check_saved(one.plan, now, backend, PlanOptions(), "compatible")


def test_what_is_planned_again_after_a_conflict_lets_the_same_partitions_wait(backend: Memory) -> None:
    backend.conflicts = 1
    (one,) = plan_tables(zlayout.load_project().layouts, {"lake": backend})
    WORKLOAD.write_text(QUERY.replace("west", "east"))
    applied = apply_planned(one, backend)
    assert sum(c.files_removed for c in applied.commits) == 10
    assert (applied.after.status, numbers(applied.after), applied.exit_code) == ("unchanged", (1, 2), 0)


def test_a_table_whose_queries_cannot_be_matched_is_not_planned(
    backend: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan would rewrite what should wait."""
    observe = backend.observe

    def fail(table: object, columns: tuple[str, ...], version: int | None = None) -> object:
        if version is not None:
            raise OSError("no route to host")
        return observe(table, columns, version)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "observe", fail)
    _, table = planned()
    assert table.status == "error"
    assert [d.code for d in table.diagnostics] == ["ZL104"]


def test_a_table_that_does_not_answer_in_time_is_not_planned(backend: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = backend.observe

    def slow(table: object, columns: tuple[str, ...], version: int | None = None) -> object:
        if version is not None:
            time.sleep(2)
        return observe(table, columns, version)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "observe", slow)
    (one,) = plan_tables(zlayout.load_project().layouts, {"lake": backend}, reading=Reading(timeout=0.2))
    assert [d.code for d in one.plan.diagnostics] == ["ZL105"]


@pytest.mark.usefixtures("backend")
def test_an_invalid_workload_stops_the_plan() -> None:
    WORKLOAD.write_bytes(b"\xff\xfe")
    with pytest.raises(zlayout.SpecError, match="ZL003"):
        planned()


def test_a_run_can_include_them_and_its_saved_plan_does_too(backend: Memory, cli: Cli) -> None:
    shown = cli("plan", "--include-rarely-read", "--out", "plan.json")
    assert "ZL416" not in shown.out
    assert "To apply: zlayout apply --include-rarely-read\n" in cli("plan", "--include-rarely-read").err
    project = zlayout.load_project()
    assert regions(zlayout.plan(project, include_rarely_read=True).tables[0]) == ["east", "north", "west"]
    cli("apply", "plan.json", "--auto-approve")
    assert planned()[1].that_wait(Wait.RARELY_READ) is None
    backend.append()
    cli("apply", "--auto-approve", "--include-rarely-read")
    assert (planned()[1].status, planned()[1].that_wait(Wait.RARELY_READ)) == ("unchanged", None)


@pytest.mark.usefixtures("backend")
def test_a_plan_that_rewrites_mostly_what_no_query_reads_says_so() -> None:
    declare("")
    _, table = planned()
    assert codes(table) == ["ZL417"]
    assert "2 decayed partitions that no query with conditions reads" in table.diagnostics[0].message
    WORKLOAD.write_text(QUERY + QUERY.replace("west", "east"))
    assert codes(planned()[1]) == []  # one of three partitions
    WORKLOAD.write_text(QUERY + "SELECT * FROM orders WHERE my_function(region) = 1;\n")
    assert codes(planned()[1]) == []  # which may read any of them
