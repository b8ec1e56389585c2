"""Provides Iceberg's Java API through py4j, and describes how it reports that a commit failed.

One call through py4j takes up to a millisecond. Therefore `ContentFiles.java` does in the JVM what would take several
calls for each file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, partial
from importlib.resources import files as resources
from math import isnan
from random import uniform
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import CommitConflict, Refused
from zlayout.formats.iceberg.read.schema import argument, iceberg_name, transform_name
from zlayout.formats.iceberg.read.server import FILE_IO, Declared, require_harmless, require_hosts, require_location
from zlayout.formats.iceberg.read.support import LOCATION_PROVIDER, class_refusals
from zlayout.formats.kernel import outcome
from zlayout.formats.kernel.commits import BusyTable
from zlayout.formats.kernel.execute import COMPILER, PLACEMENT, Internals
from zlayout.formats.kernel.outcome import Failures, java_causes, settled
from zlayout.formats.undo import MAX_CONCURRENT_REQUESTS
from zlayout.spark.arrow import SEPARATOR, from_bytes, parts, texts, to_bytes
from zlayout.spark.jvm import find_class, java_list, java_map, java_object, jvm_of, strings_of
from zlayout.spec.model import TableName
from zlayout.table.state import Int64, Partition, PartitionField

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONTENT_FILES = "io.zlayout.iceberg.ContentFiles"
_ROOTS = ("s3", "gs")  # the prefixes of the clients without credentials
_EXCEPTIONS = "org.apache.iceberg.exceptions"


_REFUSALS = frozenset(f"{_EXCEPTIONS}.{name}" for name in ("ForbiddenException", "NotAuthorizedException"))
_SENT_ONCE = "SDK Attempt Count: 1)"  # in the messages of AWS SDK 2


def refused_by_catalog(error: Exception) -> bool:
    """Return whether the catalog refused a commit for want of a permission.

    The request must have been sent once: the first of several may have made the commit. The client of REST catalogs
    repeats a request only after the statuses 429 and 503, which state that it was not processed.
    """
    refusal = next(java_causes(error), None)
    if refusal is None or str(refusal.getClass().getName()) not in _REFUSALS:
        return False
    cause = refusal.getCause()
    return cause is None or _SENT_ONCE in str(cause.getMessage())


FAILURES = Failures(
    # REST catalogs on Iceberg before 1.11 report a stale sequence number as status 400 (BadRequestException).
    conflicts=frozenset(
        f"{_EXCEPTIONS}.{name}" for name in ("ValidationException", "CommitFailedException", "BadRequestException")
    ),
    history="the summaries of the table's snapshots (zlayout.run)",
    unknown=frozenset({f"{_EXCEPTIONS}.CommitStateUnknownException"}),
    unsent=refused_by_catalog,
    hints={
        "token has expired": "the credentials expired during the rewrite: configure the catalog to return an endpoint "
        "that renews them, or set a smaller files.max_group_size",
        "Missing required field": "older files lack the column, which must not be null: write its values by UPDATE or "
        "MERGE, or ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL",
        "No FileSystem for scheme": "declare the storage of the table in warehouse or storage of its catalog, so that "
        "Spark gets the jars; with spark-submit, name the jars",
    },
)

Field = Literal["bytes", "rows", "data sequence number", "file sequence number"]
# The methods that commits need, for the check of the session before any write.
_ICEBERG = "org.apache.iceberg"


def calls_of(by_class: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the methods of Iceberg's classes with the full names of the classes. by_class: separated by spaces."""
    return {f"{_ICEBERG}.{name}": tuple(methods.split()) for name, methods in by_class.items()}


