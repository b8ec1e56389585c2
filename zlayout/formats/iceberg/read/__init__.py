"""Reads the metadata of Iceberg tables without a JVM.

Each module of pyiceberg that can be configured reads `.pyiceberg.yaml` of the home folder and of the working directory,
and variables that begin with `PYICEBERG_`. Both may belong to somebody else, and can name classes that pyiceberg then
imports. zlayout defines its catalogs in `zlayout.yaml` alone, so pyiceberg has no configuration in this process, from
before its first module reads one.
"""

from pyiceberg.utils.config import Config

Config._from_configuration_files = staticmethod(lambda: None)  # type: ignore[method-assign]
Config._from_environment_variables = staticmethod(lambda config: config)  # type: ignore[method-assign]
