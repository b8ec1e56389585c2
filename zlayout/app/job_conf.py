"""The part of the Spark configuration of a project that a job definition may contain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zlayout.formats.registry import FORMATS
from zlayout.secrets import is_secret, without_secrets
from zlayout.spec.load import PROJECT_FILE
from zlayout.spec.model import Project
from zlayout.spec.yaml import read

# Settings by which executors find the driver in client mode. The platforms that start Spark set them themselves.
_OF_CLIENT_MODE = r"spark\.driver\.(?:host|bindAddress|port|blockManager\.port)|spark\.kubernetes\.context"


def spark_conf(project: Project, *, on_kubernetes: bool, with_catalogs: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the Spark configuration for a job, and the names of the settings that must not be written to it.

    A value with a variable depends on the machine. Where the job runs, zlayout replaces the variable itself.

    Args:
        project: The project.
        on_kubernetes: Whether the job runs on Kubernetes, whose settings other platforms ignore.
        with_catalogs: Whether the session of the job needs the extensions and catalogs, because zlayout does not
            start it.
    """
    spark = read(project.root / PROJECT_FILE, PROJECT_FILE).data.get("spark") or {}
    written: Mapping[str, Any] = spark.get("conf") or {}
    unused = _OF_CLIENT_MODE if on_kubernetes else rf"{_OF_CLIENT_MODE}|spark\.kubernetes\..*"
    conf = _catalog_conf(project) if with_catalogs else {}
    conf |= {key: value for key, value in project.spark.conf.items() if not re.fullmatch(unused, key)}
    left_out = {
        key
        for key, value in conf.items()
        if "${" in str(written.get(key)) or is_secret(key) or without_secrets(value) != value
    }
    return {key: value for key, value in conf.items() if key not in left_out}, tuple(sorted(left_out))


def _catalog_conf(project: Project) -> dict[str, str]:
    traits = [FORMATS[name].traits for name in formats_of(project)]
    conf = {"spark.sql.extensions": ",".join(each.spark_extension for each in traits)}
    for each in traits:
        conf |= each.spark_conf
    for catalog in project.catalogs.values():
        conf |= FORMATS[catalog.format].catalog_conf(catalog)
    return conf


def formats_of(project: Project) -> list[str]:
    """Return the names of the formats that the catalogs of a project have."""
    return sorted({catalog.format for catalog in project.catalogs.values()})