_SHARED = {
    "spark.Spark3Util": "catalogAndIdentifier/2 toIcebergTable/1",
    "spark.actions.SparkActions": "get/1 rewriteDataFiles/1",
    "Transaction": "updateProperties/0 commitTransaction/0",
    "TableMetadataParser": "toJson/1",
}
_ENGINE = {
    "spark.SparkTableCache": "get/0 add/2 remove/1",
    "spark.ScanTaskSetManager": "get/0 stageTasks/3 removeTasks/2",
    "spark.FileRewriteCoordinator": "get/0 fetchNewFiles/2 clearRewrite/2",
    "Snapshot": "summary/0 removedDeleteFiles/1",
    "RewriteFiles": "validateFromSnapshot/1 dataSequenceNumber/1 addFile/1 deleteFile/1 toBranch/1",
    "util.SnapshotUtil": "isAncestorOf/3",
    # the methods that `ContentFiles.java` calls, against which it is compiled
    "ContentFile": "content/0 location/0 recordCount/0 fileSizeInBytes/0 nullValueCounts/0 lowerBounds/0 upperBounds/0 "
    "dataSequenceNumber/0 fileSequenceNumber/0 copyWithoutStats/0",
    "DeleteFile": "contentOffset/0",
    "GenericDataFile": "copy/0 setFirstRowId/1 setDataSequenceNumber/1 setFileSequenceNumber/1",
    "FileScanTask": "file/0 deletes/0",
    "BaseFileScanTask": "new/5",
    "ContentFileParser": "toJson/2",
    "util.ContentFileUtil": "isDV/1 isFileScoped/1",
    "util.Tasks": "range/1",
    "util.Tasks$Builder": "executeWith/1 stopOnFailure/0 run/1",
    "io.InputFile": "exists/0 getLength/0",
}
INTERNALS = Internals(
    name="Iceberg",
    package=lambda release: release.iceberg_package,
    tested=frozenset({"1.10", "1.11", "1.12"}),
    marker=f"{_ICEBERG}.IcebergBuild",
    version=lambda jvm: jvm.org.apache.iceberg.IcebergBuild.version(),
    shared=calls_of(_SHARED),
    engine={**calls_of(_ENGINE), **COMPILER, **PLACEMENT},
    # Iceberg recognizes staged files by one of these (see `write.staging`). With neither, a write would append them.
    either=(
        calls_of({"spark.source.SparkRewriteTable": ""}),
        calls_of({"spark.SparkReadConf": "scanTaskSetId/0", "spark.SparkWriteConf": "rewrittenFileSetId/0"}),
    ),
)


