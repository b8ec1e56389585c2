"""Canaries in settings, URIs and the environment: none comes out, whatever fails, in whatever format."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
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
