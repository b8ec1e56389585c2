"""What the last run left is accepted until files are added to it.

A plan cannot know everything that a rewrite leaves. Which rows of a moved file arrive in which partition is known only
afterwards, and so is the size of the files that they become there. If a run did all that its plan contained, a
partition without new files is therefore as planned, whatever it measures now: the next plan for the partition is made
when files are added to it. The table stores under which settings it was accepted. With others, it is measured again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from zlayout.spec.model import LayoutSpec, TableName

PROPERTY = "zlayout.accepted"
_DIGEST_CHARACTERS = 16
_SEPARATOR = "@"


def property_of(table: TableName) -> str:
    """Return the name of the property, of which each branch of a table has its own."""
    return f"{PROPERTY}.{table.branch}" if table.branch else PROPERTY


def acceptance(spec: LayoutSpec) -> str:
    """Return a digest of the settings that decide whether a laid-out partition is rewritten."""
    content = repr((spec.tolerance, spec.where))
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def is_accepted(spec: LayoutSpec, properties: Mapping[str, str]) -> bool:
    """Return whether the last run on a table with these properties accepted it under the settings of the spec."""
    return properties.get(property_of(spec.table)) == acceptance(spec)


def stored(digest: str, commit: int) -> str:
    """Return the value of the property for an acceptance with the last commit of a run; empty for none."""
    return f"{digest}{_SEPARATOR}{commit}" if digest else ""


def in_effect(value: str, live: Collection[int]) -> str:
    """Return the acceptance in the value of the property; empty if the commit that stored it was undone.

    A catalog or a person may return a branch to an older snapshot, and properties of the table stay as they are.

    Args:
        value: The value of the property. An older one names no commit.
        live: The commits that added live files.
    """
    digest, _, commit = value.partition(_SEPARATOR)
    return digest if not commit or (commit.isdecimal() and int(commit) in live) else ""
