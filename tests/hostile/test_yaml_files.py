"""zlayout.yaml and layouts that nobody meant well with: noise, half YAML, and valid files with something wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from hostile.asking import NoEngine, ask, refused
from hostile.mutants import NAMES, mutants
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zlayout.spec.load import load_project
from zlayout.spec.yaml import parse

MANY = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
PROJECT: dict[str, Any] = {
    "version": 1,
    "layouts": ["layouts/**/*.yaml"],
    "catalogs": {
        "lake": {
            "format": "delta",
            "warehouse": "w/${X:-y}",
            "tables": {"a.b": "s3://b/c"},
            "properties": {"region": "v"},
        },
        "ice": {
            "format": "iceberg",
            "type": "sql",
            "uri": "sqlite:///c.db",
            "warehouse": "w",
            "properties": {"clients": 1},
        },
    },
    "spark": {"master": "local[2]", "conf": {"spark.executor.memory": "8g", "spark.task.cpus": 1}},
    "defaults": {"zorder": {"range_ids": 100}, "files": {"target_size": "1GB"}, "tolerance": {"touched": "2x"}},
}
LAYOUT: dict[str, Any] = {
    "version": 1,
    "table": "lake.db.`o.rders`",
    "description": "d",
    "tags": ["a", "b"],
    "partition_by": ["c", "d"],
    "zorder": {"columns": ["a", {"name": "b.c", "weight": 2}], "curve": "kd", "range_ids": 10, "noise": True},
    "files": {"target_size": "128MiB", "sort_within": True, "max_group_size": 10**9},
    "where": "c = 1 AND (d IN ('x', 'y') OR d IS NULL)",
    "tolerance": {"unclustered": "10%", "touched": 1.5, "small_files": 0.2, "deleted_rows": "5%"},
    "engine": "zlayout",
}
PIECES = st.sampled_from(
    [
        "a", "version", ": ", "\n", "\n  ", "- ", "? ", "[", "]", "{", "}", ",", "&a ", "*a",
        "!!python/object:os.system ", "<<: ", "|\n", ">-\n", "'", '"', "\\x00", "\\ud800", "#", "---\n", "...\n",
        "%YAML 1.1\n", "\t", "\ufeff", "\x85", "~", "1e999", "0x1f", ".inf", "2026-01-01", "${", "}", "\U0001f600",
        *NAMES[:12],
    ]
)  # fmt: skip


@MANY
@given(st.lists(st.binary(max_size=60) | st.lists(PIECES, max_size=25).map(lambda p: "".join(p)), max_size=12))
@example(
    [b"\xef\xbb\xbfversion: 1", b"v\x00: 1", "a: &a [*a]", "? ? ? a", "{a: b, a: c}", "a: !!python/name:os.system x"]
)
def test_noise_is_data_or_errors_with_a_code_and_a_place(contents: list[bytes | str]) -> None:
    for content in contents:
        text = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        error = refused(lambda text=text: parse(text, "f.yaml"), text)
        assert error is None or all(d.location and d.location.path == "f.yaml" for d in error.diagnostics)


@pytest.mark.parametrize("name", ["zlayout.yaml", "layouts/a.yaml"])
def test_valid_files_with_something_wrong(name: str, tmp_path: Path, no_engine: NoEngine) -> None:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(json.dumps(PROJECT))
    (tmp_path / "layouts" / "a.yaml").write_text(json.dumps(LAYOUT))
    taken = 0
    assert load_project(tmp_path, {}).layouts

    @MANY
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal taken
        for mutant in mutants(PROJECT if name == "zlayout.yaml" else LAYOUT, seed, 5):
            (tmp_path / name).write_text(json.dumps(mutant))
            taken += refused(lambda: load_project(tmp_path, {"HOME": "/h"}), mutant) is None

    check()
    assert taken > 20
    assert no_engine.touched == 0


def test_the_command_line_says_it_in_lines_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_engine: NoEngine
) -> None:
    (tmp_path / "layouts").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zlayout.yaml").write_text(json.dumps(PROJECT))
    for seed, mutant in enumerate(mutants(LAYOUT, 8, 120)):
        (tmp_path / "layouts" / "a.yaml").write_text(json.dumps(mutant))
        answer = ask("plan" if seed % 10 == 0 else "validate", "--color", "never")
        for line in answer.err.splitlines():
            assert line.startswith(("error: ", "note: ", "warning: "))
    assert no_engine.touched == 0


@pytest.mark.parametrize(
    "pattern", ["**/" * 300 + "*.yaml", "*/" * 300 + "x", "[" * 500, "*a" * 400 + "b", "**/*/**/*/**/*/**/x", "?" * 900]
)
def test_no_pattern_of_layouts_takes_long(pattern: str, tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(30):
        folder = folder / ("a" * 20)
        folder.mkdir()
        (folder / "loop").symlink_to(tmp_path)
        (folder / "here").symlink_to(folder)
    (tmp_path / "zlayout.yaml").write_text(json.dumps({**PROJECT, "layouts": [pattern]}))
    refused(lambda: load_project(tmp_path, {}), pattern)


@pytest.mark.parametrize("name", NAMES)
def test_files_of_any_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_engine: NoEngine) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(json.dumps(PROJECT))
    plain = (
        name.replace("/", "_").replace("\0", "_").encode("utf-8", "surrogateescape" if name == "\udcff" else "replace")
    )
    (tmp_path / "layouts" / (plain[:200].decode() + ".yaml")).write_text("version: 2")
    assert ask("validate").code == 1
    assert no_engine.touched == 0


def test_a_file_whose_name_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(json.dumps(PROJECT))
    (tmp_path / "layouts" / "a\udcff.yaml").write_text(json.dumps(LAYOUT))
    assert ask("validate").code == 0
    assert ask("plan", "--output", "json", "--out", "plan.json").code == 1
    assert ask("plan", "--report", "sarif=-", "--report", "junit=j.xml", "--report", "html=h.html").code == 1
