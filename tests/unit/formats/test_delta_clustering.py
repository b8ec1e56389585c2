"""The clustering columns of a Delta table and of its files, from logs written by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.delta_logs import INTS, TAGS, add, field, metadata, observe, protocol, write_checkpoint, write_log

from zlayout.errors import TableError
from zlayout.spec.model import CLUSTERED_BY

STRUCT = {"type": "struct", "fields": [field("x.y", "integer", "col-3")]}
FIELDS = [field("a", "integer", "a"), field("b", "long", "b"), field("s", STRUCT, "col-2")]
MAPPED: dict[str, str] = {"delta.columnMapping.mode": "name"}
UUID = "00000000000000000000.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"


def domain(*columns: list[str], removed: bool = False, name: str = "delta.clustering", **text: str) -> dict[str, Any]:
    configuration = text.get("text", json.dumps({"clusteringColumns": columns, "domainName": name}))
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def file(path: str, cube: str | None, columns: list[str], provider: str | None = "liquid") -> dict[str, Any]:
    tags = {} if cube is None else {"ZCUBE_ID": cube, "ZCUBE_ZORDER_BY": json.dumps(columns)}
    return add(path, tags={**tags, **TAGS}, clusteringProvider=provider)


def start(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    return [protocol("clustering", "domainMetadata", reader=("columnMapping",)), metadata(FIELDS, **MAPPED), *actions]


def clustering(tmp_path: Path, *commits: list[dict[str, Any]]) -> tuple[str, ...] | None:
    return observe(write_log(tmp_path / str(len(list(tmp_path.iterdir()))), *commits)).clustering


def test_the_newest_domain_metadata_counts(tmp_path: Path) -> None:
    first = start(domain(["a"]), domain(["b"], name="another"))
    assert clustering(tmp_path, first) == ("a",)
    assert clustering(tmp_path, first, [domain(["col-2", "col-3"], ["a"])]) == ("s.`x.y`", "a")
    assert clustering(tmp_path, first, [domain()]) == (), "CLUSTER BY NONE"
    assert clustering(tmp_path, first, [domain(removed=True)], [add("x")]) == ()
    assert clustering(tmp_path, start()) == ()
    assert clustering(tmp_path, [protocol(), metadata(INTS)]) is None


def test_a_long_commit_is_read_to_its_end(tmp_path: Path) -> None:
    """Only the first bytes of a commit are kept when its files are read."""
    files = [add(f"a file with a long name {n:0100}") for n in range(300)]
    assert clustering(tmp_path, start(domain(["a"])), [*files, domain(["b"])]) == ("b",)


@pytest.mark.parametrize("style", ["classic", "v2 json"])
def test_checkpoints_have_columns_providers_and_zcubes(tmp_path: Path, style: str) -> None:
    path = write_log(tmp_path / "t", [], [add("new")])
    actions = start(domain(["a"]), file("old", "one", ["a"]))
    if style == "classic":
        write_checkpoint(path, "00000000000000000000.checkpoint.parquet", actions)
    else:
        actions[0] = protocol("clustering", "domainMetadata", reader=("v2Checkpoint", "columnMapping"))
        actions.append({"checkpointMetadata": {"version": 0, "tags": None}})
        (path / "_delta_log" / f"{UUID}.json").write_text("\n".join(map(json.dumps, actions)))
    (path / "_delta_log" / "00000000000000000000.json").unlink()
    state = observe(path)
    assert (state.clustering, state.files.layout.tolist()) == (("a",), [-1, 0])


def test_files_are_grouped_by_zcube_and_layout_records_of_zlayout_are_ignored(tmp_path: Path) -> None:
    files = [
        file("1", "one", ["a"]),
        file("2", "one", ["a"]),
        file("3", "two", ["a"]),
        file("4", "three", ["b", "s.`x.y`"]),
        file("5", None, []),
        file("6", "four", ["a"], provider="another"),
        file("7", "five", ["a"], provider=None),
        add("8", tags=TAGS, clusteringProvider="liquid"),
        add("9", tags={"ZCUBE_ID": "six", "ZCUBE_ZORDER_BY": "no list"}),
    ]
    found = observe(write_log(tmp_path / "t", start(domain(["a"]), *files))).files
    assert found.layout.tolist() == [0, 0, 0, 1, -1, 2, 0, -1, -1]
    assert found.group.tolist() == [0, 0, 1, 2, -1, 3, 4, -1, -1]
    assert [record.settings[CLUSTERED_BY] for record in found.layouts] == [["a"], ["b", "s.`x.y`"], []]
    by_none = observe(write_log(tmp_path / "none", start(domain(), *files))).files
    assert [record.layout_id for record in by_none.layouts] == [TAGS["zlayout.layout_id"]]


@pytest.mark.parametrize("text", ["[", "[1]", '{"clusteringColumns": [["gone"]]}', '{"clusteringColumns": 7}'])
def test_domain_metadata_that_cannot_be_understood_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(TableError, match=r"ZL111 expected domain metadata delta\.clustering with columns"):
        clustering(tmp_path, start(domain(text=text)))
