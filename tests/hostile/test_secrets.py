"""Canaries in settings, URIs and the environment: none comes out, whatever fails, in whatever format."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hostile.asking import ask
from support.projects import LAYOUT, Scripted, write_project

from zlayout.errors import Diagnostic
from zlayout.report.formats import REPORTERS
from zlayout.secrets import without_secrets

CANARIES = {
    "PASSWORD": "canary-1-Pa55w0rd",
    "SECRET": "canary/2+aws/secret==",
    "TOKEN": "canary-3-dapi0123456789",
    "SIGNATURE": "canary%2F4%2Bsas%3D",
    "UNNAMED": "canary-5-nothing-says-so",
    "CONF": "canary-6-fs.s3a",
    "LITERAL": "literal-canary-7",
}
PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables, properties: {AWS_SECRET_ACCESS_KEY: "${SECRET}", client_id: "${UNNAMED}"}}
  away:
    format: delta
    tables: {db.t: "abfss://c@acc.dfs.core.windows.net/t?sv=1&sig=${SIGNATURE}&se=2030"}
    properties:
      AZURE_STORAGE_SAS_TOKEN: "sv=1&sig=${SIGNATURE}"
      AZURE_STORAGE_ENDPOINT: "http://127.0.0.1:1"
      allow_http: "true"
      max_retries: "0"
  pg: {format: iceberg, type: sql, uri: "postgresql://bob:${PASSWORD}@127.0.0.1:1/db", warehouse: ./w}
  lite: {format: iceberg, type: sql, uri: "sqlite:///w/none.db", warehouse: ./w}
  rest:
    format: iceberg
    type: rest
    uri: "http://user:${PASSWORD}@127.0.0.1:1/x?token=${TOKEN}"
    properties: {token: "${TOKEN}", credential: "id:${SECRET}", audience: "${UNNAMED}"}
spark:
  conf: {spark.hadoop.fs.s3a.secret.key: "${CONF}", spark.hadoop.fs.s3a.session.token: "${LITERAL}"}
"""
TABLES = ("away.db.t", "pg.db.t", "lite.db.t", "rest.db.t", "lake.db.orders", "lake.db.none")
FORMATS = [part for name in REPORTERS for part in ("--report", f"{name}=report.{name}")]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of tables that cannot be reached, as the current folder. In the end nothing in it holds a canary."""
    write_project(tmp_path, monkeypatch, LAYOUT)
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    for number, table in enumerate(TABLES):
        (tmp_path / "layouts" / f"{number}.yaml").write_text(LAYOUT.replace("lake.db.orders", table))
    (tmp_path / "layouts" / "orders.yaml").unlink()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    yield tmp_path
    for path in tmp_path.iterdir():
        if path.is_file() and path.name != "zlayout.yaml":
            assert found_in(path.read_text()) == [], path.name


@pytest.mark.parametrize(
    ("old", "key"),
    [
        ("${SECRET}", "catalogs.lake.properties.AWS_SECRET_ACCESS_KEY"),
        ("sig=${SIGNATURE}", "catalogs.away.tables.db.t"),
        ("bob:${PASSWORD}@", "catalogs.pg.uri"),
        ("token=${TOKEN}", "catalogs.rest.uri"),
        ('token: "${TOKEN}"', "catalogs.rest.properties.token"),
        ("id:${SECRET}", "catalogs.rest.properties.credential"),
        ("${CONF}", "spark.conf.spark.hadoop.fs.s3a.secret.key"),
    ],
)
@pytest.mark.parametrize("written", ["canary", "${NOTSET:-canary}"])
def test_a_secret_in_the_file_is_an_error_that_does_not_show_it(
    canaries: Path, old: str, key: str, written: str
) -> None:
    variable = old[old.index("$") : old.index("}") + 1]
    name = variable[2:-1]
    value = written.replace("canary", CANARIES[name])
    (canaries / "zlayout.yaml").write_text(PROJECT.replace(old, old.replace(variable, value), 1))
    answer = ask("validate")
    assert answer.code == 1
    said = " ".join(answer.err.split())
    assert f"ZL042 '{key}' contains a secret" in said
    assert found_in(answer.out + answer.err) == []


def found_in(text: str) -> list[str]:
    canaries = [*CANARIES.values(), "canary/4+sas=", "canary%2F2", "canary"]
    return [c for c in canaries if c in text]


def test_commands_on_tables_that_cannot_be_read(canaries: Path) -> None:
    commands = [
        ["validate"], ["plan", "-v", "--out", "plan.json", *FORMATS], ["plan", "--output", "json"],
        ["drift", "-v", *FORMATS], ["show", "plan.json", "-v", *FORMATS], ["apply", "--auto-approve", *FORMATS],
        ["apply", "--auto-approve", "--output", "json"], *(["inspect", table] for table in TABLES),
        *(["import", f"{table}2"] for table in TABLES),
    ]  # fmt: skip
    for command in commands:
        answer = ask(*command)
        assert found_in(answer.out) == [], command
        assert found_in(answer.err) == [], command
    said = json.loads((canaries / "plan.json").read_text())
    assert {t["table"]: t["status"] for t in said["tables"]} == dict.fromkeys(sorted(TABLES), "error")


def test_a_secret_in_the_location_of_a_table_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_deltalake("lake/db/t", pa.table({"a": [1, 2]}))
    Path("lake/db/t").rename("lake/db/t?sig=CANARY")
    Path("zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, tables: {db.t: 'lake/db/t?sig=${SIGNATURE}'}}\n"
    )
    monkeypatch.setenv("SIGNATURE", "CANARY")
    answer = ask("inspect", "lake.db.t")
    assert "location        " in answer.out
    assert "CANARY" not in answer.out + answer.err


SAID = (
    "cannot open {uri}",
    "Max retries exceeded with url: /v1/config?token={TOKEN}&warehouse=x",
    'FATAL: password authentication failed, password "{PASSWORD}"',
    "403 for https://acc.blob.core.windows.net/t?sv=1&sig={SIGNATURE}&se=2030",
    "403: signature canary/4+sas= does not match",
    "fs.s3a.secret.key={CONF}, fs.s3a.session.token=literal-canary-7",
    "java.lang.Exception: {SECRET}\n\tat {UNNAMED}",
)


@pytest.mark.parametrize("said", SAID)
def test_whatever_a_library_says(said: str, canaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"postgresql://bob:{CANARIES['PASSWORD']}@h/db"
    text = said.replace("{uri}", uri)
    for name, value in CANARIES.items():
        text = text.replace(f"{{{name}}}", value)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr("pyiceberg.catalog.load_catalog", fail)
    monkeypatch.setattr("zlayout.formats.delta.backend.DeltaBackend.observe", fail)
    for command in (["plan", "-v", *FORMATS], ["drift", "--report", "json=-"], ["apply", "--auto-approve"]):
        answer = ask(*command)
        assert answer.code == 1
        assert found_in(answer.out + answer.err) == [], command
    assert (canaries / "summary.md").exists()


@pytest.mark.parametrize("said", SAID)
def test_whatever_spark_says_while_it_rewrites(said: str, memory: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
        said = said.replace(f"{{{name}}}", value)
    Path("zlayout.yaml").write_text(PROJECT)
    memory.breaks = RuntimeError(said.replace("{uri}", f"jdbc:postgresql://u:{CANARIES['PASSWORD']}@h/db"))
    for command in (["apply", "--auto-approve", *FORMATS], ["apply", "--auto-approve", "--output", "json"]):
        answer = ask(*command)
        assert answer.code == 1
        assert "ZL307" in answer.out + answer.err
        assert found_in(answer.out + answer.err) == []
    for name in REPORTERS:
        assert found_in(Path(f"report.{name}").read_text()) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hdfs://nn:8020/w/a@b", "hdfs://nn:8020/w/a@b"),
        ("abfss://c@acc.dfs.core.windows.net/x", "abfss://c@acc.dfs.core.windows.net/x"),
        ("postgresql://bob:p@h/db", "postgresql://***@h/db"),
        ("https://ghp_abc@github.com/x", "https://***@github.com/x"),
        ("l_partkey=5, design=4, tokens: 3", "l_partkey=5, design=4, tokens: 3"),
        ("s3.secret-access-key=abc;x", "s3.secret-access-key=***;x"),
        ("fs.s3a.aws.credentials.provider=org.x.Y", "fs.s3a.aws.credentials.provider=org.x.Y"),
    ],
)
def test_text_that_looks_like_a_secret_is_removed_without_being_known(text: str, left: str) -> None:
    assert without_secrets(text) == left
    assert Diagnostic("ZL104", text, hint=text).message == left
    assert Diagnostic("ZL104", text, hint=text).hint == left


SECRET = "c4n4ry/0123+x=="
FORMS = [
    "Authorization: Bearer {}",
    "authorization: bearer {}",
    "Authorization: Basic {}",
    "header: Proxy-Authorization: {}\r\n",
    "Authorization=Bearer {}",
    "401 for Bearer {}, not valid",
    '{{"secret": "{}"}}',
    '{{"client_secret":"{}","scope":"PRINCIPAL_ROLE:ALL"}}',
    '{{"client_secret"  :\n      "{}"}}',
    '{{"body": "{{\\"client_secret\\": \\"{}\\"}}"}}',
    '{{"a": "{{\\"b\\": \\"{{\\\\\\"secret\\\\\\": \\\\\\"{}\\\\\\"}}\\"}}"}}',
    "{{'Authorization': 'Bearer {}'}}",
    "{{'X-Api-Key': b'{}'}}",
    '{{"password": "with \\"quotes\\" and {}"}}',
    "X-Amz-Security-Token: {}",
    "GET /b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={0}&X-Amz-Signature={0}&X-Amz-Security-Token={0}",
    "Authorization: AWS4-HMAC-SHA256 Credential={0}, SignedHeaders=host, Signature={0}",
    "https://a.blob.core.windows.net/c?sv=1&sig={}&se=2030",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "SharedAccessSignature={}",
    'access_token={} "expires_in": 3599',
    '{{"access_token": "{}", "expires_in": 3599}}',
    "jdbc:sqlserver://h:1433;user=sa;password={};encrypt=true",
    "jdbc:mysql://h/db?user=a&password={}",
    "AWS_SECRET_ACCESS_KEY={} AWS_REGION=eu-central-1",
    "conf=spark.hadoop.fs.s3a.secret.key={}",
    "x" * 300 + "_token={}",
    "password='{} and more'",
    'truncated: {{"client_secret": "{}',
    "<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message><Token-0>{}</Token-0></Error>",
    "<Credentials><SecretAccessKey>{0}</SecretAccessKey><SessionToken>{0}</SessionToken></Credentials>",
    "truncated: <SessionToken>{}",
    "private_key: -----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
]  # fmt: skip
TOKENS = [
    "dapi" + "0a" * 16,
    "dapi" + "0a" * 16 + "-2",
    "ghp_" + "aB3" * 12,
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln-_x",
    "ya29.a0AfB_by-0123",
    "github_pat_" + "aB3_" * 12,
    "glpat-" + "aB3-" * 5,
]


@pytest.mark.parametrize("form", FORMS)
def test_what_libraries_write_about_a_request(form: str) -> None:
    left = without_secrets(form.format(SECRET))
    assert SECRET not in left
    assert "c4n4ry" not in left
    assert "***" in left


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_known_by_their_form(token: str) -> None:
    assert without_secrets(f"invalid access token {token} for host h") == "invalid access token *** for host h"


@pytest.mark.parametrize(
    "text",
    [
        "invalid token: expected ')', found 'x'",
        "expected 'password=' in the uri, found 'user='",
        "unknown key 'token': expected one of 'a', 'b'",
        "unknown key 'secret' (did you mean 'tokens'?)",
        "signature: int -> string",
        "Authorization: missing",
        "bearer authentication is not supported, Bearer authentication neither",
        "column token has type string, column sig has type int",
        "partition token: 3 files; password: none",
        "tokens: 3, design=4, l_partkey=5, assignment=x",
        '{"max_tokens": 3, "has_password": true, "credentials": ["a"], "token_uri": "https://h/t"}',
        "fs.s3a.aws.credentials.provider=org.x.Y, secret.path='/a b/c'",
        "https://h:8080/a?b=c, s3://bucket/a@b, catalog=rest;warehouse=w",
        "the key of lake.db.orders: version 12, 47.3 MiB, 24 -> 24 files (docs/operate.md: see 'history')",
        "eyJ is how a token begins; dapi too, and ghp_",
        "<Code>ExpiredToken</Code><Message>The token has expired.</Message> struct<token: string>, map<token, int>",
    ],
)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    assert without_secrets(text) == text


WORDS = [
    "table", "lake.db.orders", "is", "not", "found:", "expected", "'a'", '"b"', "(hint:", "use", "--columns", "a,b)",
    "version", "12", "=", "x=1", "key", "files", "s3://b/k", "http://h:8181/v1", "1,024", "sorted", "by", "[c,", "d]",
    "line", "3:", "design", "signal", "keys=2", "{'type': 'long'}", '"name":', '"id"', "->", "50%", "C:\\x", "\n",
]  # fmt: skip


def test_no_message_of_ordinary_words_is_changed() -> None:
    chance = random.Random(9)
    for _ in range(3000):
        text = " ".join(chance.choices(WORDS, k=chance.randrange(1, 30)))
        assert without_secrets(text) == text


UNITS = [
    "a=", "a=a", "://", "://:", "://u:", "://u:pppp", "http://", "://u:1", "= ", "password=", "secret='", 'secret="',
    'secret=\\"', '"secret":"', '\\"secret\\": \\"', "secret: ", "expires", '"a":"', "\\", '\\"',
    "X-Amz-Security-Token: ",
    "Authorization: Bearer ", "Authorization:", "eyJ", "eyJaaaaaaaa.", "dapi", "ghp_", "ya29.", " ", "Bearer ", "@",
    "a",
    "token", "token ", "\n", "1", "'", "a" * 199 + "=", "sig=&", ":", "&",
    "<token>", "<", "<a>b", "PRIVATE KEY-----", "github_pat_", "glpat-",
]  # fmt: skip


@pytest.mark.parametrize("end", ["", "@", "'", "=", '\\"'])
@pytest.mark.parametrize("unit", UNITS)
def test_the_time_is_proportional_to_the_length(unit: str, end: str) -> None:
    """Eight times the length takes less than 24 times as long; with quadratic time, it would take 64 times as long."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit)) + end
        taken = []
        for _ in range(3):
            begun = time.process_time()
            without_secrets(text)
            taken.append(time.process_time() - begun)
        return min(taken)

    assert seconds(160_000) < 24 * max(seconds(20_000), 0.0005)
