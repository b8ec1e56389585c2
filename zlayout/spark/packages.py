"""Chooses the jars that Spark needs for the catalogs of a project. No name of a jar comes from a YAML file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zlayout.formats.registry import FORMATS
from zlayout.formats.storage import Store, stores
from zlayout.spark import versions
from zlayout.spark.versions import Release
from zlayout.spec.model import CatalogConfig

_OF_STORE: dict[Store, Callable[[Release], tuple[str, ...]]] = {
    Store.S3: lambda release: release.s3_packages,
    Store.GCS: lambda _: versions.GCS_PACKAGES,
    Store.ADLS: lambda release: release.adls_packages,
}


def packages_conf(catalogs: Iterable[CatalogConfig], release: Release | None = None) -> dict[str, str]:
    """Return the Spark configuration that names the Maven packages for these catalogs.

    It has the packages of all formats, because one class path serves every project of this version, and those of the
    databases and object stores that the catalogs use.

    Args:
        catalogs: The catalogs of the project.
        release: The version of Spark that runs. Default: that of the installed pyspark.
    """
    catalogs = tuple(catalogs)
    release = release or versions.installed()
    found = {store for catalog in catalogs for store in stores(catalog)}
    of_formats = (format.traits.spark_package for format in FORMATS.values())
    packages = [jar for package in of_formats if package and (jar := package(release))]
    packages += [versions.JDBC_PACKAGES[name] for name in sorted({*_dialects(catalogs)} & {*versions.JDBC_PACKAGES})]
    packages += [package for store in sorted(found) for package in _OF_STORE[store](release)]
    conf = {"spark.jars.packages": ",".join(packages)}
    if Store.S3 in found:
        conf["spark.jars.excludes"] = ",".join(versions.S3_EXCLUDED)
    return conf


def _dialects(catalogs: Iterable[CatalogConfig]) -> Iterable[str]:
    uris = (str(catalog.options.get("uri", "")) for catalog in catalogs if catalog.type == "sql")
    return (uri.partition(":")[0].partition("+")[0] for uri in uris)
