"""Refuses Spark Connect sessions, which give no access to the driver's JVM."""

from __future__ import annotations

from collections.abc import Mapping

from zlayout.errors import Refused, ZlayoutError

_CONF = ("spark.remote",)
_ENVIRONMENT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_MODE_CONF, _MODE_ENVIRONMENT = "spark.api.mode", "SPARK_API_MODE"


def refuse_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Check that a new session, with this configuration and environment, would not be a Spark Connect session.

    Raises:
        Refused: ZL204, if it would be a Spark Connect session.
    """
    named = [f"spark.conf {key}" for key in _CONF if key in conf]
    named += [name for name in _ENVIRONMENT if name in environment]
    mode = conf.get(_MODE_CONF, environment.get(_MODE_ENVIRONMENT, ""))
    if mode.lower() == "connect":
        named.append(f"{_MODE_CONF if _MODE_CONF in conf else _MODE_ENVIRONMENT}=connect")
    if named:
        raise connect_refused(f"{named[0]} is set")


def connect_refused(reason: str) -> ZlayoutError:
    """Return Refused ZL204. reason: the setting or session by which Spark Connect was detected."""
    return Refused.of(
        "ZL204",
        f"zlayout cannot rewrite tables through Spark Connect ({reason}): its commits need the driver's JVM",
        hint="remove the setting and set spark.master, or run `zlayout apply` inside spark-submit on the cluster",
    )
