"""What is loaded when: quick commands stay quick, and no command needs pyspark to be installed."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from support.sources import PACKAGE


def test_the_registry_loads_no_format() -> None:
    code = (
        "import sys, zlayout.formats.registry, zlayout.spec.formats\n"
        "print(*sorted(m for m in sys.modules if m.startswith('zlayout.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {"zlayout.formats", "zlayout.formats.registry", "zlayout.spec", "zlayout.spec.formats"}


def test_every_command_can_be_imported_without_pyspark() -> None:
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for layer in ("cli", "session")
        for path in PACKAGE.glob(f"{layer}/*.py")
    ]
    code = (
        "import importlib, sys\n"
        "sys.modules |= dict.fromkeys(('pyspark', 'py4j', 'delta'))  # importing them raises ImportError\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_quick_commands_load_no_engine() -> None:
    quick = [["--help"], ["--version"], ["schema", "layout"], ["validate", "--help"]]
    assert _loaded_by(*quick) & {"pyspark", "pyiceberg", "deltalake", "pandas", "pyarrow", "numpy"} == set()


def test_validate_loads_no_engine() -> None:
    root = PACKAGE.parent
    loaded = _loaded_by(["validate", "--project", str(root)])
    assert loaded & {"pyspark", "pyiceberg", "deltalake", "pandas"} == set()


def test_tables_of_engine_native_are_planned_without_pyspark(tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 2], "b": [1, 2]})
    for part in range(2):
        write_deltalake(str(tmp_path / "warehouse/db/t"), rows, mode="append" if part else "error")
    options = {"uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": f"file://{tmp_path}/ice"}
    with SqlCatalog("ice", **options) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", rows.schema)
        for _ in range(2):
            table.append(rows)
    catalogs = {
        "lake": {"format": "delta", "warehouse": "warehouse"},
        "ice": {"format": "iceberg", "type": "sql", **options},
    }
    (tmp_path / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs}))
    (tmp_path / "layouts").mkdir()
    for name in ("lake", "ice"):
        layout = f"version: 1\ntable: {name}.db.t\nengine: native\nzorder: {{columns: [a, b], curve: zorder}}\n"
        (tmp_path / "layouts" / f"{name}.yaml").write_text(layout)
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(('pyspark', 'py4j', 'delta'))  # importing them raises ImportError\n"
        "from zlayout.cli.main import run\n"
        f"sys.exit(run(['plan', '--project', {str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 to rewrite" in done.stdout, done.stdout


def test_a_plan_loads_neither_a_parser_of_sql_nor_what_simulates_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "warehouse" / "db" / "t"
    write_deltalake(str(where), pa.table({"a": [1, 2]}))
    (tmp_path / "zlayout.yaml").write_text("version: 1\ncatalogs: {lake: {format: delta, warehouse: warehouse}}\n")
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "t.yaml").write_text("version: 1\ntable: lake.db.t\nzorder: {columns: [a]}\n")
    monkeypatch.chdir(tmp_path)
    loaded = _loaded_by(["plan"])
    assert "deltalake" in loaded
    assert (
        loaded & {"jsonschema", "sqlglot", "pydantic", "pyiceberg", "sqlalchemy", "pyspark", "pandas", "jinja2"}
        == set()
    )
    assert loaded & {"zlayout.curve.kd", "zlayout.planner.simulation"} == set()


def _loaded_by(*commands: list[str]) -> set[str]:
    """The modules of zlayout, and the packages of others, in memory after these commands, which must succeed."""
    code = (
        "import sys; from zlayout.cli.main import run\n"
        f"code = [run(arguments) for arguments in {commands!r}]\n"
        "names = (m if m.startswith('zlayout.') else m.partition('.')[0] for m in sys.modules)\n"
        "sys.stderr.write('\\n'.join(set(names)))\n"
        "sys.exit(any(code))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())
