"""The Spark configuration of a project: catalogs, jars, the memory of the driver, and the settings that zlayout needs.

A YAML file cannot name jars. Spark Connect is refused, because it gives no access to the driver's JVM.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from zlayout.errors import Refused, ZlayoutError
from zlayout.spark import versions
from zlayout.spark.versions import Release
from zlayout.spec.client_options import Store, hadoop_conf, spark_catalog_conf, stores
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig, Project

TIME_ZONE = "spark.sql.session.timeZone"
S3_CLIENT = "fs.s3.impl"  # the Hadoop class that reads s3://
# Names and literals in SQL texts mean what `zlayout.sql_text` writes. By default, Spark replaces `${...}` in them, for
# example by the value of an environment variable.
SQL_CONF = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
# The configuration that zlayout needs in every session. Partition values of timestamps are read and written in UTC.
SESSION_CONF = {
    TIME_ZONE: "UTC",
    **SQL_CONF,
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
# Spark's default and `credential`. By default, Spark writes the credential of a REST catalog to its event log.
REDACTED = "(?i)secret|password|token|access[.]?key|credential"
MIB = 2**20
MIN_MEMORY = 1024 * MIB  # Spark's default
MAX_MEMORY = 31 * 1024 * MIB  # with a larger heap, Java's references are twice as long
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups version 2, and of version 1
_NAMES_JARS = re.compile(r"--(jars|packages)\b|\bspark\.jars(\.packages)?=")  # the second with --conf
_DEFAULT_JARS = re.compile(r"^[ \t]*spark\.jars[ \t]*[ \t=:][ \t]*(.*)$", re.M)
_CONNECT_MODE, _CONNECT_MODE_VARIABLE = "spark.api.mode", "SPARK_API_MODE"
_STORE_PACKAGES: dict[Store, Callable[[Release], tuple[str, ...]]] = {
    Store.S3: lambda release: release.s3_packages,
    Store.GCS: lambda _: versions.GCS_PACKAGES,
    Store.ADLS: lambda release: release.adls_packages,
}


def names_jars(environ: Mapping[str, str]) -> bool:
    """Return whether PYSPARK_SUBMIT_ARGS names jars, so that zlayout need not add any."""
    return bool(_NAMES_JARS.search(environ.get("PYSPARK_SUBMIT_ARGS", "")))


def default_jars(defaults: Path) -> str:
    """Return `spark.jars` of Spark's defaults, '' if they do not set it. defaults: the path of spark-defaults.conf."""
    try:
        return "".join(_DEFAULT_JARS.findall(defaults.read_text(encoding="utf-8", errors="replace"))[-1:]).strip()
    except OSError:
        return ""


def project_conf(project: Project, *, submitted: bool) -> dict[str, str]:
    """Return the Spark configuration of a project, without the jars. `spark.conf` overrides all of it but `SQL_CONF`.

    Args:
        project: The project.
        submitted: Whether spark-submit started the process. It then sets the master.
    """
    traits = FORMATS.values()
    conf = {
        "spark.sql.extensions": ",".join(each.spark_extension for each in traits if each.spark_extension),
        **SESSION_CONF,
        # Spark would record the line of code that makes each column, which takes 0.1 s per rewrite.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.redaction.regex": REDACTED,
        "spark.scheduler.mode": "FAIR",  # between tables that are rewritten at the same time
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    master = "" if submitted else project.spark.master or "local[*]"
    for each in traits:
        conf |= each.spark_conf
        conf |= each.local_spark_conf if master.startswith("local") else {}
    for catalog in project.catalogs.values():
        conf |= spark_catalog_conf(catalog) | hadoop_conf(catalog)
    if submitted:
        conf.pop(f"spark.hadoop.{S3_CLIENT}", None)  # `configure_hadoop` sets it if the cluster does not
    else:
        conf["spark.master"] = master
        if master.startswith("local"):
            conf["spark.driver.memory"] = local_memory()
    return conf | dict(project.spark.conf) | SQL_CONF


def spark_conf(project: Project) -> dict[str, str]:
    """Return the Spark settings that a session needs to be given to `apply`, `advise` or `trial` as `spark=`.

    They may contain credentials of catalogs. Settings that zlayout needs for itself are not among them: it sets them in
    a clone of the session.

    Args:
        project: The project.

    Returns:
        The extensions, the catalogs and their object stores, `spark.conf` of the project, and `spark.jars.packages` for
        the installed pyspark.

    Raises:
        EngineError: ZL306, if pyspark is not installed or has no jars of the formats.
    """
    conf = {k: v for k, v in project_conf(project, submitted=True).items() if k not in SESSION_CONF}
    for name in ("spark.scheduler.mode", "spark.ui.enabled", "spark.ui.showConsoleProgress"):
        conf.pop(name, None)
    return conf | dict(project.spark.conf) | {"spark.jars.packages": ",".join(packages(project.catalogs.values()))}


def packages(catalogs: Iterable[CatalogConfig]) -> tuple[str, ...]:
    """Return the Maven packages for these catalogs.

    These are the packages of all formats, so that projects of different formats have the same class path, and the
    packages for the databases and object stores that the catalogs use. All are for the installed pyspark.
    """
    catalogs = tuple(catalogs)
    release = versions.installed()
    found = {store for catalog in catalogs for store in stores(catalog)}
    named = [jar for jar in (release.delta_package, release.iceberg_package) if jar]
    named += [versions.JDBC_PACKAGES[name] for name in sorted({*_dialects(catalogs)} & {*versions.JDBC_PACKAGES})]
    named += [package for store in sorted(found) for package in _STORE_PACKAGES[store](release)]
    return tuple(named)


def _dialects(catalogs: Iterable[CatalogConfig]) -> Iterable[str]:
    uris = (str(catalog.options.get("uri", "")) for catalog in catalogs if catalog.type == "sql")
    return (uri.partition(":")[0].partition("+")[0] for uri in uris)


def local_memory() -> str:
    """Return the heap size of a local Spark, in Spark's notation: half of the memory of this machine or container.

    The other half is for Java's memory outside of the heap, for the Python process, and for the file cache.
    """
    return f"{min(MAX_MEMORY, max(MIN_MEMORY, available(_CONTROL_GROUPS) // 2)) // MIB}m"


def available(control_groups: Path) -> int:
    """Return the memory of this machine, or the limit of its control group if that is lower, in bytes.

    Args:
        control_groups: The root of the control groups, as the process sees it.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # ValueError: "max" means that there is no limit
            found.append(int((control_groups / name).read_text()))
    return min(found)


def refuse_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise Refused ZL204 if a new session with this configuration and environment would use Spark Connect."""
    named = ["spark.conf spark.remote"] if "spark.remote" in conf else []
    named += [name for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED") if name in environment]
    if conf.get(_CONNECT_MODE, environment.get(_CONNECT_MODE_VARIABLE, "")).lower() == "connect":
        named.append(f"{_CONNECT_MODE if _CONNECT_MODE in conf else _CONNECT_MODE_VARIABLE}=connect")
    if named:
        raise connect_refused(f"{named[0]} is set")


def connect_refused(reason: str) -> ZlayoutError:
    """Return the error ZL204. reason: the setting or session by which Spark Connect was detected."""
    return Refused.of(
        "ZL204",
        f"zlayout cannot rewrite tables through Spark Connect ({reason}): its commits need the driver's JVM",
        hint="remove the setting and set spark.master, or run `zlayout apply` inside spark-submit on the cluster",
    )
