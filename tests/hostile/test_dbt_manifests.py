"""Manifests of dbt with values of any kind in any place: errors with a code, and files in `layouts/` alone."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zlayout.cli.main import run
from zlayout.errors import SpecError
from zlayout.session.import_ import ImportedLayout, import_dbt
from zlayout.session.project import load_project

RECORDED = Path(__file__).parents[1] / "fixtures" / "dbt" / "manifest.json"
PROJECT = """version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
  ice: {format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice}
"""
DEEP: Any = []
for _ in range(900):
    DEEP = [DEEP]
VALUES = (
    None, True, 0, -1.5, "", "..", "../../out", "/etc/passwd", "a\n- b: !!python/object:os.system", "x" * 5000,
    "\ud800", "\u202egnp.exe", "${HOME}", "`", "*", [], {}, [None], [[1]], {"a": {"b": []}}, DEEP,
)  # fmt: skip
# What `zlayout.session.import_` reads of a model. Nothing else has an effect.
READ = {
    *("resource_type", "database", "schema", "alias", "name", "original_file_path", "package_name", "version", "tags"),
    *("materialized", "file_format", "table_format", "partition_by", "zorder", "liquid_clustered_by", "cluster_by"),
    *("clustered_by", "tblproperties", "meta"),
}
NODE = "model.shop.orders"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    Path("zlayout.yaml").write_text(PROJECT)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, (*path, key))


def with_value(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.copy(document)
    at: Any = changed
    for key in path[:-1]:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[path[-1]] = value
    return changed


def test_values_of_any_kind_in_any_place() -> None:
    project = load_project()
    document = json.loads(RECORDED.read_text())
    node = document["nodes"][NODE]
    small = {**document, "nodes": {NODE: node}}
    paths = [path for path in places({**small, "nodes": {}}) if path]
    for key in ("zorder", "liquid_clustered_by", "cluster_by", "tblproperties", "table_format", "meta"):
        node["config"].setdefault(key, None)
    node["config"]["meta"] = {"zlayout": {"files": {"target_size": "1MiB"}, "where": "region = 'eu'"}}
    paths += [("nodes", NODE, *path) for path in places(node) if path and READ.intersection(path)]
    assert len(paths) > 30
    for path in paths:
        for value in VALUES:
            text = json.dumps(with_value(small, path, value))
            Path("manifest.json").write_text(text)
            try:
                found = import_dbt(project, Path("manifest.json"), "lake.*.*")
            except SpecError as error:
                assert [d.code for d in error.diagnostics] == ["ZL090"]  # noqa: PT017 - most values are accepted
                continue
            for one in found.layouts:
                if isinstance(one, ImportedLayout):
                    assert one.path(project).resolve().is_relative_to(Path("layouts").resolve()), (path, value)
                    assert ".." not in one.path(project).parts
                    one.text.encode()  # no lone surrogates


def test_a_manifest_writes_no_file_outside_of_layouts_and_through_no_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(RECORDED.read_text())
    orders, visits = document["nodes"][NODE], document["nodes"]["model.shop.visits"]
    orders.update(original_file_path="../../../out/x.sql", name="../\x1b]0;owned\x07", package_name="..")
    visits.update(original_file_path="models/linked/x.sql")
    (tmp_path / "elsewhere").mkdir()
    Path("layouts").mkdir()
    Path("layouts/linked").symlink_to(tmp_path / "elsewhere")
    Path("manifest.json").write_text(json.dumps(document))
    assert run(["import", "--dbt", "manifest.json"]) == 0
    printed = capsys.readouterr()
    assert "ZL086" in printed.err
    assert "\x1b" not in printed.out + printed.err
    assert not list((tmp_path / "elsewhere").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"project", "elsewhere"}
    assert {path.name for path in Path().iterdir()} == {"zlayout.yaml", "manifest.json", "layouts"}
    assert len(list(Path("layouts").rglob("*.yaml"))) == 4
    load_project()  # what was written is valid
