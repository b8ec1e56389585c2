"""Removal of passwords, keys and tokens from messages.

zlayout never prints configuration values, but the errors of other programs may contain them: a URI with its password, a
request with its token. Such text reaches people, reports and plan files only in a `Diagnostic`, whose constructor calls
`without_secrets`. It removes the secrets of the project's configuration, and passwords and tokens in URIs,
assignments, JSON and HTTP headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
# A name before `=` or `:`, with the quote after it: `key=`, `"key": `, `\"key\": `, `Key: `. JSON in a string of JSON
# has backslashes before its quotes.
_NAMED = re.compile(r"""(?<![\w.-])(?P<name>[\w.-]++)(?P<quote>\\{0,8}["'])?+\s{0,9}(?P<sign>[=:])\s{0,99}""")
# An element of XML: S3 repeats the session token in the error about it, as <Token-0>.
_ELEMENT = re.compile(r"<([\w.:-]{1,100})>([^<>]{1,8192}+)(?=</|\Z)")
_QUOTE = re.compile(r"""[bu]?(?P<quote>\\{0,8}["'])""")
_CLOSED = re.compile(r"[\s,;.)\]]|\Z")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Digest|Negotiate|Token|ApiKey|SharedKey|[A-Z0-9-]{1,9}-HMAC-SHA256)\s{1,4}", re.I
)
_BARE = re.compile(r"""[^\s&;,'"<>()\[\]]++""")
# Tokens that are known by their form: Databricks, GitHub, GitLab, Google, JSON Web Tokens, any after `Bearer`, and
# private keys.
_TOKEN = re.compile(
    r"(?<![\w-])(?:dapi[0-9a-f]{32}(?:-\d{1,3})?|gh[pousr]_\w{30,255}+|github_pat_\w{30,255}+|glpat-[\w-]{20,255}+|ya29\.[\w.-]{10,2048}+"
    r"|eyJ[\w-]{8,4096}+\.[\w-]{8,8192}+\.[\w-]{0,4096}+|(?<=Bearer )(?=[^\s\d]{0,60}\d)[\w.~+/=-]{8,4096}+)"
    r"|(?<=PRIVATE KEY-----)[^-]{16,16384}+"
)
_MARKS_OF_TOKENS = ("dapi", "gh", "github_pat_", "glpat-", "ya29.", "eyJ", "Bearer ", "PRIVATE KEY-----")
_MAX_NAME_LENGTH = 200  # characters; of a longer name, only its end is searched
_MIN_HEADER_LENGTH = 20  # characters of a value without a scheme and without a digit
_DIGIT = re.compile(r"\d")
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
    return frozenset((found | {text[begin:end] for begin, end in _values(text)}) - {""})


def without_secrets(text: str) -> str:
    """The text with *** instead of each secret. The time that this takes is proportional to the length of the text."""
    lower = text.lower()  # clients write the host of a URL in lower case
    for secret in sorted(_known, key=len, reverse=True):
        if secret.lower() in lower:
            text = re.sub(re.escape(secret), MASK, text, flags=re.IGNORECASE)
    if "@" in text:
        text = _USER.sub(f"://{MASK}@", text)
    if "<" in text:
        text = _ELEMENT.sub(lambda found: f"<{found[1]}>{MASK}" if is_secret(found[1]) else found[0], text)
    if ("=" in text or ":" in text) and _SECRET_NAME.search(text):
        kept, at = [], 0
        for begin, end in _values(text):
            kept.append(text[at:begin])
            at = end
        text = MASK.join((*kept, text[at:]))
    return _TOKEN.sub(MASK, text) if any(mark in text for mark in _MARKS_OF_TOKENS) else text


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each value with a secret name: `name=value`, JSON and Python pairs, and HTTP headers."""
    at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        if is_secret(named["name"][-_MAX_NAME_LENGTH:]) and (value := _value(text, named)) is not None:
            yield value
            at = value[1]


def _value(text: str, named: re.Match[str]) -> tuple[int, int] | None:
    at, quote, is_assigned = named.end(), named["quote"] or "", named["sign"] == "="
    opening = _QUOTE.match(text, at)
    if opening and (is_assigned or opening["quote"] == quote):
        begin = opening.end()
        if text.endswith(opening["quote"], 0, named.start()) != bool(quote) or (
            is_assigned and _CLOSED.match(text, begin)
        ):
            return None  # not `"key": "value"`, or the quote ends a text as in 'set key='
        end = _end_of_string(text, opening["quote"], begin)
        return (begin, end) if begin < end else None
    if quote or not (is_assigned or _is_header(named["name"])):
        return None
    if scheme := _SCHEME.match(text, at):
        found = _BARE.match(text, scheme.end())
    elif found := _BARE.match(text, at):
        # `Authorization: missing` is a message
        found = found if is_assigned or len(found[0]) >= _MIN_HEADER_LENGTH or _DIGIT.search(found[0]) else None
    return (at, found.end()) if found else None


def _end_of_string(text: str, quote: str, at: int) -> int:
    while (end := text.find(quote, at)) >= 0:
        if text[end - 1] != "\\" or end == at:
            return end
        at = end + len(quote)
    return len(text)  # the text was shortened


def _is_header(name: str) -> bool:
    return name.lower() in ("authorization", "proxy-authorization", "api-key") or name[:2].lower() == "x-"


def is_secret(name: str) -> bool:
    """Return whether the value of a setting with this name is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _PUBLIC_NAME.search(name)
