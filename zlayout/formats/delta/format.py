"""The format Delta Lake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zlayout.formats.format import CatalogKeys, Traits

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig


class DeltaFormat:
    """Delta Lake. Spark needs no catalog, because it addresses tables by location: docs/adr/0018-delta-by-name.md."""

    traits = Traits(
        name="delta",
        title="Delta",
        version_word="version",
        catalog_types={
            "path": CatalogKeys(optional=("warehouse", "tables"), any_of=("warehouse", "tables")),
            "hive": CatalogKeys(required=("uri",), optional=("warehouse",), uri_schemes=("thrift",)),
            "glue": CatalogKeys(optional=("uri", "warehouse")),
            "unity": CatalogKeys(required=("uri", "warehouse"), uri_schemes=("http", "https")),
        },
        type_is_optional=True,
        needs_namespace=False,
        partition_transforms=False,
        native_curves=("zorder", "hilbert"),  # hilbert only on clustered tables
        local_warehouse_scheme="",
        target_size_property="delta.targetFileSize",
        cleanup="VACUUM",
        spark_extension="io.delta.sql.DeltaSparkSessionExtension",
        spark_package=lambda release: release.delta_package,
        spark_conf={"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
        # By default, Delta reads a log with 50 tasks, which takes seconds on a few cores.
        local_spark_conf={"spark.databricks.delta.snapshotPartitions": "4"},
    )

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
        from zlayout.formats.delta.backend import DeltaBackend

        return DeltaBackend(catalog, runtime)

    def trials(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:  # noqa: ARG002
        return None

    def catalog_conf(self, catalog: CatalogConfig) -> dict[str, str]:  # noqa: ARG002
        return {}

    def session_started(self, session: Any, catalogs: Iterable[CatalogConfig]) -> None:
        from zlayout.formats.storage import Store, stores

        if any(Store.S3 in stores(catalog) for catalog in catalogs):
            from zlayout.formats.delta.write.log_store import use_conditional_puts

            use_conditional_puts(session)
