"""The wheel and the sdist: what they hold, and that the wheel works in an empty environment outside the checkout."""

import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

from support.environments import BIN, ROOT, environment, run

import zlayout


def test_the_version_is_that_of_the_package_and_of_the_changelog(wheel: Path) -> None:
    assert wheel.name == f"zlayout-{zlayout.__version__}-py3-none-any.whl"
    assert f"## [{zlayout.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_holds_the_package_with_its_types_and_schemas_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"zlayout", f"zlayout-{zlayout.__version__}.dist-info"}
    assert "zlayout/py.typed" in names
    schemas = {f"zlayout/{path.relative_to(ROOT)}" for path in (ROOT / "schemas").rglob("*.json")}
    assert schemas <= set(names)
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "zlayout").rglob("*.py")}
    assert sources <= set(names)


def test_the_metadata_names_licence_authors_and_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Author"] == "zlayout contributors"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Provides-Extra") == [
        "connect",
        "glue",
        "hive",
        "hive-kerberos",
        "local",
        "metrics",
        "mysql",
        "postgres",
        "report",
        "spark",
        "sql",
    ]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_sdist_builds_the_same_wheel(dist: Path, wheel: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    run([BIN / "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again"], source)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_wheel_works_in_an_empty_environment_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "env", f"zlayout[report] @ {wheel.as_uri()}")
    folder = tmp_path / "project"
    folder.mkdir()
    command = python.parent / "zlayout"
    assert run([command, "--version"], folder) == f"zlayout {zlayout.__version__}\n"
    assert run([python, "-m", "zlayout", "--version"], folder) == f"zlayout {zlayout.__version__}\n"
    run([command, "init", "--table", "lake.sales.orders", "--columns", "a,b", "--offline"], folder)
    run([command, "validate"], folder)
    for name in ("layout", "project", "plan"):
        assert '"$schema"' in run([command, "schema", name], folder)
    where = run([python, "-c", "import zlayout; print(zlayout.__file__)"], folder)
    assert where.startswith(str(tmp_path))
