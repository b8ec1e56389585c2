"""The Spark settings and the catalog properties that `zlayout.yaml` may contain, with the type of each value.

`allowed.json` has them in groups: each name with a key of `TYPES`, or with the list of its values. Words in capitals
are variable parts of a name (`PARTS`), and a part in brackets is optional. This list is the only source: the JSON
Schema for editors and the tables of docs/spec.md are generated from it (`make schemas`). A setting belongs there only
if every value that its type accepts is harmless in the library that reads it. It must not load a class, run a command,
read a file of this machine and send it, disable TLS or another check, or choose who receives credentials without the
check of `endpoint_problem`. The names of classes are accepted only if they are listed. Everything else is the
operator's: spark-submit, spark-defaults.conf and the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from zlayout.errors import Diagnostic
from zlayout.spec.check import Violation, suggestion
from zlayout.spec.formats import FORMATS
from zlayout.text import escape_unprintable, quote_value

PLAIN_HTTP = "expected https to another machine, found http"
USE_HTTPS = "use https, or set allow_http: true in the catalog, which sends credentials without encryption"
_USE_HTTPS_OF_STORE = "use https, or set storage.allow_http: true in the catalog, which sends data without encryption"
_USE_STORAGE = "use https, or declare the address as storage.endpoint of the catalog, with storage.allow_http: true"
OAUTH2_SERVER = "oauth2-server-uri"
_OPERATORS = "with spark-submit --conf or in spark-defaults.conf"
SPARK_HINT = f"set it {_OPERATORS}"
_SPARK_HINT_OF_VALUE = f"set any other value {_OPERATORS}"
# Only close names are suggested: many settings have the same first words.
_SIMILAR = 0.85

_LINE = r"(?!.*\$\{)[^\x00-\x1f\x7f-\x9f\u2028\u2029]"  # a character of one line without control characters
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT = r"[0-9]{1,5}"
_AUTHORITY = rf"(?P<host>{_HOST})(?::{_PORT})?"
_URL_PATH = r"(?:/[A-Za-z0-9._~%:@/-]{0,1000})?"
_URL = rf"(?P<scheme>https?)://{_AUTHORITY}{_URL_PATH}"
_URL_OR_HOST = rf"(?:(?P<scheme>https?)://)?{_AUTHORITY}{_URL_PATH}"
_MASTER = (
    r"local|local\[(?:[1-9][0-9]{0,3}|\*)(?:, ?[1-9][0-9]{0,3})?\]|yarn"
    rf"|spark://{_HOST}:{_PORT}(?:,{_HOST}:{_PORT})*"
    rf"|k8s://(?:https://)?{_HOST}(?::{_PORT})?{_URL_PATH}"
    rf"|k8s://http://(?:localhost|127\.0\.0\.1|\[::1\])(?::{_PORT})?{_URL_PATH}"
)
_MASTER_TITLE = "local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value.

    Attributes:
        title: What is expected, as part of a sentence.
        pattern: The regular expression that the whole text of a value matches. It is compiled when it is first used.
        example: A value for the JSON Schema.
        low, high: The smallest and the largest number; None for values that are not numbers.
        words: All values, if they are listed.
        is_endpoint: Whether the value is an address, which `endpoint_problem` checks too.
    """

    title: str
    pattern: str
    example: str
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    is_endpoint: bool = False

    def accepts(self, text: str) -> bool:
        """Return whether the text is a value of this type. Addresses are not checked further."""
        if re.fullmatch(self.pattern, text) is None:
            return False
        return self.low is None or self.high is None or self.low <= float(text) <= self.high


def _whole(low: int, high: int) -> ValueType:
    return ValueType(f"a whole number from {low} to {high}", r"-?[0-9]{1,18}", str(max(low, 1)), low=low, high=high)


def _one_of(*words: str) -> ValueType:
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return ValueType(listed, "|".join(map(re.escape, words)), words[0], words=words)


def _list_of(title: str, *words: str) -> ValueType:
    one = f"(?:{'|'.join(map(re.escape, words))})"
    return ValueType(title, rf"{one}(?:\s?,\s?{one}){{0,19}}", words[0], words=words)


