"""Projects from folders: merging, environment, paths, and where a project is looked for."""

from datetime import date
from pathlib import Path

import pytest
from support.builders import make_layout
from unit.spec.conftest import LAYOUT, PROJECT, Load

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import Compare
from zlayout.spec.load import find_project, load_project
from zlayout.spec.model import TableName, Tolerance, ZorderColumn
from zlayout.table.partition import PartitionField


def test_a_layout_of_every_key(load: Load, tmp_path: Path) -> None:
    text = """version: 1
table: lake.eu.`a.b`
description: hello
tags: [x, y]
partition_by: [region]
zorder:
  columns: [a.b, {name: c, weight: 2}]
  curve: kd
  range_ids: 64
  noise: true
files: {target_size: 1.5GB, sort_within: false}
where: "region < DATE '2026-01-01'"
tolerance: {unclustered: 0.25, touched: 2x, small_files: 5%, deleted_rows: 1}
engine: zlayout
"""
    project = load({"zlayout.yaml": PROJECT, "layouts/deep/er/one.yaml": text})
    (spec,) = project.layouts
    assert project.root == tmp_path
    assert spec.table == TableName("lake", ("eu",), "a.b")
    columns = ("a.b", ZorderColumn("c", 2.0))
    assert spec.layout == make_layout(*columns, range_ids=64, noise=True, target_size=1_500_000_000, sort_within=False)
    assert spec.partition_by == (PartitionField("region"),)
    assert spec.where == Compare("region", "<", date(2026, 1, 1))
    assert spec.tolerance == Tolerance(0.25, 2.0, 0.05, 1.0)
    assert (spec.description, spec.tags) == ("hello", ("x", "y"))
    assert spec.location == Location("layouts/deep/er/one.yaml", 2, 1)
    assert spec.location_of("zorder.columns[1].weight") == Location("layouts/deep/er/one.yaml", 7, 28)
    assert spec.location_of("files.nothing") == Location("layouts/deep/er/one.yaml", 11, 1)


def test_built_in_defaults(load: Load) -> None:
    (spec,) = load({"zlayout.yaml": PROJECT, "layouts/a.yaml": LAYOUT}).layouts
    assert spec.layout == make_layout("a", "b", target_size=128 * 1024**2)
    assert spec.tolerance == Tolerance(0.10, 1.5, 0.20, 0.10)
    assert (spec.partition_by, spec.where, spec.tags) == (None, None, ())


def test_a_spec_beats_defaults_which_beat_what_is_built_in(load: Load) -> None:
    defaults = """defaults:
  zorder: {range_ids: 10, noise: true}
  files: {target_size: 1MiB}
  tolerance: {touched: 3}
  engine: native
"""
    layout = LAYOUT + "  range_ids: 20\ntolerance: {small_files: 1%}\npartition_by: []\n"
    (spec,) = load({"zlayout.yaml": PROJECT + defaults, "layouts/a.yaml": layout}).layouts
    settings = {"curve": "zorder", "range_ids": 20, "noise": True, "target_size": 1024**2, "engine": "native"}
    assert spec.layout == make_layout("a", "b", **settings)
    assert spec.tolerance == Tolerance(0.10, 3.0, 0.01, 0.10)
    assert spec.partition_by == ()


def test_layouts_are_sorted_by_table_and_found_by_patterns(load: Load) -> None:
    files = {
        "zlayout.yaml": PROJECT + "layouts: [specs/*.yml, one.yaml]\n",
        "specs/1.yml": LAYOUT.replace("ice.db.t", "lake.z"),
        "specs/2.yml": LAYOUT,
        "specs/deeper/3.yml": "not read",
        "layouts/4.yaml": "not read",
        "one.yaml": LAYOUT.replace("ice.db.t", "lake.a.b.c"),
    }
    assert [str(s.table) for s in load(files).layouts] == ["ice.db.t", "lake.a.b.c", "lake.z"]


def test_partition_keys(load: Load) -> None:
    keys = "[a, identity(b), year(c), month( d ), day(e), hour(f.g), 'bucket(16, i)', 'truncate(8,j)', ' k l ']"
    (spec,) = load({"zlayout.yaml": PROJECT, "layouts/a.yaml": LAYOUT + f"partition_by: {keys}\n"}).layouts
    assert [(f.source, f.transform) for f in spec.partition_by or ()] == [
        ("a", "identity"), ("b", "identity"), ("c", "year"), ("d", "month"), ("e", "day"), ("f.g", "hour"),
        ("i", "bucket[16]"), ("j", "truncate[8]"), ("k l", "identity"),
    ]  # fmt: skip


