"""Notifications of drift, received by a real HTTP server on this machine."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.projects import PROJECT, Cli
from support.servers import serving

from zlayout.app import notify

PATH = "/services/T0/the-token-of-the-hook"


class Hook(ThreadingHTTPServer):
    """Answers with these statuses in turn, and with 200 afterwards; 0 stands for no answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self.released = threading.Event()


class Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if not status:
            self.server.released.wait(20)
            return
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setattr(notify, "FIRST_PAUSE", 0.01)
    (root / "zlayout.yaml").write_text(PROJECT + "notify: {webhook: '${HOOK}'}\n")
    with serving(Hook()) as server:
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.server_port}{PATH}")
        yield server
        server.released.set()


def test_what_drift_found_is_sent_once(hook: Hook, cli: Cli) -> None:
    printed = cli("drift", code=2)
    (body,) = hook.bodies
    text = json.loads(body)["text"]
    assert text.startswith("zlayout: 1 table not as declared, or with errors\nlake.db.orders  first layout")
    assert "the-token" not in printed.out + printed.err
    assert "ZL451" not in printed.err


def test_nothing_is_sent_if_nothing_was_found(hook: Hook, root: Path, cli: Cli) -> None:
    (root / "layouts/orders.yaml").write_text("version: 1\ntable: lake.db.orders\nfiles: {target_size: 1KiB}\n")
    cli("drift")
    assert hook.bodies == []


@pytest.mark.parametrize(("statuses", "sent"), [([500], 2), ([429, 503], 3)])
def test_a_passing_failure_is_tried_again(hook: Hook, cli: Cli, statuses: list[int], sent: int) -> None:
    hook.statuses = statuses
    assert "ZL451" not in cli("drift", code=2).err
    assert len(hook.bodies) == sent


@pytest.mark.parametrize(("statuses", "sent"), [([500] * 9, 3), ([404], 1), ([302], 1)])
def test_a_failure_is_a_warning_without_the_url(hook: Hook, cli: Cli, statuses: list[int], sent: int) -> None:
    hook.statuses = statuses
    status = statuses[0]
    printed = cli("drift", code=2)
    assert "ZL451" in printed.err
    assert f"the server answered with status {status}" in " ".join(printed.err.split())
    assert "the-token" not in printed.out + printed.err
    assert len(hook.bodies) == sent


def test_a_server_that_does_not_answer_takes_limited_time(
    hook: Hook, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.statuses = [0] * 3
    monkeypatch.setattr(notify.notify, "__defaults__", (notify.os.environ, 0.2))
    began = time.monotonic()
    printed = cli("drift", code=2)
    assert time.monotonic() - began < 15
    assert "ReadTimeout" in printed.err
    assert "the-token" not in printed.err
    assert len(hook.bodies) == 3


@pytest.mark.parametrize("url", ["", "http://hooks.example.com/the-token", "ftp://x/the-token", "http://[the-token"])
def test_only_https_is_sent_to_other_machines(hook: Hook, cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HOOK", url)
    printed = cli("drift", code=2)
    assert "expected an https URL" in " ".join(printed.err.split())
    assert "the-token" not in printed.err
    assert hook.bodies == []


def test_a_template_makes_the_message(hook: Hook, root: Path, cli: Cli) -> None:
    (root / "zlayout.yaml").write_text(PROJECT + "notify: {webhook: '${HOOK}', template: message.jinja}\n")
    example = Path(__file__).parents[3] / "examples/every-feature/notify.json.jinja"
    (root / "message.jinja").write_text(example.read_text())
    cli("drift", code=2)
    assert json.loads(hook.bodies[0])["tables"] == ["lake.db.orders"]


@pytest.mark.parametrize("source", ["{{ missing }}", "{{ title.__class__.__mro__ }}", "{% if", None])
def test_a_template_that_fails_is_a_warning(hook: Hook, root: Path, cli: Cli, source: str | None) -> None:
    (root / "zlayout.yaml").write_text(PROJECT + "notify: {webhook: '${HOOK}', template: message.jinja}\n")
    if source is not None:
        (root / "message.jinja").write_text(source)
    assert "ZL451" in cli("drift", code=2).err
    assert hook.bodies == []


def test_a_template_outside_the_project_is_not_read(hook: Hook, root: Path, cli: Cli) -> None:
    (root / "zlayout.yaml").write_text(PROJECT + "notify: {webhook: '${HOOK}', template: /etc/hostname}\n")
    assert "outside the project" in " ".join(cli("drift", code=2).err.split())
    assert hook.bodies == []


@pytest.mark.parametrize(
    "written", ["https://hooks.example.com/the-token", "${HOOK:-https://x/the-token}", "https://x/${HOOK}", "the-token"]
)
def test_a_url_in_the_file_is_refused_as_a_secret(root: Path, cli: Cli, written: str) -> None:
    (root / "zlayout.yaml").write_text(PROJECT + f"notify: {{webhook: '{written}'}}\n")
    printed = cli("validate", code=1)
    assert "ZL042" in printed.err
    assert "the-token" not in printed.out + printed.err
