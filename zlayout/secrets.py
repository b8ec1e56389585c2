"""Removal of passwords, keys and tokens from messages.

zlayout never prints configuration values, but the errors of other programs may contain them: a URI with its password, a
request with its token. Such text reaches people, reports and plan files only in a `Diagnostic`, whose constructor calls
`without_secrets`. It removes the secrets of the project's configuration, and passwords and tokens in URIs and
assignments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

MASK = "***"
# Characters. Shorter values are not treated as secrets, because they also occur inside ordinary words.
MIN_SECRET_LENGTH = 4
_SECRET_NAME = re.compile(
    r"secret|passw(?:or)?d|passphrase|pwd|token|credential|signature|authorization"
    r"|(?:access|account|api|private|storage|master|shared)[._-]?key|(?<![a-z])(?:sas|sig)(?![a-z])",
    re.IGNORECASE,
)
# Names of classes, endpoints and files are not secrets.
_PUBLIC_NAME = re.compile(
    r"(?:provider(?:\.type)?|impl|class|endpoint|uri|url|region|file|path|server|expires.*)$", re.I
)
# scheme://user:password@host. A number after the colon is a port if a slash or the end of the text follows it. In an
# http URI a user without a password is a token. All quantifiers but that of the port are bounded or possessive, so that
# matching takes linear time.
_USER = re.compile(
    r"""://(?:[^\s/@:'"]{0,200}+:(?!\d+(?:/|\Z))(?P<password>[^\s'"]{0,300})@"""
    r"""|(?<=(?:http|ttps)://)(?P<token>[^\s/@:'"]{1,300}+)@)"""
)
_ASSIGNED = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]{1,200}+)(?P<sign>\s?=\s?)["']?(?P<value>[^\s&;,'"<>()\[\]]++)""")
_known: set[str] = set()


def remember(named: Iterable[tuple[str, str]]) -> None:
    """Register the secrets of a project's configuration, which `without_secrets` then removes.

    Args:
        named: (name, value) pairs. The value is a secret if `is_secret(name)`. Passwords and tokens in the URIs and
            assignments of any value are secrets too.
    """
    for name, value in named:
        found = passwords(value) | ({value} if is_secret(name) else set())
        _known.update(s for secret in found for s in (secret, unquote(secret)) if len(s) >= MIN_SECRET_LENGTH)


def passwords(text: str) -> frozenset[str]:
    """Return the passwords and tokens in the URIs and assignments of a text."""
    found = {m["password"] or m["token"] or "" for m in _USER.finditer(text)}
    found |= {m["value"] for m in _ASSIGNED.finditer(text) if is_secret(m["name"])}
    return frozenset(found - {""})


def without_secrets(text: str) -> str:
    """The text with *** instead of each secret."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _USER.sub(f"://{MASK}@", text)
    return _ASSIGNED.sub(lambda m: f"{m['name']}{m['sign']}{MASK}" if is_secret(m["name"]) else m[0], text)


def is_secret(name: str) -> bool:
    """Return whether the value of a setting with this name is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _PUBLIC_NAME.search(name)
