"""Projects in a Git repository with Delta tables: `main` has one commit, and the working tree is a branch of it."""

import subprocess
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
from deltalake import write_deltalake

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, type: path, warehouse: ./tables}
"""
COMMITTER = {"GIT_AUTHOR_DATE": "2026-11-01T12:00:00Z", "GIT_COMMITTER_DATE": "2026-11-01T12:00:00Z"}


class GitProject:
    """A project below `root`, which is the top of a repository."""

    def __init__(self, root: Path, project: str = PROJECT, **layouts: str) -> None:
        """Write zlayout.yaml and layouts, by the name of their file, commit them to main, and check out a branch."""
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write(**{"zlayout.yaml": project, ".gitignore": "/tables\n"})
        for name, text in layouts.items():
            self.layout(name, text)
        self.commit()
        self.git("checkout", "--quiet", "-b", "change")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgSign=false")
        command = ["git", *identity, "-C", str(self.root), *arguments]
        environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self.root), **COMMITTER}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def layout(self, name: str, text: str) -> None:
        """Write layouts/NAME.yaml: a layout spec without `version`."""
        self.write(**{f"layouts/{name}.yaml": f"version: 1\n{dedent(text)}"})

    def remove(self, name: str) -> None:
        (self.root / "layouts" / f"{name}.yaml").unlink()

    def table(self, name: str, rows: pa.Table, files: int = 2) -> None:
        """Write a Delta table of the catalog `lake`, by the name of its folder, with equal files."""
        for _ in range(files):
            write_deltalake(str(self.root / "tables" / name), rows, mode="append")