class IcebergJvm:
    """The JVM of a Spark session. Values of type Any are py4j references to Java objects."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jsession: Any = session
        self.session = session
        self.gateway = context._gateway
        self.root = jvm_of(session)
        self.java: Any = self.root.java
        self.iceberg: Any = self.root.org.apache.iceberg
        self.jsession = jsession._jsparkSession
        self._catalogs: dict[str, Declared] = {}

    @cached_property
    def content(self) -> ContentFiles:
        """Operations on many files. Engine native does not need them."""
        return ContentFiles(self.session)

    def load(self, name: TableName) -> Any:
        """Load the Java table with its current metadata. Every call reads the catalog again.

        Iceberg's Java library obeys the properties that the server of a catalog sends. Therefore each loaded table is
        checked before it is used.

        Raises:
            TableError: ZL137 and ZL138, as `iceberg.read.server` raises them.
            Refused: ZL243, if the table names a class.
        """
        util, parts = self.iceberg.spark.Spark3Util, self.list([name.catalog, *name.identifier])
        with java_errors(f"loading {name}"):
            # Without this, an error of the catalog itself would be replaced by one that speaks of another catalog.
            self.jsession.sessionState().catalogManager().catalog(name.catalog)
            found = util.catalogAndIdentifier(self.jsession, parts)
            table = util.toIcebergTable(found.catalog().loadTable(found.identifier()))
            declared = self._declared(name.catalog)
            location = str(table.location())
            class_name, access = self._access(table, location)
            names_class = table.properties().containsKey(LOCATION_PROVIDER)
        if names_class:
            raise Refused(*class_refusals({LOCATION_PROVIDER: ""}))
        if class_name not in FILE_IO and class_name != declared.properties.get("io-impl"):
            access.append({"io-impl": class_name})
        for properties in access:
            sent = {key: value for key, value in properties.items() if not _is_declared(declared, key, value)}
            require_harmless(declared, sent)
            require_hosts(declared, sent)
        require_location(declared, location, f"the location of {name} has")
        return table

    def _access(self, table: Any, location: str) -> tuple[str, list[dict[str, str]]]:
        """Return the class that accesses the files of a table at this location, and the properties of its clients."""
        io = table.io()
        properties = strings_of(self.root, io.properties())
        given = io.credentials() if self._has_credentials(io) else ()
        credentials = [(str(one.prefix()), strings_of(self.root, one.config())) for one in given]
        return str(io.getClass().getName()).partition("$")[0], of_clients(properties, credentials, location)

    def _has_credentials(self, io: Any) -> bool:
        found = find_class(self.root, "org.apache.iceberg.io.SupportsStorageCredentials")  # not in old versions
        return found is not None and bool(found.isInstance(io))

    def _declared(self, catalog: str) -> Declared:
        if catalog not in self._catalogs:
            prefix = f"spark.sql.catalog.{catalog}."
            conf = strings_of(self.root, java_map(self.root, self.jsession.sessionState().conf().getAllConfs()))
            own = {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}
            self._catalogs[catalog] = Declared(catalog, own)
        return self._catalogs[catalog]

    def strings(self, values: list[str]) -> Any:
        """Return a Java String[], which is needed for variable arguments."""
        array = self.gateway.new_array(self.java.lang.String, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def list(self, values: list[Any]) -> Any:
        """See `zlayout.spark.jvm.java_list`."""
        return java_list(self.root, values)


def of_clients(
    properties: dict[str, str], credentials: Sequence[tuple[str, dict[str, str]]], location: str
) -> list[dict[str, str]]:
    """Return the properties of each client of a FileIO.

    There is a client for each credential, and one without credentials, unless a credential replaces it.

    Args:
        properties: The properties of the FileIO.
        credentials: For each credential, the prefix of the locations that it is for, and its properties.
        location: The location of the table.
    """
    is_replaced = any(prefix in _ROOTS and location.startswith(prefix) for prefix, _ in credentials)
    return [*([] if is_replaced else [properties]), *(properties | config for _, config in credentials)]


def _is_declared(declared: Declared, key: str, value: str) -> bool:
    """Return whether a property has the declared value. Iceberg replaces `env:NAME` by the value of a variable."""
    own = declared.properties.get(key)
    return own is not None and (own == value or own.startswith("env:"))


def java_errors(doing: str) -> AbstractContextManager[None]:
    """Translate the errors of Spark and Iceberg that the block raises. See `kernel.outcome.translated`."""
    return outcome.java_errors(doing, FAILURES)


class ContentFiles:
    """Operations on java.util.Lists of DataFile (`files`) and of FileScanTask (`tasks`), which are py4j references."""

    def __init__(self, session: SparkSession) -> None:
        """Compile the Java class, once for each application."""
        source = resources(__package__).joinpath("ContentFiles.java").read_text(encoding="utf-8")
        self._java = java_object(session, _CONTENT_FILES, source)
        self._jvm = jvm_of(session)

    def tasks(self, scan: Any, paths: pa.Array) -> Any:
        """Return the scan task of each path, null for a path that the scan does not have, and close the scan.

        Java raises IllegalArgumentException if a path is a duplicate, in `paths` or in the scan.

        Args:
            scan: A CloseableIterable of scan tasks of whole files.
            paths: string[paths].
        """
        return self._java.tasks(scan, self._strings(paths))

    def missing(self, tasks: Any) -> int:
        """Return the number of paths without a scan task."""
        return int(self._jvm.java.util.Collections.frequency(tasks, None))

    def files(self, tasks: Any) -> Any:
        """Return the data file of each task."""
        return self._java.files(tasks)

    def same_deletes(self, before: Any, after: Any) -> NDArray[np.bool_]:
        """Return for each path whether both lists have a task with the same delete files: bool[paths]."""
        return from_bytes(self._java.sameDeletes(before, after)).astype(np.bool_)

    def same_sequence_numbers(self, before: Any, after: Any) -> bool:
        """Return whether the data files of two lists of tasks have the same data and file sequence numbers."""
        old, now = self.files(before), self.files(after)
        fields: tuple[Field, ...] = ("data sequence number", "file sequence number")
        return all(np.array_equal(self.numbers(old, field), self.numbers(now, field)) for field in fields)

    def newest_equality_delete(self, deletes: Any) -> int:
        """Return the highest data sequence number of the equality deletes among delete files; 0 without any.

        deletes: An Iterable of DeleteFile.
        """
        return int(self._java.newestEqualityDelete(deletes))

    def have_only_vectors(self, tasks: Any) -> bool:
        """Return whether all delete files of the tasks are deletion vectors."""
        return bool(self._java.hasOnlyVectors(tasks))

    def select(self, items: Any, at: Int64) -> Any:
        """Return a list of the files or tasks at these positions."""
        return self._java.select(items, to_bytes(at))

    def paths(self, files: Any) -> pa.Array:
        """Return the paths of the files: string[files]."""
        return texts(partial(self._java.paths, files), len(files))

    def numbers(self, files: Any, field: Field) -> Int64:
        """Return one number of each file: int64[files].

        Sequence numbers exist for live files only. A file sequence number is -1 if it is unknown.
        """
        return from_bytes(self._java.numbers(files, field))

    def documents(self, files: Any, spec: Any) -> list[str]:
        """Return each file as JSON without statistics. spec: the Java partition spec of all these files."""
        return list(texts(partial(self._java.documents, files, spec), len(files)).to_pylist())

    def null_counts(self, files: Any, field_id: int) -> Int64:
        """Return the null counts of a column, -1 where unknown: int64[files]."""
        return from_bytes(self._java.nullCounts(files, field_id))

    def bounds(self, files: Any, field_id: int, *, upper: bool) -> list[bytes | None]:
        """Return the serialized lower or upper bound of a column in each file, None where there is none."""
        content, count = self._java.bounds(files, field_id, upper), len(files)
        lengths = from_bytes(content[: 8 * count])
        ends = 8 * count + np.cumsum(np.maximum(lengths, 0))
        return [
            None if length < 0 else content[end - length : end]
            for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
        ]

    def new_tasks(self, files: Any, schema: str, spec: str, residuals: Any, *, row_ids: bool) -> Any:
        """Return scan tasks that read the rows of new files.

        Args:
            schema: The schema of the table as JSON.
            spec: The partition spec of the files as JSON.
            residuals: A Java ResidualEvaluator.
            row_ids: Whether to read the row ids that the files contain.
        """
        return self._java.newTasks(files, row_ids, schema, spec, residuals)

    def replace(self, change: Any, removed: Any, added: Any, *, deletes: bool) -> None:
        """Add to a Java RewriteFiles the removal of the tasks' files, and the added files.

        Args:
            deletes: Whether to remove also the delete files that apply to a single data file, if it is a removed one.
        """
        self._java.replace(change, removed, added, deletes)

    def stored(self, paths: pa.Array, io: Any) -> Int64:
        """Return the sizes of files on storage, -1 for a file that does not exist. io: a Java FileIO."""
        return from_bytes(self._java.stored(self._strings(paths), io, MAX_CONCURRENT_REQUESTS))

    def _strings(self, values: pa.Array) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for start, end in parts(pc.binary_length(values).cast(pa.int64()).to_numpy(zero_copy_only=False)):
            self._java.split(SEPARATOR.join(values[start:end].to_pylist()), listed)
        if len(listed) != len(values):
            raise ValueError("a path contains the character 0")
        return listed


# Converts partitions to Iceberg expressions.


def keeps_sequence_number(snapshot: Any, partitions: Iterable[Partition], spec_id: int) -> bool:
    """Return whether the new files of a rewrite get the data sequence number of the snapshot that it has read.

    Equality deletes that are committed meanwhile then apply to the new files, as to the old ones. With a new number,
    Iceberg reports them as a conflict, which suffices in two cases:
    - The table has no equality deletes. To keep the number, a commit needs a check and a compare-and-set.
    - The rewrite changes the partition spec. An equality delete applies to files of its own spec and partition, or to
      all files if its spec has no fields, so that other ones apply to rows that move to files of another spec.

    Args:
        snapshot: The Java snapshot.
        partitions: The partitions that are rewritten.
        spec_id: The partition spec of the new files.
    """
    has_deletes = snapshot.summary().get("total-equality-deletes") != "0"  # perhaps, if the writer has not counted them
    return has_deletes and all(partition.spec_id == spec_id for partition in partitions)


def partition_filter(jvm: IcebergJvm, chosen: Sequence[Partition]) -> Any:
    """Return an Iceberg expression that selects the files of these partitions. See
    `zlayout.formats.iceberg.read.support.selected` for other files."""
    make = jvm.iceberg.expressions.Expressions
    by_fields: dict[tuple[PartitionField, ...], list[tuple[Any, ...]]] = {}
    for partition in chosen:
        by_fields.setdefault(partition.fields, []).append(partition.values)
    return _any_of(make, [_for_spec(jvm, fields, rows) for fields, rows in by_fields.items()])


def _for_spec(jvm: IcebergJvm, fields: tuple[PartitionField, ...], rows: list[tuple[Any, ...]]) -> Any:
    make = jvm.iceberg.expressions.Expressions
    if not fields:
        return make.alwaysTrue()
    needed = without_derived(fields)
    if len(needed) == 1:
        return _any_of(make, _one_field(jvm, fields[needed[0]], list({row[needed[0]]: None for row in rows})))
    return _any_of(make, [_all_equal(jvm, [(fields[i], row[i]) for i in needed]) for row in rows])


def without_derived(fields: tuple[PartitionField, ...]) -> list[int]:
    """Return the positions of the fields without transforms of an identity field, whose condition is redundant."""
    # Iceberg (1.12) would compare the result of the transform with the plain value.
    plain = {f.source for f in fields if f.transform == "identity"}
    return [i for i, f in enumerate(fields) if f.transform == "identity" or f.source not in plain]


def _one_field(jvm: IcebergJvm, field: PartitionField, values: list[Any]) -> list[Any]:
    make = jvm.iceberg.expressions.Expressions
    key = term(jvm, field)
    comparable = [v for v in values if v is not None and not _is_nan(v)]
    parts = [_equal(jvm, key, v) for v in values if v is None or _is_nan(v)]
    if comparable:
        parts.append(getattr(make, "in")(key, jvm.list([_java_value(jvm, v) for v in comparable])))
    return parts


def _all_equal(jvm: IcebergJvm, keys: list[tuple[PartitionField, Any]]) -> Any:
    make = jvm.iceberg.expressions.Expressions
    whole = make.alwaysTrue()
    for field, value in keys:
        whole = getattr(make, "and")(whole, _equal(jvm, term(jvm, field), value))
    return whole


def _equal(jvm: IcebergJvm, key: Any, value: Any) -> Any:
    """Return an expression for the equality of a term and a partition value. Iceberg has no literals for NaN."""
    make = jvm.iceberg.expressions.Expressions
    if value is None:
        return make.isNull(key)
    return make.isNaN(key) if _is_nan(value) else make.equal(key, _java_value(jvm, value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _any_of(make: Any, parts: list[Any]) -> Any:
    """Return the OR of all parts as a balanced tree, so that the depth is logarithmic in the number of partitions."""
    if not parts:
        return make.alwaysFalse()
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [getattr(make, "or")(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def term(jvm: IcebergJvm, field: PartitionField) -> Any:
    """Return a partition field as an Iceberg term: a reference to its source, or a transform of it."""
    name, width = transform_name(field), argument(field)
    make = getattr(jvm.iceberg.expressions.Expressions, "ref" if name == "identity" else name)
    source = iceberg_name(field.source)
    return make(source) if width is None else make(source, width)


def _java_value(jvm: IcebergJvm, value: Any) -> Any:
    """Return a literal that Iceberg can convert to the column's type. It parses dates and decimals from strings."""
    if isinstance(value, (date, datetime, Decimal)):
        return value.isoformat() if isinstance(value, date) else str(value)
    return jvm.java.nio.ByteBuffer.wrap(value) if isinstance(value, bytes) else value


