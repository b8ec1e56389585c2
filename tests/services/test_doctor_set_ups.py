"""`zlayout doctor` finds each broken set-up of a store: the step, the likely cause, and what to do.

The store is moto with its check of signatures and IAM policies. Errors that it cannot produce come from a small server.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import boto3
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from support.broken_servers import s3_error, tls_server
from support.projects import LAYOUT
from support.s3_proxy import Failure, Fault, s3_proxy
from support.servers import CREDENTIALS, free_port, s3_server

from zlayout.errors import Location, TableError
from zlayout.formats.access import NotChecked, cause_of, require_writable
from zlayout.session.doctor import Check, CheckStatus, Step, doctor
from zlayout.session.project import load_project
from zlayout.spec.model import CatalogConfig

ROWS = pa.table({"a": pa.array(range(100), pa.int64())})
POLICIES = {
    "owner": ["s3:*"],
    "reader": ["s3:ListBucket", "s3:GetObject"],
    "getter": ["s3:GetObject"],
}
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])


@dataclass(frozen=True)
class Store:
    url: str
    keys: dict[str, tuple[str, str]]
    folder: Path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An S3 store that checks keys and policies, with one table of each format."""
    folder, patch = tmp_path_factory.mktemp("store"), pytest.MonkeyPatch()
    for name, value in CREDENTIALS.items():
        patch.setenv(name, value)
    patch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "100000")
    with s3_server(free_port(), "lake") as url:
        iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1")
        keys = {}
        for user, actions in POLICIES.items():
            iam.create_user(UserName=user)
            allowed = [{"Effect": "Allow", "Action": actions, "Resource": "*"}]
            document = json.dumps({"Version": "2012-10-17", "Statement": allowed})
            iam.put_user_policy(UserName=user, PolicyName="p", PolicyDocument=document)
            key = iam.create_access_key(UserName=user)["AccessKey"]
            keys[user] = (key["AccessKeyId"], key["SecretAccessKey"])
        options = {"aws_endpoint_url": url, "aws_allow_http": "true"}
        write_deltalake("s3://lake/delta/db/t", ROWS, storage_options=options)
        access = {
            "s3.endpoint": url,
            "client.region": "us-east-1",
        }  # or pyiceberg asks AWS for the region of the bucket
        catalog = load_catalog(
            "lake", type="sql", uri=f"sqlite:///{folder}/ice.db", warehouse="s3://lake/ice", **access
        )
        catalog.create_namespace("db")
        catalog.create_table("db.t", ROWS.schema).append(ROWS)
        check_keys(url)
        patch.undo()
        yield Store(url, keys, folder)


def check_keys(url: str, after: int = 0) -> None:
    """Make the store check keys and policies after this number of requests."""
    with urlopen(Request(f"{url}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})):
        pass


@dataclass
class Asking:
    """A project with one catalog of one table, which `ask` checks."""

    root: Path
    store: Store
    patch: pytest.MonkeyPatch

    def ask(
        self,
        format_: str,
        *,
        user: str = "owner",
        endpoint: str = "",
        warehouse: str = "",
        timeout: float = 30,
        spark: bool = False,
    ) -> list[Check]:
        key, secret = self.store.keys.get(user, ("", ""))
        return self.ask_with(format_, key, secret, endpoint, warehouse, timeout, spark=spark)

    def ask_with(
        self, format_: str, key: str, secret: str, endpoint: str = "", warehouse: str = "", timeout: float = 30,
        *, spark: bool = False,
    ) -> list[Check]:  # fmt: skip
        self.patch.setenv("AWS_ACCESS_KEY_ID", key)
        self.patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            self.patch.delenv(name, raising=False)
        place = warehouse or ("s3://lake/delta" if format_ == "delta" else "s3://lake/ice")
        entry: dict[str, object] = {"format": format_, "warehouse": place}
        if format_ == "iceberg":
            entry |= {"type": "sql", "uri": f"sqlite:///{self.store.folder}/ice.db"}
        entry["storage"] = {"endpoint": endpoint or self.store.url, "region": "us-east-1"}
        (self.root / "layouts").mkdir(exist_ok=True)
        (self.root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {"lake": entry}}))
        (self.root / "layouts" / "t.yaml").write_text(LAYOUT.replace("lake.db.orders", "lake.db.t"))
        return list(doctor(load_project(self.root), timeout=timeout, spark=spark))


