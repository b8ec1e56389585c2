"""Lets Spark's REST catalogs accept no other address from their servers, as `iceberg.read.rest` does for pyiceberg."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

from zlayout.spark.classes import add_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSED_REST = "io.zlayout.iceberg.ClosedRestCatalog"


def close_rest_catalogs(session: SparkSession, names: Iterable[str]) -> None:
    """Let a session that zlayout has started use `ClosedRestCatalog` for these catalogs.

    Iceberg itself would obey the server before zlayout sees its properties, and send tokens to the address that it
    names. Only the driver has the class. Clones of the session have the same configuration.
    """
    source = files(__package__).joinpath("ClosedRestCatalog.java").read_text(encoding="utf-8")
    add_class(session, CLOSED_REST, source)
    for name in names:
        prefix = f"spark.sql.catalog.{name}"
        session.conf.unset(f"{prefix}.type")
        session.conf.set(f"{prefix}.catalog-impl", CLOSED_REST)
