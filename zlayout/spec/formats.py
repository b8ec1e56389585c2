"""The table formats: what is known of each without reading a table. `zlayout.formats.registry` opens their backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CatalogKeys:
    """The keys that a catalog of one type accepts in the project.

    Attributes:
        any_of: Keys of which at least one is mandatory.
        uri_schemes: The schemes of `uri` that occur only with this type, without a driver: `postgresql` and not
            `postgresql+psycopg2`.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    uri_schemes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a format that do not depend on any table.

    Attributes:
        name: The value of `catalogs.<name>.format` in the project, which is also the name of Spark's data source.
        title: The name of the format in messages.
        version_word: The format's own word for a version of a table.
        catalog_types: The keys of a catalog by its type. The first type is the default if `type_is_optional`.
        type_is_optional: Whether a catalog may omit its type.
        needs_namespace: Whether a table name must have a namespace between catalog and table.
        partition_transforms: Whether a partition key may be a transform of a column.
        native_curves: The curves that engine native supports.
        local_warehouse_scheme: The prefix of the absolute path of a local warehouse.
        target_size_property: The table property for the size of new files in bytes.
        cleanup: When replaced files are removed from storage, as the end of a sentence with "until".
        spark_extension: The class of the Spark session extension, '' for none.
        spark_catalog: The class of Spark's catalogs, '' if Spark addresses tables by location.
        spark_conf: Spark configuration for every session.
        local_spark_conf: Additional Spark configuration for a local master.
    """

    name: str
    title: str
    version_word: str
    catalog_types: Mapping[str, CatalogKeys]
    type_is_optional: bool
    needs_namespace: bool
    partition_transforms: bool
    native_curves: tuple[str, ...]
    local_warehouse_scheme: str
    target_size_property: str
    cleanup: str = "old versions are removed"
    spark_extension: str = ""
    spark_catalog: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    local_spark_conf: Mapping[str, str] = field(default_factory=dict)
    branches: bool = False


# Spark needs no catalog for Delta, because it addresses tables by location: docs/adr/0018-delta-by-name.md.
_DELTA = Traits(
    name="delta",
    title="Delta",
    version_word="version",
    catalog_types={
        "path": CatalogKeys(optional=("warehouse", "tables"), any_of=("warehouse", "tables")),
        "hive": CatalogKeys(required=("uri",), optional=("warehouse",), uri_schemes=("thrift",)),
        "glue": CatalogKeys(optional=("uri", "warehouse")),
        "unity": CatalogKeys(
            required=("uri", "warehouse"), optional=("vended_credentials",), uri_schemes=("http", "https")
        ),
    },
    type_is_optional=True,
    needs_namespace=False,
    partition_transforms=False,
    native_curves=("zorder", "hilbert"),  # hilbert only on clustered tables
    local_warehouse_scheme="",
    target_size_property="delta.targetFileSize",
    cleanup="VACUUM",
    spark_extension="io.delta.sql.DeltaSparkSessionExtension",
    spark_conf={"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
    # By default, Delta reads a log with 50 tasks, which takes seconds on a few cores.
    local_spark_conf={"spark.databricks.delta.snapshotPartitions": "4"},
)
# Tables of Iceberg are addressed by name in a catalog that pyiceberg and Spark share.
_ICEBERG = Traits(
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
    spark_catalog="org.apache.iceberg.spark.SparkCatalog",
    spark_extension="org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)
# The only list of table formats, by the value of `catalogs.<name>.format`.
FORMATS = {traits.name: traits for traits in (_DELTA, _ICEBERG)}
