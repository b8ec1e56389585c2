"""Reads the metadata of Iceberg tables without a JVM.

Each module of pyiceberg that can be configured reads `.pyiceberg.yaml` of the home folder and of the working directory,
and variables that begin with `PYICEBERG_`. Both may belong to somebody else, and can name classes that pyiceberg then
imports. zlayout defines its catalogs in `zlayout.yaml` alone, so pyiceberg has no configuration in this process, from
before its first module reads one.
"""

from collections.abc import Iterator
from importlib import import_module

import pyiceberg
from pyiceberg.utils.config import Config

from zlayout.errors import TableError

TESTED = ("0.11", "0.12")
# What zlayout uses of pyiceberg without a promise that it stays: names by module, and attributes by class.
INTERNALS = {
    "pyiceberg.avro.codecs": "KNOWN_CODECS",
    "pyiceberg.avro.decoder": "BinaryDecoder new_decoder",
    "pyiceberg.avro.file": "AvroFile AvroFile._read_block AvroFileHeader Block META_SCHEMA",
    "pyiceberg.avro.reader": "DefaultReader OptionReader Reader StructReader",
    "pyiceberg.avro.resolver": "construct_reader resolve_reader",
    "pyiceberg.catalog": "AVAILABLE_CATALOGS CatalogType MetastoreCatalog._load_file_io",
    "pyiceberg.catalog.rest": "RestCatalog RestCatalog._create_session RestCatalog._fetch_config TableResponse "
    "RestCatalog._create_legacy_oauth2_auth_manager RestCatalog._load_file_io RestCatalog._response_to_table",
    "pyiceberg.catalog.rest.auth": "AuthManager",
    "pyiceberg.manifest": "DEFAULT_READ_VERSION MANIFEST_LIST_FILE_SCHEMAS ManifestContent ManifestFile "
    "PartitionFieldSummary",
    "pyiceberg.serializers": "Compressor Compressor.get_compressor GzipCompressor",
    "pyiceberg.table.name_mapping": "NameMapping._field_by_name",
    "pyiceberg.table.statistics": "BlobMetadata",
    "pyiceberg.table.update": "AssertRefSnapshotId AssertTableUUID RemovePropertiesUpdate SetPropertiesUpdate "
    "SetSnapshotRefUpdate",
    "pyiceberg.transforms": "UnknownTransform",
    "pyiceberg.typedef": "Record Record._data",
    "pyiceberg.utils.config": "Config Config._from_configuration_files Config._from_environment_variables",
    "pyiceberg.utils.schema_conversion": "AvroSchemaConversion AvroSchemaConversion.avro_to_iceberg",
}


def missing_internals() -> Iterator[str]:
    """Yield the dotted name of each of `INTERNALS` that the installed pyiceberg lacks."""
    for module, names in INTERNALS.items():
        for name in names.split():
            try:
                found = import_module(module)
                for part in name.split("."):
                    found = getattr(found, part)
            except (ImportError, AttributeError):
                yield f"{module}.{name}"


def require_internals() -> None:
    """Raise TableError ZL139 if pyiceberg has an untested version that lacks something of `INTERNALS`."""
    if pyiceberg.__version__.startswith(tuple(f"{minor}." for minor in TESTED)):
        return
    if missing := list(missing_internals()):
        message = f"pyiceberg {pyiceberg.__version__} lacks what zlayout uses of it: {', '.join(missing)}"
        raise TableError.of("ZL139", message, hint=f"install pyiceberg {' or '.join(TESTED)}")


require_internals()
Config._from_configuration_files = staticmethod(lambda: None)  # type: ignore[method-assign]
Config._from_environment_variables = staticmethod(lambda config: config)  # type: ignore[method-assign]
