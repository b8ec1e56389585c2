"""Build the documentation site into build/docs/site and check every link in it.

The pages of docs/ are staged under build/docs/pages, together with files of the repository's root and with reference
pages that are generated from the JSON Schemas, the Typer application and the public API. zensical builds them strictly
(docs/adr/0013-docs-site.md), and the links of the built pages are checked without a network.

Run it with `make docs`.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from lxml import html

import zlayout
from zlayout.spec.check import load_schema

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "docs"
PAGES, SITE = BUILD / "pages", BUILD / "site"
BIN = Path(sys.executable).parent
# Pages of the site that are files of the repository's root.
ROOT_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# Programs that are shown on one page, since the site does not hold their files.
PROGRAMS = ("live_session.py", "orchestrators/airflow_dag.py", "orchestrators/dagster_job.py")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")


class BrokenLink(Exception):
    """A link of a page whose target does not exist."""


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    stage()
    command = [str(BIN / "zensical"), "build", "--strict", "--clean", "--config-file", str(BUILD / "mkdocs.yml")]
    done = subprocess.run(command, cwd=BUILD, env={**os.environ, "NO_COLOR": "1"}, check=False)
    if done.returncode:
        return done.returncode
    broken = sorted(broken_links(SITE))
    sys.stderr.writelines(f"{page}: broken link {target}\n" for page, target in broken)
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}")  # noqa: T201
    return 1 if broken else 0


def stage() -> None:
    """Write the site's configuration and all of its pages under build/docs."""
    staged = {ROOT / name: page for name, page in ROOT_PAGES.items()}
    staged |= {path: str(path.relative_to(ROOT / "docs")) for path in sorted((ROOT / "docs").rglob("*.md"))}
    programs = {ROOT / "examples" / name: "python-examples.md" for name in PROGRAMS}
    write("python-examples.md", "\n".join(["# Python examples\n", *(program_section(source) for source in programs)]))
    for source, page in staged.items():
        write(page, with_site_links(source, source.read_text(), page, staged | programs))
    shutil.copytree(ROOT / "docs" / "pictures", PAGES / "pictures", ignore=shutil.ignore_patterns("*.py"))
    for name in ("layout", "project"):
        write(f"{name}-keys.md", "\n".join(schema_page(name)))
    write("cli.md", command_line_page())
    write("api.md", api_page())
    config = (ROOT / "docs" / "mkdocs.yml").read_text()
    decisions = sorted(page for page in staged.values() if page.startswith("adr/"))
    (BUILD / "mkdocs.yml").write_text(config.replace("adr/*", f"\n{' ' * 10}- ".join(decisions)))


def write(page: str, text: str) -> None:
    path = PAGES / page
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_site_links(source: Path, text: str, page: str, staged: Mapping[Path, str]) -> str:
    """The text of a page with links between repository files replaced by links between pages.

    A link to a file that is no page becomes its text, since the site does not hold the file.

    Args:
        source: The file in the repository.
        text: Its Markdown.
        page: Its path in the site.
        staged: The page of each repository file that has one.

    Raises:
        BrokenLink: A relative link leads to no file.
    """

    def replaced(link: re.Match[str]) -> str:
        url = urlsplit(link["target"])
        if url.scheme or not url.path:
            return link[0]
        target = (source.parent / unquote(url.path)).resolve()
        if not target.exists():
            raise BrokenLink(f"{source.relative_to(ROOT)}: broken link {link['target']}")
        if target in staged:
            relative = os.path.relpath(staged[target], Path(page).parent)
            return f"[{link['text']}]({relative}{'#' + url.fragment if url.fragment else ''})"
        return link[0] if link["image"] else link["text"]

    fenced = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in fenced)


def program_section(source: Path) -> str:
    """A program as a section of a page."""
    return f"## {source.name}\n\n```python\n{source.read_text()}```\n"


def schema_page(name: str) -> Iterator[str]:
    """The keys of a layout or project file as Markdown, from the JSON Schema."""
    schema = load_schema(name)
    file = "zlayout.yaml" if name == "project" else "a layout spec"
    yield f"# Keys of {file}\n"
    yield f"{schema['description']} Generated from `schemas/v1/{name}.schema.json`.\n"
    for key, rule in _keys(schema, schema, ""):
        yield f"## `{key}`\n"
        yield f"{rule.get('description', '')}\n"
        facts = {"value": rule.get("title"), "one of": rule.get("enum"), "default": rule.get("default")}
        for fact, value in facts.items():
            if value is not None:
                shown = value if fact == "value" else f"`{json.dumps(value)}`"
                yield f"- {fact}: {shown}"
        for example in rule.get("examples", ()):
            yield "\n```yaml"
            yield yaml.safe_dump({key.rpartition(".")[2]: example}, sort_keys=False, allow_unicode=True).rstrip()
            yield "```"
        yield ""


def _keys(schema: Mapping[str, Any], node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted key, rule) of every property below a schema node; a key with any name is written NAME."""
    properties = dict(node.get("properties", {}))
    if isinstance(extra := node.get("additionalProperties"), dict):
        properties["NAME"] = extra
    for key, rule in properties.items():
        if "$ref" in rule:
            rule = schema["definitions"][rule["$ref"].rpartition("/")[2]] | {
                k: v for k, v in rule.items() if k != "$ref"
            }
        yield f"{prefix}{key}", rule
        yield from _keys(schema, rule, f"{prefix}{key}.")


def command_line_page() -> str:
    """All commands, options and arguments as Markdown, by Typer itself."""
    command = [sys.executable, "-m", "typer", "zlayout.cli.app", "utils", "docs", "--name", "zlayout"]
    command += ["--title", "Command line"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def api_page() -> str:
    """The public names of the package, functions first and errors last, documented by mkdocstrings."""
    text = "# Python API\n\nEverything that `import zlayout` offers. Other modules may change at any time.\n"
    sections: dict[str, list[str]] = {"Functions": [], "Types": [], "Errors": []}
    for name in (name for name in zlayout.__all__ if not name.startswith("_")):
        value = getattr(zlayout, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        sections["Functions" if inspect.isfunction(value) else "Errors" if is_error else "Types"].append(name)
    for title, names in sections.items():
        text += f"\n## {title}\n\n" + "\n".join(f"::: zlayout.{name}\n" for name in names)
    return text


def broken_links(site: Path) -> Iterator[tuple[str, str]]:
    """(page, target) of every relative link, image or script of the site whose file or anchor does not exist."""
    trees = {path.resolve(): html.parse(str(path)) for path in site.rglob("*.html")}
    anchors = {path: set(tree.xpath("//@id | //a/@name")) for path, tree in trees.items()}
    for path, tree in trees.items():
        for target in sorted(set(tree.xpath("//@href | //@src"))):
            url = urlsplit(target)
            if url.scheme or url.netloc or path.name == "404.html":
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            file = file / "index.html" if file.is_dir() else file
            found = file.exists() and (not url.fragment or file not in anchors or url.fragment in anchors[file])
            if not found:
                yield str(path.relative_to(site.resolve())), target


if __name__ == "__main__":
    sys.exit(main())
