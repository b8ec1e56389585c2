"""The requirements of a plan: conditions that must hold when it is applied, and the function that checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from zlayout.planner.fields import BY_KIND
from zlayout.table.location import canonical


@dataclass(frozen=True, slots=True)
class TableIs:
    """The table has this id, so it was not dropped and created again."""

    table_id: str
    """The id of the table in its metadata."""
    kind: Literal["table_is"] = "table_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class LocationIs:
    """The catalog states this location for the table's name. Only for Delta tables by name."""

    location: str
    """The storage location of the table."""
    kind: Literal["location_is"] = "location_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class BranchIs:
    """The plan is applied to this branch. Only for plans of a branch other than main."""

    branch: str
    """The name of the branch."""
    kind: Literal["branch_is"] = "branch_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class VersionIs:
    """The table or branch is at this version. Appends after it are accepted unless `apply --stale strict` is given."""

    version: int
    """The Delta version or the id of the Iceberg snapshot; -1 for a table without a snapshot."""
    kind: Literal["version_is"] = "version_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class SchemaIs:
    """The schema of the table has this digest."""

    digest: str
    """The digest of the schema."""
    kind: Literal["schema_is"] = "schema_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class LayoutIs:
    """The layout spec has this layout id."""

    layout_id: str
    """The layout id."""
    kind: Literal["layout_is"] = "layout_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class PartitioningIs:
    """The table is partitioned by these keys."""

    fields: tuple[str, ...]
    """The partition keys as text."""
    kind: Literal["partitioning_is"] = "partitioning_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class ClusteringIs:
    """The format clusters the table by these columns. Only for tables with the table feature for clustering."""

    columns: tuple[str, ...]
    """The clustering columns; empty after CLUSTER BY NONE."""
    kind: Literal["clustering_is"] = "clustering_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class PropertyIs:
    """The table property has this value."""

    name: str
    """The name of the property."""
    value: str | None
    """The value; null if the property is not set."""
    kind: Literal["property_is"] = "property_is"
    """The kind of requirement."""


@dataclass(frozen=True, slots=True)
class FilesAre:
    """The group to rewrite consists of the files with this digest."""

    group: str
    """The id of the group."""
    digest: str
    """The digest of the files."""
    kind: Literal["files_are"] = "files_are"
    """The kind of requirement."""


Requirement = Annotated[
    TableIs
    | LocationIs
    | BranchIs
    | VersionIs
    | SchemaIs
    | LayoutIs
    | PartitioningIs
    | ClusteringIs
    | PropertyIs
    | FilesAre,
    BY_KIND,
]


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed facts that requirements are compared with. A fact that is None is unknown and not checked.

    Attributes:
        schema: The digest of the schema.
        layout_id: The layout id of the layout spec.
        partitioning: The partition keys as text.
        properties: The table properties.
        files: By group id, the digest of the files of each group.
        clustering: The clustering columns; empty if the format does not cluster the table.
        branch: The branch that the plan is applied to; empty for main.
    """

    table_id: str | None = None
    version: int | None = None
    schema: str | None = None
    layout_id: str | None = None
    partitioning: tuple[str, ...] | None = None
    properties: Mapping[str, str] | None = None
    files: Mapping[str, str] | None = None
    location: str | None = None
    clustering: tuple[str, ...] | None = None
    branch: str | None = None


def planned_clustering(requirements: Iterable[Requirement]) -> ClusteringIs:
    """Return the requirement on the clustering columns. A plan without one requires that there are none."""
    return next((r for r in requirements if isinstance(r, ClusteringIs)), ClusteringIs(()))


def violated(
    requirements: Iterable[Requirement], observed: Observed, reached: Iterable[Requirement] = ()
) -> tuple[Requirement, ...]:
    """Compare requirements with observed facts.

    Args:
        requirements: The conditions that must hold.
        observed: The present facts.
        reached: Conditions that hold after the plan is carried out. A requirement also counts as met if one of them
            concerns the same fact and already holds, because no change is needed then.

    Returns:
        The requirements that are not met, in order; empty if all are met.
    """
    reached = tuple(reached)
    return tuple(
        requirement
        for requirement in requirements
        if not _holds(requirement, observed)
        and not any(same_subject(requirement, result) and _holds(result, observed) for result in reached)
    )


def same_subject(one: Requirement, other: Requirement) -> bool:
    """Return whether two requirements concern the same fact. Not for `FilesAre`, of which a plan has several."""
    if isinstance(one, PropertyIs) and isinstance(other, PropertyIs):
        return one.name == other.name
    return one.kind == other.kind


def _holds(requirement: Requirement, observed: Observed) -> bool:
    match requirement:
        case TableIs(table_id):
            return observed.table_id in (None, table_id)
        case LocationIs(location):
            return observed.location is None or canonical(observed.location) == canonical(location)
        case BranchIs(branch):
            return observed.branch in (None, branch)
        case VersionIs(version):
            return observed.version in (None, version)
        case SchemaIs(digest):
            return observed.schema in (None, digest)
        case LayoutIs(layout_id):
            return observed.layout_id in (None, layout_id)
        case PartitioningIs(fields):
            return observed.partitioning in (None, fields)
        case ClusteringIs(columns):
            return observed.clustering in (None, columns)
        case PropertyIs(name, value):
            return observed.properties is None or observed.properties.get(name) == value
        case FilesAre(group, digest):
            return observed.files is None or observed.files.get(group) == digest
