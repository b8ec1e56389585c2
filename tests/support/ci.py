"""Runs the shell steps of CI templates as GitHub's runner does, with a `gh` that records, and makes wheels for them."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
MARKER = "<!-- zlayout-report -->"

TEMPLATES = Path(__file__).parents[2] / "zlayout/session/templates"
CONTEXT = {
    "runner.temp": "{temp}",
    "github.token": "of-the-run",
    "github.event.pull_request.number": "7",
    "inputs.select": "",
    "inputs.budget || '200GiB'": "200GiB",
}


class Runner:
    """A runner of GitHub with an empty checkout.

    Attributes:
        checkout: The working directory of the steps.
        temp: `RUNNER_TEMP`.
        gh: The folder with the program `gh`, the first one of PATH, and what it recorded: `gh.log` and `posted`.
        outputs: The outputs of each step that has an id.
        last: The outputs of the last step.
        context: The values of expressions.
        environ: Further variables.
    """

    def __init__(self, folder: Path) -> None:
        self.checkout, self.temp, self.gh = folder / "checkout", folder / "temp", folder / "gh"
        for each in (self.checkout, self.temp, self.gh):
            each.mkdir()
        (self.gh / "gh").write_text(f"#!{sys.executable} -I\n{Path(__file__).with_name('gh.py').read_text()}")
        (self.gh / "gh").chmod(0o755)
        self.outputs: dict[str, dict[str, str]] = {}
        self.last: dict[str, str] = {}
        self.context = {name: value.format(temp=self.temp) for name, value in CONTEXT.items()}
        self.environ: dict[str, str] = {}
        self._path = f"{BIN}:{os.environ['PATH']}"

    @property
    def posted(self) -> str:
        return (self.gh / "posted").read_text()

    @property
    def log(self) -> list[str]:
        file = self.gh / "gh.log"
        return file.read_text().splitlines() if file.exists() else []

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run one step with its variables and its working directory."""
        commands = {name: self.gh / f"{name}.txt" for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for file in commands.values():
            file.write_text("")
        environ = {
            "PATH": f"{self.gh}:{self._path}",
            "HOME": os.environ.get("HOME", "/"),
            "CI": "true",
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_REF_NAME": "main",
            "GITHUB_WORKFLOW_REF": "owner/name/.github/workflows/zlayout-apply.yml@refs/heads/main",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_RUN_ID": "5",
            "RUNNER_TEMP": str(self.temp),
            **{name: str(file) for name, file in commands.items()},
            **self.environ,
            **{name: self.evaluated(value) for name, value in step.get("env", {}).items()},
        }
        strict = ["--noprofile", "--norc", "-eo", "pipefail"] if step.get("shell") == "bash" else ["-e"]
        done = subprocess.run(
            ["bash", *strict, "-c", step["run"]],
            cwd=self.checkout / self.evaluated(step.get("working-directory", ".")),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        self.last = dict(line.split("=", 1) for line in commands["GITHUB_OUTPUT"].read_text().splitlines())
        if "id" in step:
            self.outputs[step["id"]] = self.last
        self._path = ":".join([*commands["GITHUB_PATH"].read_text().splitlines(), self._path])
        return done

    def evaluated(self, text: str) -> str:
        """Return a text with the values of its expressions."""
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: self._value(found[1]), text)

    def _value(self, expression: str) -> str:
        if output := re.fullmatch(r"steps\.([a-z-]+)\.outputs\.([a-z_-]+)", expression):
            return self.outputs.get(output[1], {}).get(output[2], "")
        return self.context[expression]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def locked(folder: Path, name: str) -> str:
    """Write a wheel with the command `name`, which is this environment's zlayout; return its line of a lock file."""
    module, info = f"{name}_locked", f"{name}-1.0.dist-info"
    packages = sysconfig.get_path("purelib")
    source = (
        f"def main():\n    import site\n    site.addsitedir({packages!r})\n"
        "    from zlayout.cli.main import main\n    main()\n"
    )
    contents = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in contents.items())
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (contents | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
