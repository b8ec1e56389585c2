"""Clones of Delta tables, read from logs that are written by hand."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from support.delta_logs import INTS, metadata, protocol

from zlayout.errors import Location, TableError
from zlayout.formats.delta.trials import DeltaTrials
from zlayout.formats.trial import Trial
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName

TABLE = TableName("lake", ("db",), "t")


def read(root: Path, *later: dict[str, Any], marker: Any = None) -> Trial | None:
    """Read the clone in `root / "clone"` of the table `root / "db" / "t"`."""
    mark = {"clone": str(root / "clone"), "of": str(root / "db/t")} if marker is None else marker
    first = [commit("CLONE"), protocol(), metadata(INTS, **{"zlayout.trial": json.dumps(mark)})]
    log = root / "clone" / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate([first, *([info] for info in later)]):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return read_again(root)


def read_again(root: Path) -> Trial | None:
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(root)}, Location("zlayout.yaml"))
    return DeltaTrials(catalog, cast(SparkRuntime, None)).read(TABLE, str(root / "clone"))


def commit(operation: str, run: str = "", **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, **({"tags": {"zlayout.run": run}} if run else {}), **more}}


def test_a_clone_has_the_commits_after_its_first_one(tmp_path: Path) -> None:
    trial = read(tmp_path, commit("OPTIMIZE", run="r1"), commit("VACUUM START"), commit("WRITE"))
    assert trial is not None
    assert (trial.location, trial.version, trial.marked, trial.known) == (str(tmp_path / "clone"), 3, True, True)
    assert [str(made) for made in trial.commits] == ["1 (OPTIMIZE of run r1)", "3 (WRITE)"]
    assert [made.by_zlayout for made in trial.commits] == [True, False]


@pytest.mark.parametrize("marker", [{"clone": "/elsewhere", "of": "/lake/db/t"}, "text", 1])
def test_a_clone_of_another_location_is_not_marked(tmp_path: Path, marker: Any) -> None:
    trial = read(tmp_path, marker=marker)
    assert trial is not None
    assert not trial.marked


def test_a_commit_info_that_is_nested_too_deeply_is_an_error(tmp_path: Path) -> None:
    read(tmp_path, commit("WRITE"))
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "clone/_delta_log" / f"{1:020}.json").write_text(f'{{"commitInfo": {{"x": {deep}}}}}')
    with pytest.raises(TableError, match=r"ZL111 the log of lake\.db\.t@clone"):
        read_again(tmp_path)
