"""Deliberate defects of a Delta rewrite on tables that are, were or become liquid-clustered."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from model import delta_backend
from model.delta_actions import AddFile, Clustering
from model.delta_backend import ENFORCE
from model.java import Seq
from model.mutant import Mutant, patched
from model.worlds import Scenario

from zlayout.formats.delta import backend
from zlayout.formats.delta.read.log import ZCUBE_ID
from zlayout.formats.delta.read.observe import LIQUID
from zlayout.formats.delta.write import commit, transaction
from zlayout.planner.work import PlannedTable

real_replacing, real_tagged = delta_backend.StandIn.replacing, commit.tagged


def without_enforcement() -> AbstractContextManager[Any]:
    kept: Mapping[str, str] = {name: value for name, value in transaction._COMMIT_CONF.items() if name != ENFORCE}
    return patch.object(transaction, "_COMMIT_CONF", kept)


def unclustering(self: Any, *arguments: Any, **settings: Any) -> Seq:
    return Seq([*real_replacing(self, *arguments, **settings), Clustering(())])


def all_files_again(self: Any, added: Any, removed: Any, now: int, *, data_change: bool) -> Seq:
    """Also adds the files that stay, as they are described without their tags."""
    gone = {file.name for file in removed}
    kept = [file for file in self.table.current.files.values() if file.name not in gone]
    again = [replace(file, tags={}, clusteringProvider=None, dataChange=False) for file in kept]
    return Seq([*real_replacing(self, added, removed, now, data_change=data_change), *again])


def as_optimize(*arguments: Any) -> Seq:
    """Marks the new files as OPTIMIZE does, so that it leaves them alone."""
    files: list[AddFile] = real_tagged(*arguments)
    return Seq(replace(file, clusteringProvider=LIQUID, tags={**file.tags, ZCUBE_ID: "cube"}) for file in files)


BECOMES = Scenario("delta", ("cluster+optimize", "append"), rewriters=1, faults=1)
AGAIN = Scenario("delta", ("cluster", "delete"), rewriters=1, faults=1, unclustered=True, lineage=False)
TRACKED = Scenario("delta", ("cluster+optimize+uncluster",), rewriters=1, faults=1, unclustered=True)

MUTANTS = (
    Mutant(
        "upgrade-not-enforced",
        "commits without the setting with which a new table feature is a conflict",
        BECOMES,
        {"rewritten though clustered"},
        without_enforcement,
    ),
    *(
        Mutant(
            f"clustering-not-checked-{name}",
            "does not look for new clustering columns directly before a commit",
            scenario,
            {"rewritten though clustered"},
            patched((commit, "require_no_silent_change", lambda *_: None)),
        )
        for name, scenario in (("plain", AGAIN), ("lineage", TRACKED))
    ),
    Mutant(
        "only-row-tracking-checked",
        "does not look for new clustering columns where rows are tracked",
        TRACKED,
        {"rewritten though clustered"},
        patched((delta_backend.StandIn, "clustering", lambda *_: None)),
    ),
    Mutant(
        "clustered-not-refused",
        "refuses neither a clustered table nor one that was clustered after the plan",
        AGAIN,
        {"rewritten though clustered", "not refused"},
        patched(
            (backend, "clustering_refusals", lambda *_: ()), (PlannedTable, "require_clustering", lambda *_, **__: None)
        ),
    ),
    Mutant(
        "clustering-removed",
        "removes the clustering columns, so that the rewrite is allowed",
        AGAIN,
        {"domain metadata changed"},
        patched((delta_backend.StandIn, "replacing", unclustering)),
    ),
    Mutant(
        "marks-of-kept-files",
        "adds the files that stay again, without their tags and clustering provider",
        AGAIN,
        {"marks lost"},
        patched((delta_backend.StandIn, "replacing", all_files_again)),
    ),
    Mutant(
        "marked-as-clustered",
        "marks its files as those of OPTIMIZE, which would then leave them alone",
        AGAIN,
        {"false marks"},
        patched((commit, "tagged", as_optimize)),
    ),
)
