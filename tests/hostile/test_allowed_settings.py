"""The list of allowed settings itself: no name of a class or a command, and a strict type for each value."""

import json
import re
from itertools import chain

import jsonschema
import pytest
from support.settings_page import PAGE, SCHEMA, page_text, schema_text

from zlayout.spec import allowed
from zlayout.spec.allowed import groups, type_of
from zlayout.spec.yaml import read

SPARK, DELTALAKE, ICEBERG = map(groups, ("spark", "delta", "iceberg"))
SETTINGS = [(name, type_) for group in (*SPARK, *DELTALAKE, *ICEBERG) for name, type_ in group.settings.items()]
# Words of settings that load a class, run a command, read a file, or send requests through another host.
HARMFUL = re.compile(
    r"(impl|class|classes|classname|provider|providers|factory|script|command|jars?|plugins?|extensions?|listeners?"
    r"|serializ\w*|codec|hooks?|signers?|handler|options?|binding|allocator|filters?|keytab|keyfile|file|files"
    r"|path|proxy|host|uri|uris|urls?|endpoint|acl|profile|mapping|type|driver|warehouse)$",
    re.IGNORECASE,
)
# Harmless all the same, because the type of their values lists every value, or because it checks a host or a path.
LISTED = {
    "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.fs.s3a.assumed.role.credentials.provider",
    "spark.hadoop.fs.s3a.bucket.BUCKET.aws.credentials.provider",
    "spark.hadoop.fs.s3a.bucket.BUCKET.assumed.role.credentials.provider",
    "spark.io.compression.codec", "spark.sql.parquet.compression.codec", "s3.sse.type", "http-client.type",
    "spark.hadoop.fs.azure.account.auth.type", "spark.hadoop.fs.azure.account.oauth.provider.type",
}  # fmt: skip
ADDRESSES = {
    "endpoint", "azure_endpoint", "aws_endpoint", "azure_storage_endpoint", "s3.endpoint", "google_base_url",
    "aws_endpoint_url", "endpoint_url", "oauth2-server-uri", "gcs.service.host", "spark.hadoop.fs.gs.storage.root.url",
    *(f"spark.hadoop.fs.s3a.{at}{name}endpoint" for at in ("", "bucket.BUCKET.") for name in ("", "assumed.role.sts.")),
    *(f"spark.hadoop.fs.azure.account.oauth2.{of}endpoint{at}"
      for of in ("client.", "refresh.token.") for at in ("", ".ACCOUNT.CLOUD")),
}  # fmt: skip
HOSTS = {"spark.driver.host", "spark.hadoop.hive.metastore.uris"}
HOSTILE = {
    "class": "com.example.Evil",
    "file": "file:///etc/passwd",
    "path": "/etc/passwd",
    "command": "sh -c 'touch x'",
    "url": "http://evil.example.com/x",
    "userinfo": "https://user:password@h",
    "variable": "${env.X}",
    "line": "1\n2",
    "return": "1\r",
    "last line": "1\n",
    "nul": "1\x00",
    "separator": "1\u2028",
    "long": "1" * 1_000_000,
    "empty": "",
    "number": "1e999",
}
TEXTS = {"class", "file", "path", "command", "url", "userinfo", "number"}
# What hostile text is a value of a type, and harmless there: as a name, a host or a secret. No other type accepts any.
HARMLESS = {
    "TEXT": TEXTS, "SECRET": TEXTS, "QUEUE": {"class", "number"}, "HOST": {"class", "number"}, "NAME": {"number"},
    "PATH": {"class", "path", "command", "number"}, "ENDPOINT": {"class", "url", "number"}, "URL": {"url"},
    "NAMES": {"number"}, "KMS_KEY": {"number"}, "API_PREFIX": {"class", "number"}, "ACCOUNT": {"number"},
    "TIME_ZONE": {"number"},
}  # fmt: skip
TYPES = {name.upper(): type_ for name, type_ in allowed.TYPES.items()}


