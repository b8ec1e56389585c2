"""Every example and the demo project load; their modelines lead to the schemas."""

import re
from pathlib import Path

import pytest

from zlayout.spec.check import load_schema
from zlayout.spec.layouts import LAYOUT_PATTERNS
from zlayout.spec.load import load_project
from zlayout.spec.yaml import read

ROOT = Path(__file__).parents[3]
PROJECTS = [ROOT, *sorted(p.parent for p in ROOT.glob("examples/*/zlayout.yaml"))]


@pytest.mark.parametrize("root", PROJECTS, ids=lambda p: p.name)
def test_loads_and_names_its_schema(root: Path) -> None:
    project = load_project(root, {"GCS_TOKEN": "token-of-gcs"})  # of tables-on-gcs, whose README sets one
    files = [root / "zlayout.yaml", *sorted(root.glob("layouts/**/*.yaml"))]
    assert len(project.layouts) + len(project.rules) == len(files) - 1 > 0
    for file in files:
        name = "project" if file.name == "zlayout.yaml" else "layout"
        modeline = re.match(r"# yaml-language-server: \$schema=(.+)\n", file.read_text())
        assert modeline
        assert (file.parent / modeline[1]).resolve() == ROOT / f"schemas/v1/{name}.schema.json"


def test_there_is_an_example_of_each_kind() -> None:
    assert {p.name for p in PROJECTS[1:]} >= {"quickstart", "iceberg-partition-evolution", "every-feature"}
    formats = {c.format for c in load_project(ROOT / "examples/quickstart", {}).catalogs.values()}
    assert formats == {"delta", "iceberg"}


@pytest.mark.parametrize(("files", "name"), [(["zlayout.yaml"], "project"), (["lineitem", "other_tables"], "layout")])
def test_every_feature_has_every_key(files: list[str], name: str) -> None:
    folder = ROOT / "examples/every-feature"
    paths = [folder / file if name == "project" else folder / f"layouts/{file}.yaml" for file in files]
    data = {key: value for path in reversed(paths) for key, value in read(path, path.name).data.items()}
    schema = load_schema(name)
    assert set(data) == set(schema["properties"])
    if name == "layout":
        for group in ("only", "zorder", "files", "tolerance"):
            cuts = {"cuts"} if group == "zorder" else set()  # only with curve workload
            assert set(data[group]) == set(schema["properties"][group]["properties"]) - cuts
        visits = read(folder / "layouts/visits.yaml", "visits.yaml").data
        assert set(visits["zorder"]) == {"columns", "curve", "cuts"}
    else:
        keys = {key for entry in data["catalogs"].values() for key in entry}
        assert keys == set(schema["definitions"]["catalog"]["properties"])


def test_what_every_feature_calls_the_default_patterns_are() -> None:
    data = read(ROOT / "examples/every-feature/zlayout.yaml", "zlayout.yaml").data
    assert tuple(data["layouts"]) == LAYOUT_PATTERNS


def test_the_demo_is_at_the_root() -> None:
    project = load_project(ROOT, {})
    assert [(str(s.table), s.column_names, s.layout.target_size) for s in project.layouts] == [
        ("ice.tpch.lineitem", ("l_shipdate", "l_partkey"), 2 * 1024**2),
        ("lake.tpch.lineitem", ("l_shipdate", "l_partkey"), 2 * 1024**2),
    ]
    assert project.catalogs["ice"].options["warehouse"] == f"file://{ROOT}/.demo/iceberg"
    assert project.catalogs["lake"].options["warehouse"] == f"{ROOT}/.demo/delta"
