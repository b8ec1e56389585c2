"""What pyiceberg makes of the responses of a REST catalog, of table properties, and of files of its own.

All through zlayout's entry points and the real pyiceberg. Canary servers record what reaches them; a canary module
writes a file when it is imported.
"""

import ast
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from support.fake_rest import Canary, Responses, bomb, canary, fake_rest
from support.servers import CREDENTIALS

import zlayout
from zlayout import reading
from zlayout.errors import Location, TableError
from zlayout.formats.iceberg.read import catalog as read
from zlayout.formats.iceberg.read import manifests as avro
from zlayout.formats.iceberg.read.observe import observe
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import S3_ENDPOINT_VARIABLES

NAME = TableName("ice", ("db",), "t")
SCHEMA = Schema(NestedField(1, "a", LongType(), required=False))
SECRET = "the-secret-of-this-machine"
VENDED = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended-secret", "s3.session-token": "vended-token"}

# Where pyiceberg imports what a string names: the module and the function, with the property that has this string.
IMPORTS = {
    ("catalog/__init__.py", "_import_catalog"): {"py-catalog-impl": "canary_module.Canary"},
    ("catalog/rest/auth.py", "AuthManagerFactory.create"): {
        "auth": {"type": "custom", "impl": "canary_module.Canary", "custom": {}}
    },
    ("io/__init__.py", "_import_file_io"): {"py-io-impl": "canary_module.Canary"},
    ("io/pyarrow.py", "_import_retry_strategy"): {"s3.retry-strategy-impl": "canary_module.Canary"},
    ("table/locations.py", "_import_location_provider"): {"write.py-location-provider.impl": "canary_module.Canary"},
    ("transforms.py", "_try_import"): {},  # its callers pass the name of a package of pyiceberg
}
_IMPORTING = {"import_module", "__import__", "resolve_name", "entry_points", "load_module"}
_RUNNING = {"exec", "eval"}  # as functions, not as methods


