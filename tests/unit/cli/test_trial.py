"""The commands trial, publish and drop-trial without a JVM: what they show, and what they refuse before any write."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyiceberg.table import Table
from support.projects import Cli
from unit.cli.test_branches import declare, head, rows, table

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.trial import Reads, Trial, TrialCommit, require_publishable
from zlayout.session.project import load_project
from zlayout.session.session import Session
from zlayout.session.trial import Opened, PlannedTrial, ReplayedQuery, TrialReport, read_trial
from zlayout.spec.model import TableName

__all__ = ["table"]
REPORTS = Path(__file__).parents[3] / "docs/reports.md"


@pytest.fixture(autouse=True)
def workload(table: Table) -> None:  # noqa: ARG001 - its folder is the working directory
    Path("workloads").mkdir()
    Path("workloads/q.sql").write_text("SELECT * FROM ice.db.t WHERE a = 5; SELECT * FROM lake.db.d WHERE a < 9;")


AGE = 40_000_000_000_000  # milliseconds


def mark(table: Table, branch: str, snapshot: int, age: int = AGE) -> None:
    """Let a branch look as if `trial` had made it, or an earlier branch with another age."""
    at = head(table, branch)
    table.manage_snapshots().remove_branch(branch).create_branch(at, branch, max_ref_age_ms=AGE).commit()
    with table.transaction() as transaction:
        transaction.set_properties({f"zlayout.trial.{branch}": f"{snapshot}:{age}"})


def test_a_dry_run_of_a_trial_shows_the_plan_of_the_branch(table: Table, cli: Cli) -> None:
    before = head(table, "main")
    shown = cli("trial", "ice.db.t", "--branch", "new", "--dry-run")
    assert "ice.db.t@new" in shown.out
    assert f"makes branch new of ice.db.t at snapshot {before}" in shown.out
    assert "replays 1 query" in shown.out
    assert "nothing was written" in shown.err
    assert set(table.refresh().metadata.refs) == {"main", "audit", "v1"}
    assert "uses branch audit of ice.db.t" in cli("trial", "ice.db.t", "--branch", "audit", "--dry-run").out


def test_json_of_a_dry_run_has_the_predictions_and_no_measurement(table: Table, cli: Cli) -> None:
    Path("workloads/q.sql").write_text("SELECT * FROM ice.db.t WHERE a = 5; SELECT * FROM ice.db.t WHERE a < 300;")
    shown = cli("trial", "ice.db.t", "--branch", "new", "--dry-run", "--json")
    assert "makes branch new of ice.db.t" in shown.err
    document = json.loads(shown.out)
    one, other = document.pop("queries")
    assert one["location"].endswith("workloads/q.sql:1")
    assert {one["main"], one["trial"], other["main"], other["trial"]} == {None}
    assert one["predicted"]["files"] > 0
    assert document == {
        "table": "ice.db.t",
        "format": "iceberg",
        "outcome": "dry_run",
        "main_version": head(table, "main"),
        "branch": "new",
        "trial_version": None,
        "created": True,
        "run_id": None,
        "queries_left_out": 0,
        "mean": {"main": None, "trial": None, "predicted": None},
        "verdict": None,
        "diagnostics": [],
    }
    again = json.loads(cli("trial", "ice.db.t", "--branch", "audit", "--dry-run", "--json").out)
    assert (again["created"], again["trial_version"]) == (False, head(table, "audit"))
    section = REPORTS.read_text().partition("## JSON of trial")[2].partition("\n## ")[0]
    names = [key for row in re.findall(r"^\| (`.*?) \|", section, re.M) for key in re.findall(r"`(\w+)`", row)]
    assert set(names) == set(again)


@pytest.mark.parametrize(
    ("size", "rows", "verdict", "said"),
    [
        (100, 9, "better", "Verdict: the queries read 75 % fewer bytes of the trial than of the table. To publish it:"),
        (399, 9, "better", "the queries read less than 1 % fewer bytes of the trial than of the table."),
        (400, 9, "equal", "the queries read as many bytes of the trial as of the table: do not publish it."),
        (408, 9, "worse", "the queries read 2 % more bytes of the trial than of the table: do not publish it."),
        (8000, 9, "worse", "the queries read over 1000 % more bytes of the trial than of the table: do not publish"),
        (100, 8, None, "Verdict: none, because the trial and the table have different rows."),
    ],
)
def test_a_trial_ends_with_its_verdict(
    table: Table, cli: Cli, monkeypatch: pytest.MonkeyPatch, size: int, rows: int, verdict: str | None, said: str
) -> None:
    def measured(_session: Session, planned: PlannedTrial, *_: object, **__: object) -> TrialReport:
        made = Trial(TableName("ice", ("db",), "t", "new"), "iceberg", "id", True, head(table, "main"), 7, ())
        (one,) = planned.queries
        query = ReplayedQuery("q.sql:1", 3.0, Opened(4, 400, 9), Opened(1, size, rows), one.predicted, one.inverted)
        return TrialReport("ice.db.t", made, True, head(table, "main"), None, (query,), 0, ())

    monkeypatch.setattr("zlayout.session.session.Session._try", measured)  # which starts Spark
    shown = cli("trial", "ice.db.t", "--branch", "new", "--auto-approve", "--json")
    assert said in " ".join(shown.err.split())
    assert ("To publish it" in shown.err) == (verdict == "better")
    assert json.loads(shown.out)["verdict"] == verdict


@pytest.mark.parametrize(("reads", "refused"), [(Reads(100, 102), True), (Reads(100, 100), False), (None, False)])
def test_publish_of_a_trial_that_reads_more_needs_an_option(reads: Reads | None, refused: bool) -> None:
    commit = TrialCommit(2, "replace", "run", True)
    trial = Trial(TableName("ice", ("db",), "t", "new"), "iceberg", "id", True, 1, 2, (commit,), reads=reads)
    require_publishable(trial, allow_worse=True)
    with pytest.raises(Refused, match="ZL256") if refused else nullcontext():
        require_publishable(trial, allow_worse=False)


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ("{at}:100:102", Reads(100, 102)),
        ("1:100:102", None),  # measured of another version
        ("{at}:100", None),
        ("{at}:-1:102", None),
        ("{at}:1e9:102", None),
        ("{at}:١٠:102", None),
    ],
)
def test_what_was_measured_is_read_from_a_property(table: Table, value: str, reads: Reads | None) -> None:
    at = head(table, "audit")
    with table.transaction() as transaction:
        transaction.set_properties({"zlayout.trial-reads.audit": value.format(at=at)})
    trial = read_trial(load_project(), TableName("ice", ("db",), "t", "audit"))
    assert trial is not None
    assert trial.reads == reads


def test_json_of_a_trial_has_what_was_measured(table: Table, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(_session: Session, planned: PlannedTrial, *_: object, **__: object) -> TrialReport:
        made = Trial(TableName("ice", ("db",), "t", "new"), "iceberg", "id", True, head(table, "main"), 7, ())
        (one,) = planned.queries
        query = ReplayedQuery("q.sql:1", 3.0, Opened(4, 400, 9), Opened(1, 100, 9), one.predicted, one.inverted)
        note = Diagnostic("ZL461", "main has changed", "warning", "drop the trial")
        return TrialReport("ice.db.t", made, True, head(table, "main"), None, (query,), 0, (note,))

    monkeypatch.setattr("zlayout.session.session.Session._try", measured)  # which starts Spark
    document = json.loads(cli("trial", "ice.db.t", "--branch", "new", "--auto-approve", "--json").out)
    assert (document["outcome"], document["trial_version"], document["created"]) == ("measured", 7, True)
    (query,) = document["queries"]
    assert (query["main"], query["trial"]) == (
        {"files": 4, "bytes": 400, "rows": 9},
        {"files": 1, "bytes": 100, "rows": 9},
    )
    assert document["mean"]["main"] == {"files": 4, "bytes": 400}
    assert document["mean"]["trial"] == {"files": 1, "bytes": 100}
    assert [d["code"] for d in document["diagnostics"]] == ["ZL461"]


@pytest.mark.usefixtures("table")
def test_what_cannot_be_tried_is_refused(cli: Cli) -> None:
    assert "ZL046" in cli("trial", "ice.db.t", "--branch", "new", code=1).err
    assert "ZL059" in cli("trial", "ice.db.t", "--dry-run", code=1).err
    assert "ZL059" in cli("trial", "ice.db.t", "--branch", "main", "--dry-run", code=1).err
    assert "ZL054" in cli("trial", "ice.db.t", "--branch", "a b", "--dry-run", code=1).err
    assert "ZL238" in cli("trial", "ice.db.t", "--branch", "v1", "--dry-run", code=3).err
    assert "ZL045" in cli("trial", "ice.db.other", "--branch", "x", "--dry-run", code=1).err
    declare("ice.db.t", "partition_by: ['bucket(4, a)']\n")
    assert "ZL239" in cli("trial", "ice.db.t", "--branch", "new", "--dry-run", code=3).err
    declare("ice.db.t", "ref: audit\n")
    assert "ZL254" in cli("trial", "ice.db.t", "--branch", "new", "--dry-run", code=3).err
    declare("ice.db.t")
    Path("workloads/q.sql").write_text("SELECT * FROM ice.db.t;")
    assert "ZL073" in cli("trial", "ice.db.t", "--branch", "new", "--dry-run", code=1).err
    Path("workloads/q.sql").unlink()
    assert "ZL077" in cli("trial", "ice.db.t", "--branch", "new", "--dry-run", code=1).err


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("command", ["trial", "publish", "drop-trial"])
def test_a_table_of_delta_has_no_trials_and_the_error_names_what_there_is(cli: Cli, command: str) -> None:
    said = " ".join(cli(command, "lake.db.d", "--branch", "x", "--dry-run", code=1).err.split())
    assert "ZL059 lake.db.d: a trial is a branch, and tables of Delta have none" in said
    assert "`zlayout plan --sample` forecasts the result, and `zlayout rollback` undoes an apply" in said


def test_publish_refuses_what_would_change_rows(table: Table, cli: Cli) -> None:
    assert "ZL046" in cli("publish", "ice.db.t", "--branch", "audit", code=1).err
    assert "ZL238" in cli("publish", "ice.db.t", "--branch", "gone", "--dry-run", code=3).err
    assert "ZL238" in cli("publish", "ice.db.t", "--branch", "v1", "--dry-run", code=3).err
    for branch in ([], ["--branch", "main"]):
        assert "ZL059" in cli("publish", "ice.db.t", *branch, "--dry-run", code=1).err
    assert (
        "commits that are not rewrites by zlayout"
        in cli("publish", "ice.db.t", "--branch", "audit", "--dry-run", code=3).err
    )
    # a summary that names a run is not enough: the snapshot adds rows
    table.manage_snapshots().create_branch(head(table, "main"), "run").commit()
    table.append(rows(50), {"zlayout.run": "r1"}, "run")
    assert "ZL251" in cli("publish", "ice.db.t", "--branch", "run", "--dry-run", code=3).err
    table.manage_snapshots().create_branch(head(table, "main"), "same").commit()
    assert "nothing to publish" in cli("publish", "ice.db.t", "--branch", "same", "--auto-approve").out
    table.append(rows(2000))
    assert "nothing to publish" in cli("publish", "ice.db.t", "--branch", "same", "--auto-approve").out
    refused = cli("publish", "ice.db.t", "--branch", "audit", "--dry-run", code=3).err
    assert "ZL250" in refused
    assert str(head(table, "main")) in refused


def test_drop_trial_refuses_what_zlayout_did_not_make(table: Table, cli: Cli) -> None:
    first = head(table, "main")
    assert "ZL252" in cli("drop-trial", "ice.db.t", "--branch", "audit", "--dry-run", code=3).err
    mark(table, "audit", first)
    assert "ZL253" in cli("drop-trial", "ice.db.t", "--branch", "audit", "--dry-run", code=3).err
    table.manage_snapshots().create_branch(first, "new").commit()
    for snapshot, age in ((17, AGE), (first, AGE + 1)):  # of an earlier branch of this name
        mark(table, "new", snapshot, age)
        assert "ZL252" in cli("drop-trial", "ice.db.t", "--branch", "new", "--dry-run", code=3).err
    mark(table, "new", first)
    shown = cli("drop-trial", "ice.db.t", "--branch", "new", "--dry-run")
    assert "removes  branch new" in shown.out
    assert "nothing was written" in shown.err
    assert "ZL046" in cli("drop-trial", "ice.db.t", "--branch", "new", code=1).err
    assert "new" in table.refresh().metadata.refs
    for name in ("main", "v1", "gone"):
        assert any(code in _refused(cli, name) for code in ("ZL059", "ZL238"))


def test_json_states_what_publish_and_drop_trial_do(table: Table, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    first = head(table, "main")
    table.manage_snapshots().create_branch(first, "new").commit()
    mark(table, "new", first)
    expected = {"table": "ice.db.t", "format": "iceberg", "branch": "new"}
    nothing = cli("publish", "ice.db.t", "--branch", "new", "--auto-approve", "--json")
    assert "nothing to publish" in nothing.err
    assert json.loads(nothing.out) == {
        **expected, "outcome": "nothing_to_do", "main_version": first, "branch_version": first, "commits": [],
    }  # fmt: skip
    removed = {**expected, "commits": []}
    shown = cli("drop-trial", "ice.db.t", "--branch", "new", "--dry-run", "--json")
    assert json.loads(shown.out) == {**removed, "outcome": "dry_run"}
    assert "removes  branch new" in shown.err
    monkeypatch.setattr("zlayout.session.session.Session._drop", lambda *_: None)  # which starts Spark
    dropped = cli("drop-trial", "ice.db.t", "--branch", "new", "--auto-approve", "--json")
    assert json.loads(dropped.out) == {**removed, "outcome": "dropped"}
    assert "Removed branch new" in dropped.err


def test_json_names_the_commits_that_publish_moves_main_to(
    table: Table, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, made = head(table, "main"), TrialCommit(7, "replace", "r1", rewrite=True)
    trial = Trial(TableName("ice", ("db",), "t", "new"), "iceberg", "id", True, main, 7, (made,))
    monkeypatch.setattr("zlayout.session.trial.plan_publish", lambda *_, **__: trial)
    monkeypatch.setattr("zlayout.session.session.Session._publish", lambda *_: None)  # which starts Spark
    for option, outcome in (("--dry-run", "dry_run"), ("--auto-approve", "published")):
        assert json.loads(cli("publish", "ice.db.t", "--branch", "new", option, "--json").out) == {
            "table": "ice.db.t",
            "format": "iceberg",
            "outcome": outcome,
            "branch": "new",
            "main_version": main,
            "branch_version": 7,
            "commits": [{"version": 7, "run_id": "r1"}],
        }


def _refused(cli: Cli, branch: str) -> str:
    return cli("drop-trial", "ice.db.t", "--branch", branch, "--dry-run", code=1 if branch == "main" else 3).err