_DURATION = r"[0-9]{1,15}(?: ?(?:ns|us|ms|s|sec|secs|m|min|mins|h|d))?"
# The types of values by the names that `allowed.json` has for them.
TYPES = {
    "boolean": _one_of("true", "false"),
    "only_true": _one_of("true"),
    "count": _whole(0, 2**31 - 1),
    "large_count": _whole(0, 2**63 - 1),
    "port": _whole(0, 65535),
    "zstd_level": _whole(-7, 22),
    "number": ValueType("a number", r"[0-9]{1,9}(?:\.[0-9]{1,9})?", "1.5"),
    "share": ValueType("a number from 0 to 1", r"[0-9]{1,9}(?:\.[0-9]{1,9})?", "0.5", low=0, high=1),
    "size": ValueType("a size such as 512m", r"(?i:[0-9]{1,18}(?:[bkmgtp]|[kmgtp]i?b)?)", "512m"),
    "size_or_off": ValueType("a size such as 512m, or -1", r"(?i:-1|[0-9]{1,18}(?:[bkmgtp]|[kmgtp]i?b)?)", "10m"),
    "duration": ValueType("a duration such as 30s", _DURATION, "30s"),
    "duration_or_off": ValueType("a duration such as 30s, or -1", rf"-1|{_DURATION}", "30s"),
    "cores": ValueType("a number of cores such as 2 or 500m", r"[0-9]{1,4}(?:\.[0-9]{1,3})?|[0-9]{1,7}m", "500m"),
    "name": ValueType("a name of letters, digits, '_' and '-'", r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", "eu-central-1"),
    "queue": ValueType(
        "a name of letters, digits, '_', '-' and '.'", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", "root.reports"
    ),
    "text": ValueType("one line of text", rf"{_LINE}{{1,1000}}", "zlayout"),
    "secret": ValueType("a secret in one line", rf"{_LINE}{{1,20000}}", "${SECRET}"),
    # Without `spark.driver.bindAddress`, which is the operator's, Spark binds to `spark.driver.host`, so that it can
    # only be one of this machine.
    "host": ValueType("a host name or an IP address", _HOST, "10.0.0.5"),
    "path": ValueType(
        "a path, not a URL",
        r"(?![A-Za-z][A-Za-z0-9+.-]*:)(?!.*\$\{)[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,4096}",
        "/data/spark",
    ),
    "time_zone": ValueType(
        "a time zone such as Europe/Berlin", r"[A-Za-z0-9_+-]{1,30}(?:[/:][A-Za-z0-9_+-]{1,30}){0,2}", "UTC"
    ),
    "url": ValueType("the URL of a server", _URL, "https://store.example.com", is_endpoint=True),
    "endpoint": ValueType(
        "the URL or the host of a server", _URL_OR_HOST, "https://store.example.com", is_endpoint=True
    ),
    "thrift": ValueType(
        "thrift://HOST:PORT", rf"thrift://{_HOST}:{_PORT}(?:,thrift://{_HOST}:{_PORT}){{0,9}}", "thrift://h:9083"
    ),
    "host_port": ValueType("HOST:PORT", rf"{_HOST}:{_PORT}", "namenode:8020"),
    "names": ValueType("names, separated by commas", r"[A-Za-z0-9_-]{1,100}(?:,[A-Za-z0-9_-]{1,100}){0,19}", "a,b"),
    "arn": ValueType(
        "an ARN", r"arn:aws[a-z0-9-]{0,20}:[A-Za-z0-9+=,.@_/:-]{1,2000}", "arn:aws:iam::123456789012:role/zlayout"
    ),
    "kms_key": ValueType(
        "the id, alias or ARN of a KMS key",
        r"[A-Za-z0-9-]{1,100}|(?:arn:aws[a-z0-9-]{0,20}:kms:[a-z0-9-]{1,40}:[0-9]{12}:)?(?:key|alias)/[A-Za-z0-9/_-]{1,256}",
        "alias/tables",
    ),
    "email": ValueType(
        "the e-mail address of a service account", r"[A-Za-z0-9._-]{1,100}@[A-Za-z0-9.-]{1,200}", "a@b.example.com"
    ),
    "principal": ValueType(
        "a Kerberos principal", r"[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._-]{1,200})?@[A-Za-z0-9.-]{1,200}", "h/_HOST@R"
    ),
    "api_prefix": ValueType(
        "a part of the path of a URL", r"[A-Za-z0-9._~%-]{1,200}(?:/[A-Za-z0-9._~%-]{1,200}){0,9}", "v1-main"
    ),
    "account": ValueType("the name of a storage account", r"[a-z0-9]{3,24}", "account"),
}
# The variable parts of names. None of them contains a dot of its own, so that a name has one meaning.
PARTS = {
    "BUCKET": r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "ACCOUNT": r"[a-z0-9]{3,24}",
    "CLOUD": r"(?:dfs|blob)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)",
    "NAMESERVICE": r"[A-Za-z0-9_-]{1,100}",
    "NAMENODE": r"[A-Za-z0-9_-]{1,100}",
}
_PART = re.compile("|".join(PARTS))
_OPTIONAL = re.compile(r"\[(.*)\]")


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that belong together.

    Attributes:
        title: What they are for.
        settings: The type of each value by name. Words in capitals of `PARTS` are variable parts of a name.
        types: The catalog types whose `properties` may have them; empty for all.
        reader: Which library reads them; empty for all libraries.
        ignores_case: Whether the library ignores the case of the names.
    """

    title: str
    settings: Mapping[str, ValueType]
    types: tuple[str, ...] = ()
    reader: str = ""
    ignores_case: bool = False


@cache
def groups(section: str) -> tuple[Group, ...]:
    """Return the settings of a section, "spark" or the name of a format; empty for formats without properties."""
    listed = json.loads(files("zlayout.spec").joinpath("allowed.json").read_text("utf-8"))
    # No listed class has a setting in this list by which it would run a command or read a file that zlayout.yaml names.
    types = TYPES | {name: _list_of(found["title"], *found["words"]) for name, found in listed["lists"].items()}

    def settings(written: Mapping[str, str | list[str]]) -> Iterator[tuple[str, ValueType]]:
        for name, of in written.items():
            type_ = types[of] if isinstance(of, str) else _one_of(*of)
            yield _OPTIONAL.sub("", name), type_
            if _OPTIONAL.search(name):
                yield _OPTIONAL.sub(r"\1", name), type_

    return tuple(Group(**{**group, "settings": dict(settings(group["settings"]))}) for group in listed.get(section, ()))


# Properties that let deltalake use plain http for every address.
_ALLOW_HTTP = frozenset({"allow_http", "aws_allow_http", "azure_allow_http"})


def check_settings(data: Mapping[str, Any]) -> Iterator[Violation]:
    """Check `spark.master`, `spark.conf` and the `properties` of all catalogs.

    Args:
        data: The content of `zlayout.yaml` with variables replaced. What does not conform to the schema is skipped.

    Yields:
        ZL028 for a Spark setting and ZL029 for a catalog property that is not in the list; ZL013 and ZL014 for a value
        that its type does not accept; ZL037 for an address to which credentials are sent without encryption.
    """
    spark = _map(data.get("spark"))
    master = spark.get("master")
    if isinstance(master, str) and not re.fullmatch(_MASTER, master):
        message = f"expected {_MASTER_TITLE} for spark.master, found another text"
        yield "spark.master", Diagnostic("ZL013", message, hint="name another master with spark-submit --master")
    for name, value in _map(spark.get("conf")).items():
        yield from _check("spark.conf", name, value, "spark")
    for catalog, entry in _map(data.get("catalogs")).items():
        yield from _check_properties(f"catalogs.{catalog}", _map(entry))


def catalog_type(data: Mapping[str, Any]) -> str | None:
    """Return the declared type of a catalog, or else the default of its format; None if the format has no default."""
    traits = FORMATS[data["format"]]
    default = next(iter(traits.catalog_types)) if traits.type_is_optional else None
    found: str | None = data.get("type", default)
    return found


def java_string(value: Any) -> str:
    """Return a scalar as the string that Java and Spark use for it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def leaves_by_http(text: str) -> bool:
    """Return whether requests to an address leave this machine by plain http."""
    found = re.fullmatch(_URL_OR_HOST, text)
    return found is not None and found["scheme"] == "http" and not _is_this_machine(found["host"])


def is_url(text: str) -> bool:
    """Return whether a text is an http or https URL with a host, and without a user, a query or a fragment."""
    return re.fullmatch(_URL, text) is not None


@cache
def settings(section: str, catalog_type: str = "") -> Mapping[str, ValueType]:
    """Return the settings of a section: the type of each value by name, with the words of `PARTS` in capitals.

    Args:
        section: "spark", or the name of a format for its catalog properties.
        catalog_type: The type of the catalog; empty for Spark settings.
    """
    return {name: type_ for group in _groups(section, catalog_type) for name, type_ in group.settings.items()}


def type_of(name: str, section: str, catalog_type: str = "") -> ValueType | None:
    """Return the type of the value of a setting, None if the list does not have the setting. See `settings`."""
    exact, folded = _index(section, catalog_type)
    if found := exact.get(name) or folded.get(name.lower()):
        return found
    return next((type_ for pattern, type_ in _patterns(section, catalog_type) if pattern.fullmatch(name)), None)


@cache
def _index(section: str, catalog_type: str) -> tuple[Mapping[str, ValueType], Mapping[str, ValueType]]:
    exact, folded = {}, {}
    for group in _groups(section, catalog_type):
        for name, type_ in group.settings.items():
            if group.ignores_case:
                folded[name.lower()] = type_
            elif not _PART.search(name):
                exact[name] = type_
    return exact, folded


@cache
def _patterns(section: str, catalog_type: str) -> tuple[tuple[re.Pattern[str], ValueType], ...]:
    named = [
        item for group in _groups(section, catalog_type) for item in group.settings.items() if _PART.search(item[0])
    ]
    return tuple((re.compile(name_pattern(name)), type_) for name, type_ in named)


def _groups(section: str, catalog_type: str) -> tuple[Group, ...]:
    return tuple(group for group in groups(section) if not group.types or catalog_type in group.types)


def name_pattern(name: str) -> str:
    """Return the regular expression of a name with variable parts."""
    return _PART.sub(lambda part: PARTS[part[0]], name.replace(".", r"\."))


def _check_properties(key: str, entry: Mapping[str, Any]) -> Iterator[Violation]:
    properties, format_ = _map(entry.get("properties")), entry.get("format")
    if not properties or not isinstance(format_, str) or format_ not in FORMATS:
        return
    type_ = catalog_type(entry)
    if not isinstance(type_, str) or type_ not in FORMATS[format_].catalog_types:
        return  # `check_catalog` reports the type
    allow_http = bool(_map(entry.get("storage")).get("allow_http"))
    addresses = [text for name, value in properties.items() if (text := _address(name, value, format_, type_))]
    addresses += [str(_map(entry.get("storage")).get("endpoint", ""))]
    for name, value in properties.items():
        yield from _check(f"{key}.properties", name, value, format_, type_, entry)
        needs_http = any(a.startswith("http://") and not leaves_by_http(a) for a in addresses)
        is_http = format_ == "delta" and str(name).lower() in _ALLOW_HTTP and java_string(value) == "true"
        if is_http and not allow_http and not needs_http:
            message = "expected an http endpoint on this machine for this property, found none"
            yield f"{key}.properties.{name}", Diagnostic("ZL037", message, hint=_USE_HTTPS_OF_STORE)


def _address(name: Any, value: Any, section: str, type_: str) -> str:
    found = type_of(str(name), section, type_)
    return java_string(value) if found is not None and found.is_endpoint else ""


def _check(
    parent: str, name: Any, value: Any, section: str, type_: str = "", entry: Mapping[str, Any] | None = None
) -> Iterator[Violation]:
    """entry: the catalog whose property is checked."""
    if not isinstance(name, str) or not isinstance(value, str | int | float):
        return  # the schema reports the value
    key = f"{parent}.{name}"
    expected = type_of(name, section, type_)
    if expected is None:
        yield key, _unknown(key, name, section, type_)
        return
    text = java_string(value)
    if not expected.accepts(text):
        code = "ZL014" if expected.words else "ZL013"
        hint = _SPARK_HINT_OF_VALUE if section == "spark" else ""
        message = f"expected {expected.title} for {escape_unprintable(key)}, found another text"
        yield key, Diagnostic(code, message, hint=hint)
    elif expected.is_endpoint and leaves_by_http(text):
        if entry is None:
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=_USE_STORAGE)
        elif name == OAUTH2_SERVER and not entry.get("allow_http"):
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=USE_HTTPS)
        elif name != OAUTH2_SERVER and not _map(entry.get("storage")).get("allow_http"):
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=_USE_HTTPS_OF_STORE)


def _unknown(key: str, name: str, section: str, type_: str) -> Diagnostic:
    similar = suggestion(name, settings(section, type_), _SIMILAR)
    if section == "spark":
        code, what, hint = "ZL028", "a Spark setting that docs/spec.md allows", SPARK_HINT
    elif section == "iceberg":
        what = f"a property that docs/spec.md allows for type {type_} of {section}"
        code, hint = "ZL029", f"remove it; for Spark alone, set spark.sql.catalog.NAME.KEY {_OPERATORS}"
    else:
        what = f"a property that docs/spec.md allows for {section}"
        code, hint = "ZL029", f"set variables of the environment for plan, and Spark settings {_OPERATORS} for apply"
    message = f"expected {what} for {escape_unprintable(key)}, found {quote_value(name)}"
    return Diagnostic(code, message, hint=f"{similar} Else {hint}" if similar else hint)


def _is_this_machine(host: str) -> bool:
    return host.lower() in ("localhost", "127.0.0.1", "[::1]")


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