@pytest.fixture
def asking(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(tmp_path, store, monkeypatch)


def assert_fails(found: list[Check], step: Step, cause: str) -> None:
    """The last check failed, with a cause on one line and a hint; all before it succeeded."""
    *before, last = found
    assert (last.step, last.status) == (step, CheckStatus.FAILED), found
    assert cause in last.detail
    assert "\n" not in last.detail
    assert last.hint
    assert "damaged" not in last.detail + last.hint
    assert CheckStatus.FAILED not in {check.status for check in before}


@FORMATS
def test_the_owner_passes_every_step_and_nothing_is_written(asking: Asking, format_: str) -> None:
    check_keys(asking.store.url, 100_000)  # moto takes the signature of a multipart upload for a wrong one
    try:
        client = boto3.client("s3", endpoint_url=asking.store.url, region_name="us-east-1")
        names = [entry["Key"] for entry in client.list_objects_v2(Bucket="lake")["Contents"]]
        found = asking.ask(format_)
        assert [entry["Key"] for entry in client.list_objects_v2(Bucket="lake")["Contents"]] == names
        assert "Uploads" not in client.list_multipart_uploads(Bucket="lake")
    finally:
        check_keys(asking.store.url)
    steps = [Step.RESOLVE, Step.CONNECT, Step.LIST_STORAGE, Step.READ_METADATA, Step.READ_DATA_FILE, Step.WRITE]
    if format_ == "iceberg":
        steps.insert(2, Step.ASK_CATALOG)
    assert [(check.step, check.status) for check in found] == [(step, CheckStatus.OK) for step in steps]


@FORMATS
def test_a_wrong_key(asking: Asking, format_: str) -> None:
    found = asking.ask_with(format_, "AKIAIOSFODNN7EXAMPLE", "wrong")
    assert_fails(found, Step.LIST_STORAGE, "the credentials are wrong")


@FORMATS
def test_a_wrong_secret(asking: Asking, format_: str) -> None:
    found = asking.ask_with(format_, asking.store.keys["owner"][0], "wrong")
    assert_fails(found, Step.LIST_STORAGE, "the credentials are wrong")


@FORMATS
def test_no_bucket(asking: Asking, format_: str) -> None:
    found = asking.ask(format_, warehouse="s3://nowhere/x")
    assert_fails(found, Step.LIST_STORAGE, "the bucket does not exist")


@FORMATS
def test_no_permission_to_list(asking: Asking, format_: str) -> None:
    found = asking.ask(format_, user="getter")
    assert_fails(found, Step.LIST_STORAGE, "access is denied")
    assert "allow these credentials to list" in found[-1].hint


def test_no_permission_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_error(403, "AccessDenied", "Access Denied") as url:
        catalog = CatalogConfig("lake", "delta", "path", {"storage": {"endpoint": url}}, Location(""))
        with pytest.raises(Exception, match="AccessDenied") as error:
            require_writable(catalog, "s3://lake/delta/db/t")
    cause = cause_of(error.value)
    assert cause.reason == "access is denied"
    with pytest.raises(NotChecked, match="gs://"):
        require_writable(catalog, "gs://lake/t")
    require_writable(catalog, str(tmp_path))
    with pytest.raises(PermissionError):
        require_writable(catalog, str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("failure", "times", "left"),
    [(Failure.ERROR, 1, False), (Failure.LOST_ANSWER, 1, False), (Failure.ERROR, None, True)],
)
def test_an_upload_that_cannot_be_aborted_is_reported(
    store: Store, monkeypatch: pytest.MonkeyPatch, failure: Failure, times: int | None, left: bool
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=store.url, region_name="us-east-1")
    check_keys(store.url, 100_000)
    try:
        with s3_proxy(int(store.url.rpartition(":")[2])) as (proxy, url):
            catalog = CatalogConfig("lake", "delta", "path", {"storage": {"endpoint": url}}, Location(""))
            with proxy.failing(Fault("^DELETE .*uploadId=", failure, times)) as fault:
                if left:
                    with pytest.raises(TableError, match=r"ZL115 .*s3://lake/delta/db/t/\.zlayout-doctor"):
                        require_writable(catalog, "s3://lake/delta/db/t")
                else:
                    require_writable(catalog, "s3://lake/delta/db/t")
            assert fault.met
        uploads = client.list_multipart_uploads(Bucket="lake").get("Uploads", [])
        assert [upload["Key"] for upload in uploads] == ["delta/db/t/.zlayout-doctor"] * left
        for upload in uploads:
            client.abort_multipart_upload(Bucket="lake", Key=upload["Key"], UploadId=upload["UploadId"])
    finally:
        check_keys(store.url)


@FORMATS
def test_a_wrong_warehouse(asking: Asking, format_: str) -> None:
    found = asking.ask(format_, warehouse="s3://lake/elsewhere")
    if format_ == "delta":
        assert_fails(
            found, Step.READ_METADATA, "ZL110 expected a Delta table for lake.db.t at s3://lake/elsewhere/db/t"
        )
        assert "warehouse" in found[-1].hint
    else:
        assert_fails(found, Step.LIST_STORAGE, "there is nothing at s3://lake/elsewhere")
        assert found[-1].hint == "correct catalogs.lake.warehouse"


@FORMATS
def test_a_service_that_hangs(asking: Asking, format_: str, hung: int) -> None:
    found = asking.ask(format_, endpoint=f"http://127.0.0.1:{hung}", timeout=2)
    assert_fails(found, Step.LIST_STORAGE, "ZL105 lake.db.t could not be read within 2 s")


@FORMATS
@pytest.mark.parametrize(
    ("status", "code", "message", "cause"),
    [
        (400, "ExpiredToken", "The provided token has expired.", "the credentials have expired"),
        (403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.",
         "the clocks of this machine and of the server differ too much"),
        (400, "AuthorizationHeaderMalformed",
         "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'",
         "the bucket is in another region"),
        (301, "PermanentRedirect", "The bucket must be addressed using the specified endpoint.",
         "the bucket is in another region"),
    ],
    ids=["expired", "clock", "region", "redirect"],
)  # fmt: skip
def test_errors_that_the_store_reports(
    asking: Asking, format_: str, status: int, code: str, message: str, cause: str
) -> None:
    with s3_error(status, code, message) as url:
        assert_fails(asking.ask(format_, endpoint=url), Step.LIST_STORAGE, cause)


@FORMATS
def test_a_certificate_that_nobody_knows(asking: Asking, format_: str, tmp_path: Path) -> None:
    with tls_server(tmp_path) as url:
        assert_fails(asking.ask(format_, endpoint=url), Step.LIST_STORAGE, "the TLS connection failed")
