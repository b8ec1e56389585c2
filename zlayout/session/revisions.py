"""The project at another revision, from the objects of its Git repository, and which layouts have changed since then.

Only commands of Git are used that read objects, and none of them runs what the configuration or the files of the
repository name: they use no filter, no hook, no pager and no remote. No file is checked out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from posixpath import dirname, join, normpath
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer
from typing import Any

from zlayout.errors import SpecError, first_line
from zlayout.planner.model import LayoutChange, SettingDrift
from zlayout.predicate.parse import to_sql
from zlayout.reading import open_file, read_at_most
from zlayout.spec.layouts import CURVE_OF_COMPACTION, DEFAULTS, size_in_bytes
from zlayout.spec.load import PROJECT_FILE, Folder, load_project, shown
from zlayout.spec.model import CatalogConfig, Layout, LayoutSpec, Project
from zlayout.spec.yaml import MAX_BYTES, Document, parse
from zlayout.text import escape_unprintable, quote_value

MAX_OUTPUT_BYTES = 128 << 20  # of the names of all files in the folder of the project
MAX_MESSAGE_BYTES = 4096
MAX_TEXT_BYTES = 16 << 20  # of a file whose line ends are converted to compare it
MAX_LINKS, MAX_LINK_BYTES = 10, 4096  # that lead from one file to the next, and the path in one of them
TIMEOUT = 120.0  # seconds, of one command
_CHUNK = 1 << 20
# A checkout can contain the files of a bare repository, whose configuration another person wrote: it is not used.
# An object that is missing in a partial clone is not fetched.
_OPTIONS = ("--no-pager", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SHALLOW = "in GitHub Actions, set fetch-depth: 0 for actions/checkout; in GitLab CI, set GIT_DEPTH: 0; elsewhere, run "


@dataclass(frozen=True, slots=True)
class Revision:
    """A project at the merge base of HEAD with a revision.

    Attributes:
        root: The folder of the project.
        name: The revision as the user wrote it.
        commit: The id of the merge base.
        project: The project at that commit. Paths are those of the working tree; None without `zlayout.yaml`.
        blobs: The id of the content of each file at that commit.
        replaced: Whether HEAD has another `zlayout.yaml` than that commit, and the working tree that of the commit. A
            workflow does so, because a pull request must not choose who receives credentials.
    """

    root: Path
    name: str
    commit: str
    project: Project | None
    blobs: Mapping[Path, str]
    replaced: bool = False

    def file_then(self, path: Path) -> str:
        """Return the name of a file with the beginning of the id of its content at the commit."""
        return self._named(path, self.blobs.get(path, ""))

    def file_now(self, path: Path) -> str:
        """Return the name of a file with the beginning of the id of its content in the working tree."""
        return self._named(path, _content_id(path, self.blobs.get(path, "")))

    def _named(self, path: Path, blob: str) -> str:
        return f"{path.relative_to(self.root)} ({blob[:8]})"

    def __str__(self) -> str:
        return f"{self.commit[:12]}, the merge base with {escape_unprintable(self.name)}"


def read_revision(root: Path, name: str) -> Revision:
    """Read the project in the folder `root` at the merge base of HEAD with the revision `name`.

    Raises:
        SpecError: ZL092, Git cannot be run; ZL093, the folder is in no repository; ZL094, the revision is unknown;
            ZL095, the clone lacks the merge base or its files; ZL096, the project at the merge base is invalid.
    """
    try:
        shallow = _git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except _GitError as error:
        message = f"{shown(root)} is in no Git repository that can be used"
        hint = "use `changed:` in a clone; if another user owns it, run git config --global --add safe.directory DIR"
        raise SpecError.of("ZL093", message, hint=hint, detail=str(error)) from error
    commit = _merge_base(root, name, shallow=shallow)
    folder = _Tree(root, commit)
    project = None
    if folder.exists(root / PROJECT_FILE):
        try:
            project = load_project(root, os.environ, folder)
        except SpecError as error:
            if any(d.code == "ZL095" for d in error.diagnostics):
                raise
            first, *more = error.diagnostics
            others = f", and {len(more)} more" if more else ""
            message = f"the project is invalid at {commit[:12]}, the merge base with {quote_value(name)}"
            hint = "correct it on that branch, or select tables without `changed:`"
            raise SpecError.of("ZL096", f"{message}: {first}{others}", hint=hint) from error
    then = folder.blobs.get(root / PROJECT_FILE, "")
    listed = _git(root, "ls-tree", "-z", "HEAD", PROJECT_FILE).partition(b"\t")[0].decode().split()
    replaced = listed[-1:] != [then] and bool(then) and _content_id(root / PROJECT_FILE, then) == then
    return Revision(root, name, commit, project, folder.blobs, replaced)


def _merge_base(root: Path, name: str, *, shallow: bool) -> str:
    deepen = _SHALLOW + "git fetch --unshallow" if shallow else ""
    try:
        if not name.isprintable():
            raise _GitError("not printable")
        return _git(root, "merge-base", "--end-of-options", "HEAD", name).decode().strip()
    except _GitError as error:
        if error.code == 1:
            message = f"the clone has no common ancestor of HEAD and {quote_value(name)}"
            hint = deepen or "use a revision from which the checked-out branch was made"
            raise SpecError.of("ZL095", message, hint=hint) from error
        hint = "write for example changed:origin/main, or the id of a commit, and fetch the branch before"
        hint += f": {deepen}" if deepen else ""
        message = f"unknown revision {quote_value(name)}"
        raise SpecError.of("ZL094", message, hint=hint, detail=str(error)) from error


class _Tree(Folder):
    """The files of a project in a commit. Links are followed within the folder alone; a link out of it is no file."""

    def __init__(self, root: Path, commit: str) -> None:
        super().__init__(root)
        self._commit = commit

    @cached_property
    def blobs(self) -> dict[Path, str]:
        """The id of the content of each file."""
        files: dict[str, str] = {}
        links: dict[str, str] = {}
        for entry in self._objects("ls-tree", "-r", "-z", self._commit).split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            mode, kind, blob = about.decode().split()
            path = os.fsdecode(name)
            # Git itself writes no such names, but a crafted tree can have them.
            if kind == "blob" and normpath(path) == path and not path.startswith(("/", "../")) and path != "..":
                (links if mode == "120000" else files)[path] = blob
        for path in links:
            target = path
            for _ in range(MAX_LINKS):
                if target not in links:
                    break
                link = self._objects("cat-file", "blob", links[target], limit=MAX_LINK_BYTES)
                target = normpath(join(dirname(target), os.fsdecode(link)))
            if target in files:
                files[path] = files[target]
        return {self.root / path: blob for path, blob in files.items()}

    @cached_property
    def _folders(self) -> dict[Path, dict[str, bool]]:
        found: dict[Path, dict[str, bool]] = {}
        for path in self.blobs:
            below, is_folder = path, False
            while below != self.root:
                known = found.setdefault(below.parent, {})
                if below.name in known:
                    break
                known[below.name] = is_folder
                below, is_folder = below.parent, True
        return found

    def entries(self, folder: Path) -> list[tuple[str, bool]]:
        return list(self._folders.get(folder, {}).items())

    def exists(self, path: Path) -> bool:
        return path in self.blobs or path in self._folders

    def read(self, path: Path) -> Document:
        if path not in self.blobs:
            raise SpecError.of("ZL002", f"{shown(path)}: expected a file, found a folder")
        blob = self.blobs[path]
        with suppress(OSError):  # one process less for each file that is the same in the working tree
            content = read_at_most(path, MAX_BYTES + 1)
            if _blob_id([content], len(content), blob) == blob:
                return parse(content, shown(path))
        return parse(self._objects("cat-file", "blob", blob, limit=MAX_BYTES + 1), shown(path))

    def contains(self, path: Path) -> bool:  # noqa: ARG002 - links have been followed
        return True

    def _objects(self, *arguments: str, limit: int = 0) -> bytes:
        try:
            return _git(self.root, *arguments, limit=limit)
        except _GitError as error:
            message = f"the clone does not have the files of the merge base, {self._commit[:12]}"
            hint = "clone without --filter and --depth: `changed:` fetches nothing"
            raise SpecError.of("ZL095", message, hint=hint, detail=str(error)) from error


def _content_id(path: Path, blob: str) -> str:
    """blob: The id of the content in a commit, '' if it is not there. It is returned if only line ends differ."""
    try:
        with open_file(path) as file:
            found = _blob_id(iter(lambda: file.read(_CHUNK), b""), os.fstat(file.fileno()).st_size, blob)
        if found != blob:
            content = read_at_most(path, MAX_TEXT_BYTES).replace(b"\r\n", b"\n")
            return blob if _blob_id([content], len(content), blob) == blob else found
    except OSError:
        return ""  # the command that reads the file reports the error
    return found


def _blob_id(parts: Iterable[bytes], size: int, like: str) -> str:
    """like: An id of the same repository, whose length shows the algorithm."""
    made = hashlib.new("sha256" if len(like) == hashlib.sha256().digest_size * 2 else "sha1", usedforsecurity=False)
    made.update(b"blob %d\0" % size)
    for part in parts:
        made.update(part)
    return made.hexdigest()


class _GitError(Exception):
    """A command of Git failed. code: its exit code; -1 if its output is too long."""

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code


def _git(root: Path, *arguments: str, limit: int = 0) -> bytes:
    """Return the output, of at most `limit` bytes; 0 for all, up to MAX_OUTPUT_BYTES. Raises SpecError ZL092."""
    command = ["git", *_OPTIONS, "-C", str(root), *arguments]
    hint = "install Git, or select tables without `changed:`"
    try:
        with (
            TemporaryFile() as messages,
            Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=messages, env={**os.environ, **_ENVIRONMENT}) as process,
        ):
            timer = Timer(TIMEOUT, process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                output, most, code = bytearray(), limit or MAX_OUTPUT_BYTES + 1, 0
                while len(output) < most and (part := process.stdout.read(min(_CHUNK, most - len(output)))):
                    output += part
                if len(output) < most:
                    code = process.wait()
            finally:
                timer.cancel()
                process.kill()  # has no effect on a process that has ended
            messages.seek(0)
            said = first_line(messages.read(MAX_MESSAGE_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise SpecError.of("ZL092", f"Git cannot be run: {error.strerror or error}", hint=hint) from error
    if code < 0:
        raise SpecError.of("ZL092", f"Git was stopped, or did not answer within {TIMEOUT:.0f} seconds", hint=hint)
    if len(output) > MAX_OUTPUT_BYTES:
        raise _GitError(f"more than {MAX_OUTPUT_BYTES:,} bytes of names")
    if code:
        raise _GitError(escape_unprintable(said), code)
    return bytes(output)


# Which layouts have changed since a revision.


WorkloadFile = Callable[[Path], str]


def effective_settings(spec: LayoutSpec, workload_file: WorkloadFile) -> dict[str, Any]:
    """Return the values of a layout spec with defaults merged, as JSON values by dotted key.

    The description is left out, and so is the location of the file.

    Args:
        spec: The layout spec.
        workload_file: Returns the name of a workload file together with an id of its content.
    """
    return {
        "rule": spec.rule or None,
        **spec.layout.settings(),
        "files.max_group_size": spec.max_group_size,
        "partition_by": None if spec.partition_by is None else [str(field) for field in spec.partition_by],
        "partition_timezone": spec.partition_timezone or None,
        "where": None if spec.where is None else to_sql(spec.where),
        "where_may_be_empty": spec.where_may_be_empty,
        "ref": spec.ref,
        **{f"tolerance.{measure}": limit for measure, limit in asdict(spec.tolerance).items()},
        "workload": [workload_file(path) for path in spec.workload],
        "tags": list(spec.tags),
        "commit.properties": dict(spec.commit_properties),
    }


def catalog_settings(catalog: CatalogConfig | None) -> dict[str, Any]:
    """Return the keys and values of a catalog. They may hold secrets: show the keys alone."""
    return {} if catalog is None else {"format": catalog.format, "type": catalog.type, **catalog.options}


def layout_change(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    spec: LayoutSpec,
    catalog_before: Mapping[str, Any],
    catalog_after: Mapping[str, Any],
) -> LayoutChange:
    """Return how the layout of one table differs between two revisions.

    Args:
        before: `effective_settings` in the earlier revision; None if the table had no layout.
        after: `effective_settings` in the later revision.
        spec: The layout spec in the later revision.
        catalog_before, catalog_after: `catalog_settings` of the table's catalog in both revisions.
    """
    known = _undeclared(spec) if before is None else before
    settings = tuple(
        SettingDrift(key, None if before is None else before.get(key), after.get(key), spec.location_of(key))
        for key in dict.fromkeys((*after, *(before or ())))
        if known.get(key) != after.get(key)
    )
    keys = () if before is None else {**catalog_before, **catalog_after}
    differing = tuple(key for key in keys if catalog_before.get(key) != catalog_after.get(key))
    return LayoutChange(before is None, settings, differing)


def _undeclared(spec: LayoutSpec) -> dict[str, Any]:
    """Return the settings of a layout that declares nothing. A new layout is described by its other settings."""
    zorder, files = DEFAULTS["zorder"], DEFAULTS["files"]
    size = size_in_bytes(files["target_size"])
    curve, sorted_within = CURVE_OF_COMPACTION, files["sort_within"]
    layout = Layout((), curve, zorder["range_ids"], zorder["noise"], size, sorted_within, "zlayout")
    with_defaults = {
        "zorder.range_ids": zorder["range_ids"],
        "zorder.noise": zorder["noise"],
        "files.sort_within": sorted_within,
    }
    return {**with_defaults, **effective_settings(LayoutSpec(spec.table, layout, spec.location), str)}
