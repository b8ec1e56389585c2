"""Spark Connect sessions, which have no driver JVM at hand, are refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from zlayout.errors import Refused, ZlayoutError

_CONF = ("spark.remote",)
_ENVIRONMENT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_MODE_CONF, _MODE_ENVIRONMENT = "spark.api.mode", "SPARK_API_MODE"


def refuse_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Check whether a session made with `conf` in this environment would be one of Spark Connect.

    Raises:
        Refused: ZL204, if it would be.
    """
    named = [f"spark.conf {key}" for key in _CONF if key in conf]
    named += [name for name in _ENVIRONMENT if name in environment]
    mode = conf.get(_MODE_CONF, environment.get(_MODE_ENVIRONMENT, ""))
    if mode.lower() == "connect":
        named.append(f"{_MODE_CONF if _MODE_CONF in conf else _MODE_ENVIRONMENT}=connect")
    if named:
        raise connect_refused(f"{named[0]} is set")


def connect_refused(reason: str) -> ZlayoutError:
    """Return Refused ZL204. reason: how it was found out that Spark Connect is used."""
    return Refused.of(
        "ZL204",
        f"zlayout cannot rewrite tables through Spark Connect ({reason}): its commits need the driver's JVM",
        hint="unset it and give spark.master, or run `zlayout apply` inside spark-submit on the cluster",
    )