# Prepares a commit from the newest metadata of a table, sends it, and settles its outcome.
#
# Rewrites by engine zlayout, layout records, trials and rollbacks are committed here. `Transaction.commitTransaction`
# applies a transaction again to metadata that another commit has changed, after Iceberg's own validation. Where that
# does not suffice, the commit succeeds only if the metadata is unchanged (compare and set), mostly by a `Swap`.


MAX_ATTEMPTS = 8  # to send a swap while other commits are made
Made = TypeVar("Made")
# A function that sends a commit, and the result if the commit succeeds.
Prepared = tuple[Callable[[], object], Made]


@dataclass(frozen=True, slots=True)
class Swap:
    """A Java transaction that is committed only if the table still has the metadata `base` (compare and set).

    Iceberg's own retry applies the change to newer metadata. If the branch was dropped there, the retry would create it
    again, as a copy of main.
    A REST catalog compares only the id of the table and the branches that the commit sets.
    """

    operations: Any
    base: Any
    transaction: Any

    @classmethod
    def of(cls, table: Any) -> Swap:
        """Start a transaction on the newest metadata of a Java table."""
        transaction, operations = table.newTransaction(), table.operations()
        return cls(operations, operations.current(), transaction)

    @property
    def wanted(self) -> Any:
        """The Java metadata with the changes that were made in the transaction."""
        return self.transaction.table().operations().current()

    def commitTransaction(self) -> None:
        self.operations.commit(self.base, self.wanted)


