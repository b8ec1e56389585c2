"""The seam between zlayout and a table format: everything that is known of a format is behind one `Format`.

The specification, the reports and the command line ask the properties, so this module and the modules that implement
it import nothing heavy: no catalog client, no Arrow, no Spark. The methods import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig


@dataclass(frozen=True, slots=True)
class CatalogKeys:
    """The keys that a catalog of one type has.

    required: keys that must be there. optional: keys that may be there. any_of: keys of which one must be there.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a format without reading any table.

    Attributes:
        name: The value of `catalogs.<name>.format`, which Spark's readers use too.
        title: The name in messages.
        version_word: What the format calls a state of a table.
        catalog_types: The keys of a catalog by its type. The first type is the default if `type_is_optional`.
        type_is_optional: Whether a catalog may leave out its type.
        needs_namespace: Whether a table name needs a namespace beside the catalog.
        partition_transforms: Whether a partition key may be a transform of a column.
        native_curves: The curves that the format's own rewrite can order by.
        local_warehouse_scheme: What stands before the absolute path of a local warehouse.
        target_size_property: The table property with the size in bytes that new files should have.
        spark_extension: The class of the Spark session extension, '' for none.
        spark_packages: Maven coordinates of the jars that Spark needs.
        spark_conf: Spark settings of every session.
        local_spark_conf: Further ones if Spark runs on this machine alone.
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
    spark_extension: str = ""
    spark_packages: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    local_spark_conf: Mapping[str, str] = field(default_factory=dict)


class Format(Protocol):
    """A table format. `zlayout.formats.registry` lists all of them."""

    traits: Traits

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
        """Return the backend of one catalog. Reads nothing yet."""
        ...

    def catalog_conf(self, catalog: CatalogConfig) -> dict[str, str]:
        """Return the Spark settings that define the catalog under its name; empty if tables go by path."""
        ...
