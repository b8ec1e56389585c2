"""The documentation site builds strictly, has no broken link, and its tutorial works."""

import importlib.util
import os
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
from support.environments import BIN, ROOT, run

import zlayout

PULL_REQUESTS = (ROOT / "docs/pull-requests.md").read_text()
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs/build_site.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_builds_strictly_with_every_page_and_key(builder: ModuleType) -> None:
    output = run([BIN / "python", "docs/build_site.py"], ROOT)
    assert re.search(r"^\d+ pages in build/docs/site$", output, re.M)
    pages = {path.relative_to(builder.SITE).parent for path in builder.SITE.rglob("index.html")}
    assert {Path("tutorial"), Path("cli"), Path("api"), Path("errors"), Path("glossary"), Path("contributing")} <= pages
    programs = (builder.SITE / "python-examples/index.html").read_text()
    assert all(f">{Path(name).name}<" in programs for name in builder.PROGRAMS)
    keys = (builder.SITE / "layout-keys/index.html").read_text()
    assert "zorder.columns" in keys
    assert "tolerance.unclustered" in keys
    assert "zlayout apply" in (builder.SITE / "cli/index.html").read_text()
    api = (builder.SITE / "api/index.html").read_text()
    assert {name for name in zlayout.__all__ if f'id="zlayout.{name}"' not in api} == {"__version__"}


def test_a_link_to_a_missing_file_is_an_error(builder: ModuleType) -> None:
    source = ROOT / "docs/spec.md"
    with pytest.raises(builder.BrokenLink, match=r"docs/spec.md: broken link missing.md"):
        builder.with_site_links(source, "[x](missing.md)", "spec.md", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../SECURITY.md#what)", "[a](../security.md#what)"),
        ("[b](../Makefile)", "b"),
        ("[c](https://example.org) [d](#here)", "[c](https://example.org) [d](#here)"),
        ("```\n[e](missing.md)\n```\n", "```\n[e](missing.md)\n```\n"),
    ],
)
def test_links_lead_to_pages_of_the_site(builder: ModuleType, text: str, expected: str) -> None:
    staged = {ROOT / "SECURITY.md": "security.md"}
    assert builder.with_site_links(ROOT / "docs/spec.md", text, "adr/x.md", staged) == expected


def test_missing_files_and_anchors_of_built_pages_are_found(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y">1</a><a href="#x">2</a><a href="#z">3</a></p>')
    (tmp_path / "b.html").write_text('<p id="y"><img src="none.png"><a href="https://example.org/gone">4</a></p>')
    assert sorted(builder.broken_links(tmp_path)) == [("a.html", "#z"), ("b.html", "none.png")]


def test_the_tutorial_leads_to_the_plan_that_it_describes(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(# make_table.py.*?)```", TUTORIAL, re.S)
    (tmp_path / "make_table.py").write_text(script)
    run([BIN / "python", "make_table.py"], tmp_path)
    (init,) = re.findall(r"^zlayout init .*$", TUTORIAL, re.M)
    run([BIN / "zlayout", *shlex.split(init)[1:]], tmp_path)
    layout = tmp_path / "layouts/sales_events.yaml"
    layout.write_text(layout.read_text().replace("128MiB", "512KiB"))
    run([BIN / "zlayout", "validate"], tmp_path)
    assert "not laid out yet" in run([BIN / "zlayout", "plan"], tmp_path)
    run([BIN / "zlayout", "apply", "--auto-approve"], tmp_path)
    assert "No changes." in run([BIN / "zlayout", "plan"], tmp_path)
    (tmp_path / "make_table.py").write_text(script.replace("range(20)", "range(1)"))
    run([BIN / "python", "make_table.py"], tmp_path)
    plan = run([BIN / "zlayout", "plan", "-v"], tmp_path)
    assert "unclustered 4.8%" in plan
    assert "No changes." in plan
    run([BIN / "python", "make_table.py"], tmp_path)
    assert "Plan: 1 to rewrite." in run([BIN / "zlayout", "plan"], tmp_path)


@pytest.mark.long
def test_the_page_of_pull_requests_works_from_an_empty_home(wheel: Path, tmp_path: Path) -> None:
    """All its commands in one shell, with a repository on this machine, and this checkout instead of a release."""
    home = tmp_path / "home"
    home.mkdir()
    run(["git", "init", "--quiet", "--bare", "--initial-branch=main", tmp_path / "github"], tmp_path)
    ours = {
        "git@github.com:OWNER/lakehouse.git": f"{tmp_path}/github lakehouse",
        "pip install 'zlayout[local]' uv": f"{BIN}/uv pip install --quiet 'zlayout[local] @ {wheel.as_uri()}' uv",
    }
    script = ["set -e"]
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", PULL_REQUESTS, re.S | re.M):
        if language == "sh":
            for theirs, own in ours.items():
                block = block.replace(theirs, own)
            script.append(block)
        elif language == "python":
            script.append(f"cat > make_tables.py <<'END'\n{block}END")
        else:
            edited = "Path('layouts/shop_orders.yaml')"
            before, after = "columns: [day]", block.splitlines()[1].strip()
            script.append(
                f'python -c "from pathlib import Path; file = {edited}; text = file.read_text(); '
                f"assert '{before}' in text; file.write_text(text.replace('{before}', '{after}'))\""
            )
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # packages, and the jars of Spark
    identity = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = identity | {"HOME": str(home), "XDG_CACHE_HOME": cache, "UV_FIND_LINKS": str(wheel.parent)}
    said = run(["bash", "-c", "\n".join(script)], tmp_path, **environ)
    assert "| `zorder.columns` | `[day]` | `[customer, day]` |" in said
    repository = tmp_path / "lakehouse"
    for name in ("plan", "apply"):
        assert "--hash=sha256:" in (repository / f".zlayout/requirements-{name}.txt").read_text()
    assert "ZL451" not in (repository / "merged.json").read_text()
    assert "Applied: 1 as declared." in said
    assert "Rolled back" in said
