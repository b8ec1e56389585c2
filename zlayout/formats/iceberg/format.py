"""The format Apache Iceberg."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zlayout.formats.format import CatalogKeys, Traits

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.formats.trial import Trials
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig


class IcebergFormat:
    """Apache Iceberg. Tables are addressed by name in a catalog that pyiceberg and Spark share."""

    traits = Traits(
        name="iceberg",
        title="Iceberg",
        version_word="snapshot",
        catalog_types={
            "sql": CatalogKeys(required=("uri", "warehouse"), uri_schemes=("sqlite", "postgresql", "mysql")),
            "rest": CatalogKeys(
                required=("uri",), optional=("warehouse", "yield_to_writers"), uri_schemes=("http", "https")
            ),
            "hive": CatalogKeys(required=("uri",), optional=("warehouse",), uri_schemes=("thrift",)),
            "glue": CatalogKeys(optional=("uri", "warehouse")),
        },
        type_is_optional=False,
        needs_namespace=True,
        partition_transforms=True,
        native_curves=("zorder", "hilbert", "linear"),
        # pyiceberg and Spark resolve a path without scheme in the default file system, which may not be the local one.
        local_warehouse_scheme="file://",
        target_size_property="write.target-file-size-bytes",
        cleanup="snapshots expire",
        branches=True,
        spark_extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        spark_package=lambda release: release.iceberg_package,
    )

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
        from zlayout.formats.iceberg.backend import IcebergBackend

        return IcebergBackend(catalog, runtime)

    def trials(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Trials:
        from zlayout.formats.iceberg.trials import IcebergTrials

        return IcebergTrials(catalog, runtime)

    def catalog_conf(self, catalog: CatalogConfig) -> dict[str, str]:
        from zlayout.formats.iceberg.catalog_conf import spark_catalog_conf

        return spark_catalog_conf(catalog)

    def session_started(self, session: Any, catalogs: Iterable[CatalogConfig]) -> None:
        if named := [catalog.name for catalog in catalogs if catalog.type == "rest"]:
            from zlayout.formats.iceberg.write.rest import close_rest_catalogs

            close_rest_catalogs(session, named)
