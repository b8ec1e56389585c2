"""Direct layouts to the branch of their tables that a command works on."""

from __future__ import annotations

import re
from dataclasses import replace

from zlayout.app.rules import Declared
from zlayout.errors import Refused, SpecError
from zlayout.formats.registry import FORMATS
from zlayout.message_text import quote_value
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, TableName

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")  # as `ref` in the schema of layouts


def on_branch(project: Project, declared: Declared, branch: str | None) -> Declared:
    """Return the layouts with the branch of each table: `branch`, or the declared one if that is None.

    Tables of a format without branches get the error ZL237, unless the branch is main.

    Raises:
        SpecError: ZL054.
    """
    layouts, errors = [], {}
    for spec in declared.layouts:
        directed = replace(spec, table=table_on(spec.table, spec, branch))
        error = declared.errors.get(spec.table) or _without_branches(project.catalogs[spec.table.catalog], directed)
        if error is not None:
            errors[directed.table] = error
        layouts.append(directed)
    return Declared(tuple(layouts), errors, declared.diagnostics)


def table_on(table: TableName, spec: LayoutSpec | None, branch: str | None) -> TableName:
    """Return the table with the branch `branch`; if that is None, with the one that its layout declares.

    Raises:
        SpecError: ZL054, if `branch` is not the name of a branch.
    """
    if branch is not None and not _NAME.fullmatch(branch):
        message = f"expected the name of a branch, of letters, digits and _ . / -, found {quote_value(branch)}"
        raise SpecError.of("ZL054", message, hint="give --branch NAME, or leave it out for the branch of the layout")
    return table.on(branch if branch is not None else spec.ref if spec is not None else "")


def require_branches(catalog: CatalogConfig, table: TableName) -> None:
    """Check that the format of a table has branches, if the table is on one.

    Raises:
        Refused: ZL237.
    """
    traits = FORMATS[catalog.format].traits
    if table.branch and not traits.branches:
        raise Refused.of(
            "ZL237",
            f"{table.on('')}: {traits.title} tables have no branch {quote_value(table.branch)}",
            hint="leave out the table, or --branch and ref",
        )


def _without_branches(catalog: CatalogConfig, spec: LayoutSpec) -> Refused | None:
    try:
        require_branches(catalog, spec.table)
    except Refused as error:
        return error
    return None
