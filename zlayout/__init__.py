"""Declarative table layout: plan and apply the layout of Delta Lake and Apache Iceberg tables.

    import zlayout

    project = zlayout.load_project("path/to/project")
    plan = zlayout.plan(project)
    report = zlayout.apply(plan, spark=spark)

`__init__.pyi` has the names of the public API with their modules, for type checkers too. They are imported when they
are first used, so that `import zlayout` is fast.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

__version__ = "0.2.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_MODULE_OF = {name: module for module, name in re.findall(r"(?m)^from (\S+) import (\w+) as", _STUB)}

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next access does not call this function
    return value


def __dir__() -> list[str]:
    return __all__
