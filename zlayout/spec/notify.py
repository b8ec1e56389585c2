"""The declaration of notifications, `notify` in `zlayout.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """Where notifications are sent.

    variable: the environment variable with the URL, which is a secret. template: the path of a Jinja
    template below the project; empty for the built-in message.
    """

    variable: str
    template: str = ""


def notify_config(entry: Mapping[str, Any]) -> NotifyConfig:
    """The configuration of an entry that was validated, and whose webhook is `${NAME}`."""
    return NotifyConfig(entry["webhook"][2:-1], entry.get("template", ""))