def importing_functions(root: Path) -> set[tuple[str, str]]:
    """The functions of a package that call something that imports or runs what a string names."""
    found = set()

    def visit(node: ast.AST, file: str, names: tuple[str, ...]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = (*names, node.name)
        if isinstance(node, ast.Call):
            method, function = getattr(node.func, "attr", ""), getattr(node.func, "id", "")
            if method in _IMPORTING or function in _IMPORTING | _RUNNING:
                found.add((file, ".".join(names)))
        for child in ast.iter_child_nodes(node):
            visit(child, file, names)

    for path in sorted(root.rglob("*.py")):
        visit(ast.parse(path.read_text()), path.relative_to(root).as_posix(), ())
    return found


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the canary module writes when it is imported."""
    folder, marker = tmp_path / "modules", tmp_path / "imported"
    folder.mkdir()
    (folder / "canary_module.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Canary: ...\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield marker
    sys.modules.pop("canary_module", None)


@pytest.fixture
def local(tmp_path: Path) -> CatalogConfig:
    options = {"uri": f"sqlite:///{tmp_path / 'ice.db'}", "warehouse": f"file://{tmp_path / 'w'}"}
    return CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml", 3, 5))


@pytest.fixture
def writer(local: CatalogConfig) -> Iterator[Catalog]:
    """A catalog of pyiceberg with the table ice.db.t, which has one file."""
    catalog = load_catalog("ice", type="sql", **local.options)
    catalog.create_namespace("db")
    catalog.create_table("db.t", SCHEMA).append(pa.table({"a": pa.array([1, 9], pa.int64())}))
    yield catalog
    catalog.close()


@pytest.fixture
def responses(writer: Catalog) -> Responses:
    table = writer.load_table("db.t")
    return Responses(json.loads(Path(table.metadata_location[7:]).read_text()), table.metadata_location)


@pytest.fixture
def on_s3(responses: Responses) -> Responses:
    """A table whose files are in a bucket."""
    text = json.dumps(responses.metadata).replace(responses.metadata["location"], "s3://bucket/t")
    return Responses(json.loads(text), "s3://bucket/t/metadata/00001.metadata.json")


@pytest.fixture
def rest(responses: Responses) -> Iterator[CatalogConfig]:
    with fake_rest(responses) as url:
        yield rest_config(url)


def set_properties(writer: Catalog, name: str, properties: dict[str, str]) -> None:
    """Change the metadata file, because pyiceberg imports the classes in properties that it writes."""
    path = Path(writer.load_table(name).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["properties"] |= properties
    path.write_text(json.dumps(metadata))


def rest_config(url: str, **options: Any) -> CatalogConfig:
    return CatalogConfig("ice", "iceberg", "rest", {"uri": url, **options}, Location("zlayout.yaml", 3, 5))


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The credentials of this machine, and no catalog that an earlier test has loaded."""
    for name in (*S3_ENDPOINT_VARIABLES, "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (CREDENTIALS | {"AWS_SECRET_ACCESS_KEY": SECRET}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    read._idle.clear()
    yield
    read._idle.clear()


@pytest.fixture
def foreign() -> Iterator[Canary]:
    with canary() as found:
        yield found


def test_every_place_where_pyiceberg_imports_by_name_is_known() -> None:
    found = importing_functions(Path(pyiceberg.__path__[0]))
    assert found == set(IMPORTS), "close the new place in zlayout.formats.iceberg.read, and add it to the list"


def test_a_new_place_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import importlib\nclass A:\n    def f(self, n): importlib.import_module(n)\n")
    assert importing_functions(tmp_path) == {("m.py", "A.f")}


@pytest.mark.parametrize("place", ["defaults", "overrides", "config", "credentials", "metadata"])
@pytest.mark.parametrize("properties", [p for p in IMPORTS.values() if p], ids=lambda p: next(iter(p)))
def test_no_response_of_a_server_imports_a_class(
    place: str, properties: dict[str, Any], responses: Responses, rest: CatalogConfig, marker: Path
) -> None:
    match place:
        case "credentials":
            if any(not isinstance(value, str) for value in properties.values()):
                pytest.skip("pyiceberg accepts only strings there")
            responses.credentials = [{"prefix": "", "config": properties}]
        case "metadata":
            responses.metadata["properties"] |= {k: v for k, v in properties.items() if isinstance(v, str)}
        case _:
            setattr(responses, place, properties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zlayout.formats.iceberg.read.catalog.MAX_SECONDS_OF_USE", 0.0)
        with suppress(TableError):  # ZL137, for some keys
            assert observe(rest, NAME, ["a"]).files.rows.tolist() == [2]
    assert not marker.exists()


@pytest.mark.parametrize("properties", [p for p in IMPORTS.values() if p], ids=lambda p: next(iter(p)))
def test_no_table_property_imports_a_class(
    properties: dict[str, Any], local: CatalogConfig, writer: Catalog, marker: Path
) -> None:
    strings = {key: value if isinstance(value, str) else json.dumps(value) for key, value in properties.items()}
    set_properties(writer, "db.t", strings)
    assert observe(local, NAME, ["a"]).files.rows.tolist() == [2]
    assert not marker.exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("uri", "{canary}/"),
        ("oauth2-server-uri", "{canary}/token"),
        ("s3.signer.uri", "{canary}"),
        ("client.refresh-credentials-endpoint", "{canary}/credentials"),
        ("rest.auth.type", "canary.Manager"),
        ("client.factory", "canary.Factory"),
        ("s3.client-factory-impl", "canary.Factory"),
        ("client.credentials-provider", "canary.Provider"),
        ("metrics-reporter-impl", "canary.Reporter"),
        ("io-impl", "canary.FileIO"),
        ("s3.proxy-uri", "{canary}"),
        ("http-client.proxy-endpoint", "{canary}"),
        ("s3.role-arn", "arn:aws:iam::1:role/x"),
        ("client.profile-name", "other"),
        ("rest.sigv4-enabled", "true"),
    ],
)
@pytest.mark.parametrize("place", ["defaults", "overrides", "config"])
def test_what_spark_would_obey_is_refused_before_spark_starts(
    key: str, value: str, place: str, responses: Responses, rest: CatalogConfig, foreign: Canary
) -> None:
    if (place, key) == ("defaults", "uri"):
        pytest.skip("a default does not replace what is declared")
    setattr(responses, place, {key: value.format(canary=foreign.url)})
    with pytest.raises(TableError, match=f"ZL137 .*{key}") as error:
        observe(rest, NAME, ["a"])
    assert foreign.requests == []
    assert error.value.diagnostics[0].hint


def test_what_servers_usually_send_is_accepted(responses: Responses, rest: CatalogConfig) -> None:
    uri = rest.options["uri"]
    responses.defaults = {
        "rest-page-size": "200",
        "default-base-location": "s3://b/x",
        "nessie.is-nessie-catalog": "true",
        "nessie.core-base-uri": "http://other.example.com/api/",
        "rest-metrics-reporting-enabled": "false",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    responses.overrides = {"uri": f"{uri}/", "unknown": "value", "number": 7}
    responses.config = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.write.storage-class": "STANDARD",
        "http-client.urlconnection.socket-timeout-ms": "1000",
        "s3.signer.uri": uri,
        "s3.signer.endpoint": "v1/aws/s3/sign/x",
        "client.refresh-credentials-endpoint": "v1/namespaces/db/tables/t/credentials",
        "token": "of-the-table",
    }
    assert observe(rest, NAME, ["a"]).files.rows.tolist() == [2]
    with read.loaded_catalog(rest) as loaded:
        assert set(loaded.properties) - {"type", "uri", "init_catalog_tables"} == {
            "rest-page-size",
            "nessie.is-nessie-catalog",
            "py-io-impl",
            "s3.retry-strategy-impl",
            "zlayout.catalog",
        }
        assert loaded.properties["py-io-impl"].startswith("zlayout.")


def test_only_metadata_is_read_as_a_whole(rest: CatalogConfig, local: CatalogConfig) -> None:
    for catalog in (rest, local):
        path = observe(catalog, NAME, ["a"]).files.path[0].as_py()
        assert isinstance(read.load_table(catalog, NAME).io.new_input(path).open(), pa.NativeFile)


HOSTS = {
    "s3": ("s3://bucket/t", {"s3.endpoint": "{url}", "client.region": "us-east-1"}),
    "gcs": ("gs://bucket/t", {"gcs.service.host": "{url}"}),
    "blob": ("abfss://c@a.dfs.core.windows.net/t", {"adls.account-name": "a", "adls.blob-storage-authority": "{host}"}),
    "dfs": ("abfss://c@a.dfs.core.windows.net/t", {"adls.account-name": "a", "adls.dfs-storage-authority": "{host}"}),
    "account": ("abfss://c@a.dfs.core.windows.net/t", {"adls.account-host": "{host}"}),
}


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("place", ["defaults", "overrides", "config", "credentials"])
def test_a_server_chooses_no_host_for_the_credentials_of_this_machine(
    kind: str, place: str, responses: Responses, foreign: Canary
) -> None:
    location, template = HOSTS[kind]
    text = json.dumps(responses.metadata).replace(responses.metadata["location"], location)
    host = foreign.url.removeprefix("http://")
    given = {key: value.format(url=foreign.url, host=host) for key, value in template.items()}
    moved = Responses(json.loads(text), f"{location}/metadata/00001.metadata.json")
    if place == "credentials":
        moved.credentials = [{"prefix": location[:2], "config": given}]
    else:
        setattr(moved, place, given)
    key = next(key for key, value in template.items() if "{" in value)
    with fake_rest(moved) as url, pytest.raises(TableError, match=rf"ZL138 .*{key}.*{host}") as error:
        observe(rest_config(url), NAME, ["a"])
    assert "ice" in error.value.diagnostics[0].hint
    assert foreign.requests == []


@pytest.mark.parametrize("type_", ["sql", "rest"])
def test_a_table_property_chooses_no_host(
    type_: str, local: CatalogConfig, writer: Catalog, on_s3: Responses, foreign: Canary
) -> None:
    hostile = {
        "s3.endpoint": foreign.url,
        "s3.proxy-uri": foreign.url,
        "gcs.service.host": foreign.url,
        "client.region": "us-east-1",
        "s3.role-arn": "arn:aws:iam::1:role/x",
    }
    if type_ == "sql":
        set_properties(writer, "db.t", hostile)
        table = read.load_table(local, NAME)
    else:
        on_s3.metadata["properties"] |= hostile
        with fake_rest(on_s3) as url:
            table = read.load_table(rest_config(url), NAME)
    assert hostile.keys().isdisjoint(table.io.properties)
    assert foreign.requests == []


def test_a_host_with_credentials_of_the_server_gets_these_alone(on_s3: Responses, foreign: Canary) -> None:
    on_s3.config = {"s3.endpoint": foreign.url, "s3.region": "us-east-1", **VENDED}
    own = {"s3.session-token": SECRET, "s3.role-arn": "arn:aws:iam::1:role/own", "s3.access-key-id": "own"}
    with fake_rest(on_s3) as url, pytest.raises(TableError, match=r"ZL12[57]"):
        observe(rest_config(url, properties=own), NAME, ["a"])
    sent = "".join(foreign.requests)
    assert "Credential=vended/" in sent
    assert "vended-token" in sent
    assert SECRET not in sent
    assert "Credential=test" not in sent
    assert "AssumeRole" not in sent


def test_half_of_the_credentials_is_not_enough(on_s3: Responses, foreign: Canary) -> None:
    on_s3.config = {"s3.endpoint": foreign.url, "client.region": "us-east-1", "s3.access-key-id": "vended"}
    with fake_rest(on_s3) as url, pytest.raises(TableError, match="ZL138"):
        observe(rest_config(url), NAME, ["a"])
    assert foreign.requests == []


@pytest.mark.parametrize("declared", ["storage", "environment", "properties"])
def test_a_declared_host_gets_the_credentials_of_this_machine(
    declared: str, on_s3: Responses, foreign: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_s3.config = {"s3.endpoint": f"{foreign.url}/", "client.region": "us-east-1"}
    options: dict[str, Any] = {}
    match declared:
        case "storage":
            options = {"storage": {"endpoint": foreign.url}}
        case "environment":
            monkeypatch.setenv("AWS_ENDPOINT_URL", foreign.url)
        case _:
            options = {"properties": {"s3.endpoint": foreign.url}}
    with fake_rest(on_s3) as url, pytest.raises(TableError, match=r"ZL12[57]"):
        observe(rest_config(url, **options), NAME, ["a"])
    assert "Credential=test/" in "".join(foreign.requests)


@pytest.mark.parametrize(
    ("location", "accepted"),
    [
        ("abfss://c@account.dfs.core.windows.net/t", True),
        ("abfss://c@evil.example.com/t", False),
        ("wasbs://c@evil.example.com/t", False),
        ("abfss://c@dfs.core.windows.net.evil.example.com/t", False),
    ],
)
def test_a_location_chooses_no_host_outside_azure(location: str, accepted: bool, responses: Responses) -> None:
    text = json.dumps(responses.metadata).replace(responses.metadata["location"], location)
    moved = Responses(json.loads(text), f"{location}/metadata/1.metadata.json")
    with fake_rest(moved) as url:
        if accepted:
            read.load_table(rest_config(url), NAME)
        else:
            with pytest.raises(TableError, match=r"ZL138 .*evil\.example\.com"):
                read.load_table(rest_config(url), NAME)


@pytest.mark.usefixtures("writer")
def test_a_catalog_reads_no_metadata_file_on_a_host_outside_azure(local: CatalogConfig) -> None:
    """A database, a metastore or Glue names the file. A client of Azure would send the credentials to its host."""
    database = sqlite3.connect(str(local.options["uri"]).removeprefix("sqlite:///"))
    with closing(database), database:
        database.execute("UPDATE iceberg_tables SET metadata_location = 'abfss://c@evil.example.com/t/metadata/1.json'")
    with pytest.raises(TableError, match=r"ZL138 .*evil\.example\.com"):
        read.load_table(local, NAME)


CONFIG_FILE = """\
catalog:
  ice:
    py-catalog-impl: canary_module.Canary
    py-io-impl: canary_module.Canary
    uri: "http://127.0.0.1:1"
max-workers: nothing
legacy-current-snapshot-id: "not a flag"
manifest-cache-size: nothing
"""
VARIABLES = {
    "PYICEBERG_CATALOG__ICE__URI": "sqlite:////nowhere",
    "PYICEBERG_CATALOG__ICE__PY_IO_IMPL": "canary_module.Canary",
    "PYICEBERG_CATALOG__ICE__S3__RETRY_STRATEGY_IMPL": "canary_module.Canary",
    "PYICEBERG_CATALOG__ICE__ECHO": "nothing",
    "PYICEBERG_MAX_WORKERS": "nothing",
    "PYICEBERG_MANIFEST_CACHE_SIZE": "nothing",
    "PYICEBERG_LEGACY_CURRENT_SNAPSHOT_ID": "nothing",
}
READ_ALONE = """\
import sys
opened = []
sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == "open" else None)
from pathlib import Path
from zlayout.cli.main import run
code = run(["inspect", "ice.db.t", "--json"])
print([path for path in opened if path.endswith(".pyiceberg.yaml")], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("place", ["files", "variables"])
def test_nothing_but_zlayout_yaml_defines_a_catalog(
    place: str, local: CatalogConfig, marker: Path, tmp_path: Path
) -> None:
    project, home, configured = tmp_path / "project", tmp_path / "home", tmp_path / "configured"
    for folder in (project, home, configured):
        folder.mkdir()
        if place == "files":
            (folder / ".pyiceberg.yaml").write_text(CONFIG_FILE)
    entry = {"format": "iceberg", "type": "sql", **local.options}
    (project / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {"ice": entry}}))
    environment = os.environ | {"HOME": str(home)} | (VARIABLES if place == "variables" else {})
    environment["PYTHONPATH"] = os.pathsep.join((str(Path(zlayout.__path__[0]).parent), environment["PYTHONPATH"]))
    if place == "files":
        environment["PYICEBERG_HOME"] = str(configured)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALONE],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert done.stderr.splitlines()[-1] == "[]"
    assert not marker.exists()


def test_pyiceberg_reads_its_configuration_in_these_modules_only() -> None:
    """Each is without effect since `zlayout.formats.iceberg.read` was imported. See the test above."""
    root = Path(pyiceberg.__path__[0])
    importing = "from pyiceberg.utils.config import Config"
    found = {p.relative_to(root).as_posix() for p in root.rglob("*.py") if importing in p.read_text()}
    assert found == {
        "catalog/__init__.py",
        "catalog/bigquery_metastore.py",
        "io/pyarrow.py",
        "manifest.py",
        "serializers.py",
        "table/__init__.py",
        "table/metadata.py",
        "utils/concurrent.py",
    }


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """A limit that tests reach quickly."""
    monkeypatch.setattr(reading, "MAX_METADATA_BYTES", 1 << 20)
    return 1 << 20


@pytest.mark.parametrize("compressed", [True, False])
def test_a_metadata_file_that_is_too_large_is_not_parsed(
    compressed: bool, local: CatalogConfig, writer: Catalog, small_limit: int
) -> None:
    table = writer.load_table("db.t")
    content = json.dumps(json.loads(Path(table.metadata_location[7:]).read_text()) | {"x": " " * small_limit}).encode()
    path = table.metadata_location.replace(".metadata.json", ".gz.metadata.json" if compressed else "-2.metadata.json")
    Path(path[7:]).write_bytes(gzip.compress(content) if compressed else content)
    writer.drop_table("db.t")
    writer.register_table("db.t", path) if small_limit > len(content) else _register(local, path)
    with pytest.raises(TableError, match=r"ZL123 .*1,048,576 bytes"):
        observe(local, NAME, ["a"])


def test_a_metadata_file_with_too_many_values_is_not_parsed(
    local: CatalogConfig, writer: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_METADATA_VALUES", 1000)
    path = Path(writer.load_table("db.t").metadata_location.removeprefix("file://"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"x": [[]] * 1001}))
    with pytest.raises(TableError, match=r"ZL123 .*1,000 values"):
        observe(local, NAME, ["a"])


def _register(local: CatalogConfig, path: str) -> None:
    import sqlite3

    with sqlite3.connect(local.options["uri"].removeprefix("sqlite:///")) as database:
        row = ("ice", "db", "t", path, "TABLE")
        columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
        database.execute(f"INSERT INTO iceberg_tables ({columns}) VALUES (?, ?, ?, ?, ?)", row)


def test_a_response_that_is_too_large_is_not_parsed(
    responses: Responses, rest: CatalogConfig, small_limit: int
) -> None:
    list_before = observe(rest, NAME, ["a"]).files.rows.tolist()
    assert list_before == [2]
    responses.gzipped = bomb(8 * small_limit)
    assert len(responses.gzipped) < small_limit / 50
    with pytest.raises(TableError, match=r"ZL123 .*1,048,576 bytes"):
        observe(rest, NAME, ["a"])
    read._idle.clear()
    with pytest.raises(TableError, match=r"ZL121 .*1,048,576 bytes"):
        observe(rest, NAME, ["a"])


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "bzip2", "null"])
@pytest.mark.parametrize("kind", ["manifest_list", "manifest"])
def test_an_avro_block_that_is_too_large_is_not_read(
    codec: str, kind: str, local: CatalogConfig, writer: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = writer.load_table("db.t").current_snapshot()
    assert snapshot is not None
    location = snapshot.manifest_list
    if kind == "manifest":
        location = snapshot.manifests(writer.load_table("db.t").io)[0].manifest_path
    limit = 1 << 16
    monkeypatch.setattr(avro, "MAX_AVRO_BYTES", limit)
    path = Path(location[7:])
    path.write_bytes(with_block(path.read_bytes(), codec, b"\0" * (8 * limit)))
    with pytest.raises(TableError, match=r"ZL125 .*65,536 bytes"):
        observe(local, NAME, ["a"])


def test_records_without_bytes_are_not_read_without_end(
    local: CatalogConfig, writer: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = writer.load_table("db.t").current_snapshot()
    assert snapshot is not None
    monkeypatch.setattr(avro, "MAX_AVRO_RECORDS", 1000)
    path = Path(snapshot.manifests(writer.load_table("db.t").io)[0].manifest_path[7:])
    path.write_bytes(with_block(path.read_bytes(), "null", b"\0" * 10, records=1 << 40))
    with pytest.raises(TableError, match=r"ZL125 .*1,000"):
        observe(local, NAME, ["a"])


def with_block(content: bytes, codec: str, plain: bytes, records: int = 1) -> bytes:
    """An Avro file with the schema of another one, and one block."""
    import bz2
    from io import BytesIO

    import zstandard
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.encoder import BinaryEncoder
    from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
    from pyiceberg.avro.resolver import construct_reader, construct_writer

    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(new_decoder(content))
    header.meta["avro.codec"] = codec
    output = BytesIO()
    encoder = BinaryEncoder(output)
    construct_writer(META_SCHEMA).write(encoder, header)
    pack = zlib.compressobj(wbits=-15)
    packed = {
        "deflate": lambda: pack.compress(plain) + pack.flush(),
        "zstandard": lambda: zstandard.ZstdCompressor().compress(plain),
        "bzip2": lambda: bz2.compress(plain),
        "null": lambda: plain,
    }[codec]()
    encoder.write_int(records)
    encoder.write_bytes(packed)
    encoder.write(header.sync)
    return output.getvalue()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "properties",
    [
        {"token": SECRET},
        {"credential": f"id:{SECRET}"},
        {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1"},
        {},
    ],
    ids=["token", "credential", "sigv4", "no login"],
)
def test_no_redirect_of_a_server_is_followed(
    responses: Responses,
    foreign: Canary,
    status: int,
    properties: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """requests would send the form with the client secret, AWS' session token, or a password of ~/.netrc."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"default login user password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    responses.redirect = (status, foreign.url.replace("127.0.0.1", "localhost"))
    with fake_rest(responses) as url, pytest.raises(TableError) as caught:
        read.load_table(rest_config(url, properties=properties), NAME)
    assert foreign.requests == []
    assert "ZL121" in str(caught.value)
    assert "follows no redirect" in str(caught.value)


def test_no_password_of_netrc_is_sent_with_the_request_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with canary() as own, pytest.raises(TableError):
        read.load_table(rest_config(own.url, properties={"credential": f"id:{SECRET}"}), NAME)
    assert own.requests[0].startswith("POST /v1/oauth/tokens")
    assert "Authorization" not in own.requests[0]


@pytest.mark.parametrize("listed", ["namespaces", "identifiers"])
def test_pages_without_end_are_not_collected(
    listed: str, responses: Responses, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = [["x" * 1000]] * 1000 if listed == "namespaces" else [{"namespace": ["db"], "name": "x" * 1000}] * 1000

    def body(path: str) -> dict[str, Any]:
        if path == "/v1/config":
            return {}
        if path == "/v1/namespaces" and listed != "namespaces":
            return {"namespaces": [["db"]]}
        return {listed: endless, "next-page-token": "again"}

    monkeypatch.setattr(responses, "body", body)
    monkeypatch.setattr(reading, "MAX_LISTED_BYTES", 10_000_000)
    with fake_rest(responses) as url, pytest.raises(TableError, match=r"ZL121 .* more than 10,000,000 bytes"):
        list(read.list_tables(rest_config(url), TableName("ice", ("*",), "*")))
    assert len(responses.requests) in (11, 12)


def test_a_namespace_to_which_access_is_denied_fails_alone(
    responses: Responses, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {name: {"identifiers": [{"namespace": [name], "name": "t"}]} for name in ("hr", "sales", "web")}
    answers = {f"/v1/namespaces/{name}/tables": listed for name, listed in tables.items()}
    answers |= {"/v1/config": {}, "/v1/namespaces": {"namespaces": [["hr"], ["sales"], ["web"]]}}
    monkeypatch.setattr(responses, "body", answers.get)
    responses.forbidden = ("/v1/namespaces/hr/tables",)
    with fake_rest(responses) as url:
        config, every = rest_config(url), TableName("ice", ("*",), "*")
        denied, sales, web = read.list_tables(config, every)
        assert [str(one.table) for one in (denied, sales, web)] == ["ice.hr.*", "ice.sales.t", "ice.web.t"]
        assert "ZL121 namespace hr of catalog ice (type rest) cannot be listed: access is denied" in str(denied.problem)
        assert (sales.problem, web.problem) == (None, None)
        responses.forbidden = tuple(answers)
        with pytest.raises(TableError, match=r"ZL121 catalog ice .* access is denied"):
            list(read.list_tables(config, every))
