"""Accept partitions as the last complete run left them, until files are added to them.

A plan cannot predict everything that a rewrite leaves. Only the rewrite shows to which partitions the rows of a moved
file go, and how large the new files there are. If a run did everything that its plan contained, a partition without new
files is therefore accepted, even if it now exceeds a tolerance. It is measured again when files are added to it. The
table stores a digest of the settings under which it was accepted. With other settings, all partitions are measured
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from zlayout.spec.model import LayoutSpec, TableName

PROPERTY = "zlayout.accepted"
_DIGEST_CHARACTERS = 16
_SEPARATOR = "@"


def property_of(table: TableName) -> str:
    """Return the name of the table property with the acceptance. Each branch of a table has its own property."""
    return f"{PROPERTY}.{table.branch}" if table.branch else PROPERTY


def acceptance(spec: LayoutSpec) -> str:
    """Return the acceptance: a digest of the settings that decide whether a laid-out partition is rewritten."""
    content = repr((spec.tolerance, spec.where))
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def is_accepted(spec: LayoutSpec, properties: Mapping[str, str]) -> bool:
    """Return whether the last run accepted the table under the settings of the spec.

    Args:
        spec: The layout spec.
        properties: The table properties, in which the acceptance is as `in_effect` returns it.
    """
    return properties.get(property_of(spec.table)) == acceptance(spec)


def stored(digest: str, commit: int) -> str:
    """Return the value of the property.

    Args:
        digest: The acceptance; empty to accept nothing, for which the value is empty too.
        commit: The last commit of the run, an Iceberg snapshot id.
    """
    return f"{digest}{_SEPARATOR}{commit}" if digest else ""


def in_effect(value: str, live: Collection[int]) -> str:
    """Return the acceptance that is stored in the property; empty if its run was undone.

    A catalog or a user may set a branch back to an older snapshot. This does not change the table properties.

    Args:
        value: The value of the property. Older versions of zlayout stored no commit in it.
        live: The commits that added live files.
    """
    digest, _, commit = value.partition(_SEPARATOR)
    return digest if not commit or (commit.isdecimal() and int(commit) in live) else ""
