"""Take the pictures of docs/pull-requests.md: `python docs/pictures/comments.py FOLDER`, with Chromium on the PATH.

The comments of FOLDER are those that the scripts of the templates post in `KEEP_TEXTS=FOLDER pytest
tests/spark/test_month.py`. They are shown as GitHub shows Markdown, in its style and in light colors. If Markdown files
are named instead, each picture is written beside its file.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
PICTURES = {"comment-columns": "columns.md", "comment-planned-again": "planned-again.md"}
WIDTH = 780  # pixels of a comment on a wide screen
STYLE = """
body { margin: 0; padding: 16px; background: #fff; color: #1f2328; font: 14px/1.5 -apple-system, "Segoe UI",
  "Noto Sans", "DejaVu Sans", Helvetica, Arial, sans-serif; word-wrap: break-word; }
h3 { font-size: 1.25em; margin: 0 0 16px; } h4 { font-size: 1em; margin: 24px 0 16px; }
p, ul, table, pre, details { margin: 0 0 16px; } ul { padding-left: 2em; }
code { font: 85% ui-monospace, "DejaVu Sans Mono", monospace; padding: .2em .4em; background: #818b981f;
  border-radius: 6px; white-space: break-spaces; }
pre { padding: 16px; overflow: auto; background: #f6f8fa; border-radius: 6px; line-height: 1.45; }
pre code { padding: 0; background: none; white-space: pre; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; } th { font-weight: 600; }
tr:nth-child(2n) td { background: #f6f8fa; }
summary { cursor: pointer; }
"""


def page(comment: str) -> str:
    """Return a page with a comment as GitHub renders it."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(comment)
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{body}'


def main(comments: dict[Path, str]) -> None:
    """Write a PNG of each comment: the file to write, and the comment."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for path, text in comments.items():
            shown = browser.new_page(viewport={"width": WIDTH, "height": 200})
            shown.set_content(page(text))
            shown.screenshot(path=path, full_page=True)
        browser.close()


if __name__ == "__main__":
    named = [Path(name) for name in sys.argv[1:]]
    if len(named) == 1 and named[0].is_dir():
        main({HERE / f"{name}.png": (named[0] / file).read_text() for name, file in PICTURES.items()})
    else:
        main({file.with_suffix(".png"): file.read_text() for file in named})