def commit_prepared(
    doing: str,
    prepare: Callable[[], Prepared[Made]],
    look: Callable[[Made], Made | None],
    *,
    attempts: int = 1,
    pause: float = 0.0,
    failures: Failures = FAILURES,
) -> Made:
    """Prepare a commit, send it, and settle its outcome. Return the result that belongs to the commit.

    Args:
        doing: The operation, the table and the run, for messages.
        prepare: Reads and checks the table, and prepares the commit. Sends nothing. A conflict that it
            raises ends the attempts.
        look: Reads the table again after an error. Returns the result, None if the commit is not in the table.
        attempts: How often the commit is prepared and sent if another commit succeeds first each time.
        pause: The mean pause before the third attempt and each further one, in seconds.
        failures: How Iceberg reports failures, and where the commit would be recorded.

    Raises:
        CommitConflict: ZL321, if another commit succeeded first. BusyTable after several attempts.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    attempt = 1
    while True:
        with java_errors(doing):
            send, made = prepare()
        try:
            return _sent(doing, send, made, look, failures)
        except CommitConflict as conflict:
            if attempts == 1:
                raise
            if attempt == attempts:
                raise BusyTable(*conflict.diagnostics) from conflict
        if attempt > 1:  # one other commit may be a conflict, which the next attempt finds
            time.sleep(uniform(0.5, 1.5) * pause)
        attempt += 1


def _sent(
    doing: str, send: Callable[[], object], made: Made, look: Callable[[Made], Made | None], failures: Failures
) -> Made:
    def commit() -> Made:
        send()
        return made

    return settled(doing, commit, lambda: look(made), failures)