def test_no_name_is_that_of_a_class_a_command_a_file_or_another_host() -> None:
    general = {(name.removesuffix(".ACCOUNT.CLOUD"), name, type_) for name, type_ in SETTINGS}
    general = {(short.removesuffix(".NAMESERVICE"), name, type_) for short, name, type_ in general}
    harmful = {(name, type_) for short, name, type_ in general if HARMFUL.search(short)}
    for name, type_ in harmful:
        if name.removesuffix(".ACCOUNT.CLOUD") in LISTED or "failover.proxy.provider" in name:
            assert type_.words
        elif name in ADDRESSES:
            assert type_.is_endpoint
        else:
            assert name in HOSTS or type_.low is not None or type_ is allowed.TYPES["boolean"], name
    assert {name for name, type_ in SETTINGS if type_.is_endpoint} == ADDRESSES | {"aws_endpoint_url_s3"}


def test_every_listed_class_belongs_to_hadoop_or_aws() -> None:
    words = {word for _, type_ in SETTINGS for word in type_.words if "." in word}
    packages = ("org.apache.hadoop.", "software.amazon.awssdk.auth.credentials.", "com.amazonaws.auth.")
    assert words
    assert all(word.startswith(packages) for word in words)
    assert not [word for word in words if "Shell" in word or "Custom" in word]


@pytest.mark.parametrize("attack", HOSTILE)
def test_no_type_accepts_a_hostile_value_that_it_does_not_want(attack: str) -> None:
    named = {id(type_): name for name, type_ in TYPES.items()}
    for name, type_ in SETTINGS:
        if type_.accepts(HOSTILE[attack]):
            assert attack in HARMLESS.get(named.get(id(type_), ""), ()), (name, type_.title)


def test_every_name_has_one_type_and_the_type_accepts_its_example() -> None:
    for section, listed in (("spark", SPARK), ("delta", DELTALAKE), ("iceberg", ICEBERG)):
        names = [name for group in listed for name in group.settings]
        assert len({name.lower() for name in names}) == len(names), section
    for name, type_ in SETTINGS:
        assert type_.accepts(type_.example) or type_.example == "${SECRET}", name


def test_a_name_with_variable_parts_is_read_in_one_way() -> None:
    at = "spark.hadoop.fs.s3a.bucket"
    assert type_of(f"{at}.raw-data.endpoint", "spark") is allowed.TYPES["endpoint"]
    for name in (
        f"{at}.a.b.endpoint",
        f"{at}..endpoint",
        f"{at}.lake.s3.client.factory.impl",
        f"{at}.lake.endpoint\n",
        f"{at}.LAKE.endpoint",
        f"{at}.x/../y.endpoint",
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net.evil.example.com",
        "spark.hadoop.fs.azure.account.key.acc.dfs.core.windowsXnet",
        "spark.hadoop.fs.azure.account.key.a.b.dfs.core.windows.net",
    ):
        assert type_of(name, "spark") is None, name


def test_the_schema_and_the_page_are_generated_from_the_list() -> None:
    """`make schemas` writes them."""
    assert schema_text(SCHEMA.read_text()) == SCHEMA.read_text()
    assert page_text(PAGE.read_text()) == PAGE.read_text()


def test_the_schema_for_editors_accepts_what_the_list_accepts() -> None:
    published = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(published)
    some = {"BUCKET": "lake", "ACCOUNT": "acc", "CLOUD": "dfs.core.windows.net", "NAMESERVICE": "ns", "NAMENODE": "nn"}
    for definition, listed in (("spark_settings", (SPARK,)), ("catalog_properties", (DELTALAKE, ICEBERG))):
        validator = jsonschema.Draft7Validator(published["definitions"][definition])
        for name, type_ in (item for part in listed for group in part for item in group.settings.items()):
            written = re.sub("|".join(allowed.PARTS), lambda part: some[part[0]], name)
            assert validator.is_valid({written: type_.example}), written
        assert not validator.is_valid({"spark.jars": "x"})
        assert not validator.is_valid({"io-impl": "x"})
    for file in [SCHEMA.parents[2] / "zlayout.yaml", *SCHEMA.parents[2].glob("examples/*/zlayout.yaml")]:
        jsonschema.validate(read(file, file.name).data, published)


def test_the_page_lists_every_name() -> None:
    page = PAGE.read_text()
    names = {name.replace(".bucket.BUCKET", "").removesuffix(".ACCOUNT.CLOUD") for name, _ in SETTINGS}
    assert {name for name in names if f"`{name}" not in page} == set()
    words = set(chain.from_iterable(type_.words for _, type_ in SETTINGS))
    assert {word for word in words if f"`{word}`" not in page} == set()