def test_relative_places_start_at_the_project_in_the_form_each_reader_needs(load: Load, tmp_path: Path) -> None:
    text = """version: 1
catalogs:
  a: {format: delta, warehouse: ../w, tables: {x.y: t/y, z: "s3://b/z", q: /abs/q}}
  b: {format: iceberg, type: sql, uri: "sqlite:///c.db?timeout=1", warehouse: w w/}
  c: {format: iceberg, type: sql, uri: "postgresql://u:${P}@h/db", warehouse: /abs/w}
  d: {format: iceberg, type: rest, uri: "https://h/x", warehouse: prod, properties: {clients: 1, prefix: true}}
  e: {format: iceberg, type: hive, uri: "thrift://h:9083", warehouse: "s3://b/w"}
  f: {format: iceberg, type: glue}
  g: {format: iceberg, type: sql, uri: "sqlite:////abs/c.db", warehouse: "file:///abs/w"}
spark: {master: "local[2]", conf: {spark.executor.memory: 8g, spark.speculation: true, spark.task.cpus: 2}}
"""
    project = load({"zlayout.yaml": text}, {"P": "p"})
    assert {name: c.options for name, c in project.catalogs.items()} == {
        "a": {
            "warehouse": str(tmp_path.parent / "w"),
            "tables": {"x.y": str(tmp_path / "t/y"), "z": "s3://b/z", "q": "/abs/q"},
        },
        "b": {"uri": f"sqlite:///{tmp_path}/c.db?timeout=1", "warehouse": f"file://{tmp_path}/w w"},
        "c": {"uri": "postgresql://u:p@h/db", "warehouse": "file:///abs/w"},
        "d": {
            "uri": "https://h/x",
            "warehouse": "prod",
            "properties": {"clients": "1", "prefix": "true"},
        },
        "e": {"uri": "thrift://h:9083", "warehouse": "s3://b/w"},
        "f": {},
        "g": {"uri": "sqlite:////abs/c.db", "warehouse": "file:///abs/w"},
    }
    assert [c.type for c in project.catalogs.values()] == ["path", "sql", "sql", "rest", "hive", "glue", "sql"]
    assert project.spark.master == "local[2]"
    assert project.spark.conf == {"spark.executor.memory": "8g", "spark.speculation": "true", "spark.task.cpus": "2"}
    assert project.catalogs["b"].location == Location("zlayout.yaml", 4, 3)


def test_the_time_zone_of_partition_values_is_declared_or_unknown(load: Load) -> None:
    (unknown,) = load({"zlayout.yaml": PROJECT, "layouts/a.yaml": LAYOUT}).layouts
    (declared,) = load({"zlayout.yaml": PROJECT, "layouts/a.yaml": f"{LAYOUT}partition_timezone: UTC\n"}).layouts
    assert (declared.partition_timezone, unknown.partition_timezone) == ("UTC", "")
    with pytest.raises(SpecError, match=r"ZL0\d\d .*partition_timezone"):
        load({"zlayout.yaml": PROJECT, "layouts/a.yaml": f"{LAYOUT}partition_timezone: Europe/Berlin\n"})


def test_every_layout_has_the_commit_properties_of_the_project(load: Load) -> None:
    text = PROJECT + "commit: {properties: {team: data, git_commit: '${SHA:-none}'}}\n"
    project = load({"zlayout.yaml": text, "layouts/a.yaml": LAYOUT}, {"SHA": "abc"})
    assert [spec.commit_properties for spec in project.layouts] == [{"team": "data", "git_commit": "abc"}]


def test_environment_variables_in_identity_fields(load: Load) -> None:
    text = """version: 1
catalogs:
  a: {format: delta, warehouse: "${W}/x${N:-y}", tables: {t: "${T:?no}"}, properties: {token: "${K}"}}
commit: {properties: {note: "${NOTE}"}}
spark: {master: "${M:-local[3]}", conf: {spark.local.dir: "/${E}d"}}
"""
    environ = {"W": "/w", "T": "s3://t", "K": "$W", "NOTE": "${W}", "E": "", "M": ""}
    project = load({"zlayout.yaml": text, "layouts/a.yaml": LAYOUT.replace("ice.", "a.")}, environ)
    assert project.catalogs["a"].options == {
        "warehouse": "/w/xy",
        "tables": {"t": "s3://t"},
        "properties": {"token": "$W"},
    }
    assert project.layouts[0].commit_properties == {"note": "${W}"}
    assert project.spark.master == "local[3]"
    assert project.spark.conf == {"spark.local.dir": "/d"}


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside, outside = tmp_path / "inside", tmp_path / "secret.yaml"
    outside.write_text("password: x")
    (inside / "layouts").mkdir(parents=True)
    (inside / "zlayout.yaml").write_text(PROJECT)
    (inside / "layouts/a.yaml").symlink_to(outside)
    with pytest.raises(SpecError) as caught:
        load_project(inside, {})
    assert str(caught.value) == (
        "inside/layouts/a.yaml: ZL026 the link points outside the project "
        "(keep a layout and the target of its link in the folder of the project)"
    )


def test_find_project_walks_up(load: Load, tmp_path: Path) -> None:
    load({"zlayout.yaml": PROJECT, "a/b/c.txt": ""})
    assert find_project(tmp_path / "a/b") == tmp_path
    assert find_project(tmp_path / "a/b/c.txt") == tmp_path
    assert find_project(Path()) == tmp_path
    (tmp_path / "zlayout.yaml").unlink()
    with pytest.raises(SpecError) as caught:
        find_project(tmp_path / "a")
    assert caught.value.diagnostics[0].code == "ZL001"
    assert "--project" in caught.value.diagnostics[0].hint
    with pytest.raises(SpecError) as caught:
        load_project(tmp_path, {})
    assert str(caught.value) == "ZL001 file zlayout.yaml does not exist (run zlayout init to create one)"


def test_places_are_as_the_user_would_type_them(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load({"zlayout.yaml": PROJECT, "layouts/a.yaml": LAYOUT})
    monkeypatch.chdir(tmp_path / "layouts")
    assert load_project(tmp_path, {}).layouts[0].location.path == "a.yaml"
    assert load_project(Path("../zlayout.yaml"), {}).catalogs["ice"].location.path == "../zlayout.yaml"
    monkeypatch.chdir("/")
    assert load_project(tmp_path, {}).layouts[0].location.path == str(tmp_path / "layouts/a.yaml").lstrip("/")
