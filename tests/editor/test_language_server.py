"""The modelines in the language server that editors use: completion, help, and errors at the right line."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zlayout.cli.main import run

SERVER = Path(__file__).parent / "node_modules/.bin/yaml-language-server"
pytestmark = pytest.mark.skipif(
    not SERVER.exists() or shutil.which("node") is None,
    reason="the language server is not installed: npm ci --prefix tests/editor",
)


class Server:
    """A language server over stdio."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen([str(SERVER), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.ask("initialize", {"processId": None, "rootUri": root.as_uri(), "capabilities": {}})
        self.tell("initialized", {})

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == number and "method" not in message:
                return message["result"]

    def open(self, file: Path, text: str) -> str:
        uri = file.as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return uri

    def problems(self, uri: str) -> list[dict[str, Any]]:
        while uri not in self.diagnostics:
            self._receive()
        return self.diagnostics.pop(uri)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline().strip()) or not length:
            assert line or self._process.poll() is None, "the language server ended"
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "id" in message and "method" in message:
            # The server asks for settings: it needs an answer.
            items = message.get("params", {}).get("items", [])
            self._send(
                {"id": message["id"], "result": [{"validate": True, "completion": True, "hover": True}] * len(items)}
            )
        return message


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--offline", "--table", "lake.sales.orders", "--columns", "a,b"]) == 0
    return tmp_path


@pytest.fixture
def server(project: Path) -> Iterator[Server]:
    started = Server(project)
    yield started
    started.close()


def test_a_good_layout_has_no_problem_and_a_wrong_key_has_one_at_its_line(server: Server, project: Path) -> None:
    file = project / "layouts/sales_orders.yaml"
    good = file.read_text()
    assert server.problems(server.open(file, good)) == []
    wrong = project / "layouts/wrong.yaml"
    lines = good.splitlines()
    problems = server.problems(server.open(wrong, good.replace("columns:", "colums:")))
    messages = {p["range"]["start"]["line"]: p["message"] for p in problems}
    line = next(n for n, text in enumerate(lines) if "columns:" in text)
    assert "colums" in messages[line]
    assert set(messages) == {line - 1, line}  # `zorder:` lacks its columns


def test_a_wrong_value_in_the_project_is_found_too(server: Server, project: Path) -> None:
    file = project / "zlayout.yaml"
    text = file.read_text()
    lines = text.splitlines()
    problems = server.problems(server.open(file, text.replace("format: delta", "format: hudi")))
    assert [p["range"]["start"]["line"] for p in problems] == [lines.index("    format: delta")]


def test_keys_and_words_are_completed_with_their_descriptions(server: Server, project: Path) -> None:
    file = project / "layouts/sales_orders.yaml"
    text = file.read_text() + "zorder2:\n"
    text = file.read_text().replace("files:", "  curve: \nfiles:")
    uri = server.open(file, text)
    server.problems(uri)
    lines = text.splitlines()
    at = {"line": lines.index("  curve: "), "character": len("  curve: ")}
    found = server.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": at})
    assert {"kd", "zorder", "hilbert", "linear"} <= {item["label"] for item in found["items"]}
    other = project / "layouts/other.yaml"
    text = file.read_text() + "toler"
    uri = server.open(other, text)
    at = {"line": len(text.splitlines()) - 1, "character": 5}
    found = server.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": at})
    (item,) = [i for i in found["items"] if i["label"] == "tolerance"]
    assert "decay" in str(item["documentation"]).lower() or "normal" in str(item["documentation"]).lower()
