"""The interface of a table format: a `Format` provides everything that is specific to one format.

The packages `spec`, `report` and `cli` use `Format.traits`. Therefore this module and the modules that implement it
import no catalog client, no Arrow and no Spark. Methods import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.formats.trial import Trials
    from zlayout.spark.session import SparkRuntime
    from zlayout.spark.versions import Release
    from zlayout.spec.model import CatalogConfig


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
        spark_package: A function that returns the Maven coordinates of the format's jar for a release of Spark, or
            None if there is no jar for this release. The attribute itself is None if the format needs no jar.
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
    spark_package: Callable[[Release], str | None] | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    local_spark_conf: Mapping[str, str] = field(default_factory=dict)
    branches: bool = False


class Format(Protocol):
    """A table format. `zlayout.formats.registry` lists all formats."""

    traits: Traits

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
        """Return the backend for one catalog, without connecting to the catalog."""
        ...

    def trials(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Trials | None:
        """Return the trials of the tables of one catalog, without connecting to it; None for a format without them."""
        ...

    def session_started(self, session: Any, catalogs: Iterable[CatalogConfig]) -> None:
        """Prepare a pyspark session that was started for these catalogs of the format."""
        ...

    def catalog_conf(self, catalog: CatalogConfig) -> dict[str, str]:
        """Return the Spark configuration that defines the catalog, empty if tables are addressed by location."""
        ...
