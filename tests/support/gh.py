"""A `gh` for tests: answers requests from the folder in which it is installed, and records what is posted.

The files of the folder: `gh.log` has a line for each call, `posted` the last body, and `posts.json` all of them with
their paths. `runs.json`, `pulls.json` (by commit) and `artifacts.json` are what GitHub would know; `ID.zip` is an
artifact. `comments` is the answer to the list of comments, and `down` makes that request fail.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

WITH_VALUE = ("--method", "--field", "--jq")


def main(here: Path, arguments: list[str]) -> int:
    """Answer one call of `gh api`."""
    with (here / "gh.log").open("a") as log:
        log.write(" ".join(arguments).replace("\n", " ") + "\n")
    options: dict[str, list[str]] = {name: [] for name in WITH_VALUE}
    paths = []
    left = iter(arguments[1:])
    for argument in left:
        if argument in WITH_VALUE:
            options[argument].append(next(left))
        elif not argument.startswith("--"):
            paths.append(argument)
    fields = dict(field.split("=", 1) for field in options["--field"])
    if body := fields.get("body", "").removeprefix("@"):
        content = Path(body).read_text()
        (here / "posted").write_text(content)
        (here / "posts.json").write_text(json.dumps([*known(here, "posts", []), [paths[0], content]]))
        return 0
    if "--paginate" in arguments:
        if (here / "down").exists():
            return 1
        sys.stdout.write((here / "comments").read_text() if (here / "comments").exists() else "")
        return 0
    url = urlsplit(paths[0])
    fields |= {name: values[0] for name, values in parse_qs(url.query).items()}
    if url.path.endswith("/zip"):
        sys.stdout.buffer.write((here / f"{url.path.split('/')[-2]}.zip").read_bytes())
        return 0
    found = answer(here, url.path, fields)
    command = ["jq", "--raw-output", *options["--jq"]]
    return subprocess.run(command, input=json.dumps(found), text=True, check=False).returncode


def answer(here: Path, path: str, fields: dict[str, str]) -> Any:
    """Return what GitHub answers to a GET."""
    last = path.rpartition("/")[2]
    if last == "runs":
        assert path.endswith("/actions/workflows/zlayout-apply.yml/runs"), path
        wanted = {name: fields[name] for name in ("event", "branch", "status")}
        runs = [run for run in known(here, "runs", []) if wanted.items() <= run.items()]
        return {"workflow_runs": runs[-int(fields["per_page"]) :]}
    if last == "pulls":
        return known(here, "pulls", {}).get(path.split("/")[-2], [])
    assert last == "artifacts", path
    return {"artifacts": [each for each in known(here, "artifacts", []) if each["name"] == fields["name"]]}


def known(here: Path, name: str, default: Any) -> Any:
    """Return the content of a file of the folder."""
    file = here / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else default


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent, sys.argv[1:]))
