"""Send the findings of `drift` to a webhook. A failure is a warning, and does not affect the command."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zlayout.app.drift import DriftReport
from zlayout.errors import Diagnostic, first_line
from zlayout.message_text import plural
from zlayout.planner.model import TablePlan
from zlayout.reading import read_at_most
from zlayout.report.one_line import table_lines, worst_first
from zlayout.secrets import remember
from zlayout.spec.model import Project

MAX_TABLES = 20  # in a message
MAX_TEMPLATE_BYTES = 64 * 1024
ATTEMPTS = 3
SECONDS = 10.0  # the limit for connecting, and again for the answer, in each attempt
FIRST_PAUSE = 0.5  # seconds before the second attempt; doubled for each further one, and varied randomly by half
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def notify(
    project: Project, found: DriftReport, environ: Mapping[str, str] = os.environ, seconds: float = SECONDS
) -> tuple[Diagnostic, ...]:
    """Send a notification if `notify` is declared and a table needs attention.

    Args:
        project: The project, with `notify` in `zlayout.yaml`.
        found: The result of `drift`.
        environ: The environment variables; the one that `notify` names has the URL of the webhook.
        seconds: The time limit, as SECONDS.

    Returns:
        A warning, ZL451, if the notification was not sent. It does not contain the URL.
    """
    tables = [t for t in worst_first(found.plan.tables) if t in found.drifted + found.unfit + found.failed]
    if project.notify is None or not tables:
        return ()
    url = environ.get(project.notify.variable, "")
    remember([("secret webhook", url)])
    try:
        address = urlsplit(url)
        usable = address.scheme == "https" or (address.scheme == "http" and address.hostname in _THIS_MACHINE)
    except ValueError:
        usable = False
    if not usable:
        return (_not_sent(f"expected an https URL in the environment variable {project.notify.variable}"),)
    try:
        body = _body(project.root, project.notify.template, tables)
    except Exception as error:  # a template may raise anything
        return (_not_sent(f"the message could not be made: {type(error).__name__}: {first_line(error)}"),)
    reason = _post(url, body, seconds)
    return (_not_sent(reason),) if reason else ()


def _body(root: Path, template: str, tables: list[TablePlan]) -> bytes:
    lines = [line.strip() for _, line in table_lines(tables[:MAX_TABLES], 200)]
    title = f"zlayout: {plural(len(tables), 'table')} not as declared, or with errors"
    if len(tables) > MAX_TABLES:
        lines.append(f"and {len(tables) - MAX_TABLES:,} more")
    text = "\n".join([title, *lines])
    if not template:
        # The format of Slack and similar services, which read these three characters as markup.
        safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": safe}).encode()
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    path = (root / template).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError("the template is outside the project")
    source = read_at_most(path, MAX_TEMPLATE_BYTES).decode("utf-8")
    values: dict[str, Any] = {
        "title": title,
        "text": text,
        "tables": [{"table": t.table, "status": str(t.status), "rewrite_bytes": t.rewrite_bytes} for t in tables],
    }
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(source).render(values).encode()


def _post(url: str, body: bytes, seconds: float) -> str:
    """Send a message. Return the reason why it was not accepted, without any part of the URL; '' if it was."""
    import requests

    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
        try:
            headers = {"Content-Type": "application/json"}
            with requests.post(
                url, data=body, headers=headers, timeout=seconds, allow_redirects=False, stream=True
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            reason = type(error).__name__  # the text of the error contains the path of the URL
            continue
        if status < 300:
            return ""
        reason = f"the server answered with status {status}"
        if status < 500 and status != 429:
            break
    return reason


def _not_sent(reason: str) -> Diagnostic:
    hint = "check the variable, the service and the template of notify in zlayout.yaml"
    return Diagnostic("ZL451", f"the notification was not sent: {reason}", "warning", hint)
