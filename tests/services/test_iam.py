"""`zlayout doctor --iam`: with the printed policies everything works, and the doctor names each action that is removed.

The services are moto in this process, with its check of policies. Two things are added to it: the resources of Glue,
which moto does not check, and the condition on `s3:prefix`. Signatures are not checked: moto takes those of multipart
uploads for wrong ones.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from moto.core.exceptions import AccessDeniedError, JsonRESTError
from moto.core.responses import ActionAuthenticatorMixin
from moto.glue.exceptions import EntityNotFoundException
from moto.glue.responses import GlueResponse
from moto.iam.access_control import IAMPolicyStatement, IAMRequest, IAMRequestBase
from moto.s3.exceptions import S3ClientError
from moto.server import ThreadedMotoServer
from pyiceberg.catalog import load_catalog
from support.dynamodb import LOG_STORE
from support.projects import Cli
from support.servers import CREDENTIALS

from zlayout.formats.iceberg.read import catalog
from zlayout.session.doctor import Check, CheckStatus, Policy, Step, doctor, iam_policies
from zlayout.session.project import load_project

ROWS = pa.table({"a": pa.array(range(100), pa.int64())})
FILES = 3  # of each table, so that a rewrite has something to do
ACCOUNT, REGION = "123456789012", "us-east-1"
KEYS = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/"
NO_CHECK = 1_000_000  # requests before policies are checked
PREFIX: ContextVar[str | None] = ContextVar("prefix", default=None)  # of the list request that is checked


def resources(service: str, body: dict[str, Any]) -> list[str]:
    """What AWS requires a permission for: https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html."""
    if service == "dynamodb":
        return [f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{body.get('TableName')}"]
    if service != "glue":
        return ["*"]
    start, database = f"arn:aws:glue:{REGION}:{ACCOUNT}", body.get("DatabaseName", "")
    name = body.get("Name") or body.get("TableInput", {}).get("Name")
    found = [f"{start}:catalog", f"{start}:database/{database or 'default'}"]
    return [*found, f"{start}:table/{database}/{name or 'any'}"] if database else found


class Encrypt(IAMRequest):
    """The request that S3 sends to KMS for an object, as its user."""

    action = "kms:GenerateDataKey"

    def __init__(self, **request: Any) -> None:
        super().__init__(**request)
        self._action = self.action

    def _raise_access_denied(self) -> None:
        message = f"User: {self._access_key.arn} is not authorized to perform: {self._action}"
        raise S3ClientError("AccessDenied", message)


class Decrypt(Encrypt):
    action = "kms:Decrypt"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    patch = pytest.MonkeyPatch()
    of_s3 = ActionAuthenticatorMixin._authenticate_and_authorize_s3_action

    def check(self: Any, _resource: str = "*") -> None:
        target = str(self.headers.get("X-Amz-Target", ""))
        service = {"AWSGlue": "glue", "DynamoDB_20120810": "dynamodb"}.get(target.partition(".")[0], "")
        for each in resources(service, json.loads(self.raw_body) if service else {}):
            try:
                self._authenticate_and_authorize_action(IAMRequest, each)
            except AccessDeniedError as denied:
                if not service:
                    raise
                raise JsonRESTError("AccessDeniedException", denied.message) from denied  # as AWS answers

    def check_s3(self: Any, bucket_name: str | None = None, key_name: str | None = None) -> None:
        prefix = self.querystring.get("prefix", [""])
        PREFIX.set(prefix[0] if isinstance(prefix, list) else prefix)
        of_s3(self, bucket_name, key_name)
        if "uploads" in self.querystring and self.headers.get("x-amz-server-side-encryption") == "aws:kms":
            key = self.headers["x-amz-server-side-encryption-aws-kms-key-id"]
            self._authenticate_and_authorize_action(Encrypt, f"{KEYS}{key}")
        if self.method == "GET" and key_name and key_name.startswith("glue/"):  # as if that key encrypted all of them
            self._authenticate_and_authorize_action(Decrypt, f"{KEYS}1234abcd")

    def holds(self: IAMPolicyStatement, _incoming: object) -> bool:
        patterns = self._statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", ["*"])
        return any(fnmatchcase(PREFIX.get() or "", pattern) for pattern in patterns)

    patch.setattr(ActionAuthenticatorMixin, "_authenticate_and_authorize_normal_action", check)
    patch.setattr(ActionAuthenticatorMixin, "_authenticate_and_authorize_s3_action", check_s3)
    patch.setattr(IAMPolicyStatement, "_check_conditions", holds)
    patch.setattr(IAMRequestBase, "check_signature", lambda _: None)

    def no_optimizer(_: object) -> None:  # as AWS answers; moto would answer 500, which clients repeat
        raise EntityNotFoundException("no optimizer")

    patch.setattr(GlueResponse, "get_table_optimizer", no_optimizer, raising=False)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        patch.undo()


@dataclass
class Account:
    """An account of AWS with a project's tables, and users with policies."""

    endpoint: str
    patch: pytest.MonkeyPatch
    root: Path
    users: int = field(default=0)

    def check_policies(self, after: int = 0) -> None:
        with urlopen(
            Request(f"{self.endpoint}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})
        ):
            pass

    def become(self, policy: Policy) -> None:
        """Use the credentials of a new user with this policy alone."""
        self.check_policies(NO_CHECK)
        self.users += 1
        name, iam = f"user{self.users}", boto3.client("iam", endpoint_url=self.endpoint, region_name=REGION)
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        self.patch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        self.patch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        self.patch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first request
        catalog._idle.clear()  # clients with the former credentials
        self.check_policies()

    def commit_in_dynamodb(self) -> None:
        """Let Delta's commits be decided in DynamoDB, by Spark's own configuration."""
        (self.root / "spark-defaults.conf").write_text(f"spark.delta.logStore.s3.impl {LOG_STORE}\n")
        self.patch.setenv("SPARK_CONF_DIR", str(self.root))
        self.patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint)
        keys = {"tablePath": "HASH", "fileName": "RANGE"}
        self.dynamodb().create_table(
            TableName="delta_log",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
            BillingMode="PAY_PER_REQUEST",
        )

    def dynamodb(self) -> Any:
        self.check_policies(NO_CHECK)
        return boto3.client("dynamodb", endpoint_url=self.endpoint, region_name=REGION)

    def doctor(self) -> list[Check]:
        return list(doctor(load_project(self.root), timeout=60))

    def apply(self, *tables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zlayout", "apply", "--auto-approve", *tables]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)


@pytest.fixture
def account(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """A Delta table by location and an Iceberg table in Glue, in one bucket with a table of somebody else."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    monkeypatch.chdir(tmp_path)
    found = Account(endpoint, monkeypatch, tmp_path)
    with urlopen(Request(f"{endpoint}/moto-api/reset", b"")):
        found.check_policies(NO_CHECK)
    boto3.client("s3", endpoint_url=endpoint, region_name=REGION).create_bucket(Bucket="lake")
    options = {"aws_endpoint_url": endpoint, "aws_allow_http": "true"}
    for name in ("delta/db/t", "delta/db/others"):
        for _ in range(FILES):
            write_deltalake(f"s3://lake/{name}", ROWS, mode="append", storage_options=options)
    access = {"s3.endpoint": endpoint, "glue.endpoint": endpoint, "client.region": REGION}
    glue = load_catalog("glue", type="glue", warehouse="s3://lake/glue", **access)
    for database in ("db", "others"):
        glue.create_namespace(database)
        table = glue.create_table(f"{database}.i", ROWS.schema)
        for _ in range(FILES):
            table.append(ROWS)
    storage = {"endpoint": endpoint, "region": REGION}
    catalogs = {
        "lake": {"format": "delta", "warehouse": "s3://lake/delta", "storage": storage},
        "glue": {
            "format": "iceberg",
            "type": "glue",
            "uri": endpoint,
            "warehouse": "s3://lake/glue",
            "storage": storage,
            "properties": {"s3.sse.type": "kms", "s3.sse.key": "1234abcd"},
        },
    }
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs}))
    for name in ("lake.db.t", "glue.db.i"):
        layout = {"version": 1, "table": name, "zorder": {"columns": ["a"]}}
        (tmp_path / "layouts" / f"{name}.yaml").write_text(json.dumps(layout))
    yield found
    found.check_policies(NO_CHECK)


def without(policy: Policy, action: str) -> Policy:
    """The policy without an action."""
    statements = [
        entry | {"Action": [each for each in entry["Action"] if each != action]} for entry in policy["Statement"]
    ]
    return policy | {"Statement": [entry for entry in statements if entry["Action"]]}


def failed(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.status is CheckStatus.FAILED]


@pytest.mark.usefixtures("account")
def test_the_policies_name_the_tables_and_no_others(cli: Cli) -> None:
    printed = json.loads(cli("doctor", "--iam").out)
    statements = {entry["Sid"]: entry for entry in printed["apply"]["Statement"]}
    glue = f"arn:aws:glue:{REGION}:{ACCOUNT}"
    assert statements["ReadCatalog"]["Resource"] == [f"{glue}:catalog", f"{glue}:database/db", f"{glue}:table/db/i"]
    assert statements["CommitToCatalog"]["Action"] == ["glue:UpdateTable"]
    assert statements["WriteFiles"]["Resource"] == [
        "arn:aws:s3:::lake/glue/db.db/i/*",
        "arn:aws:s3:::lake/delta/db/t/*",
    ]
    assert statements["Encrypt"]["Resource"] == [f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd"]
    assert [entry["Sid"] for entry in printed["plan"]["Statement"]] == [
        "ReadCatalog",
        "ListCatalog",
        "ListBucket1",
        "ReadFiles",
        "Decrypt",
    ]
    writing = ("Put", "Delete", "Update", "Create", "Abort", "Generate")
    actions = [action for entry in printed["plan"]["Statement"] for action in entry["Action"]]
    assert not [action for action in actions if action.partition(":")[2].startswith(writing)]


def test_the_policy_for_plan_is_enough_to_plan_and_not_to_write(account: Account, cli: Cli) -> None:
    policies = iam_policies(load_project(account.root))
    account.become(policies.plan)
    plan = json.loads(cli("plan", "--sample", "--output", "json").out)
    found = {table["table"]: [problem["code"] for problem in table["diagnostics"]] for table in plan["tables"]}
    assert found == {"glue.db.i": ["ZL441"], "lake.db.t": ["ZL441"]}  # both were read, and fit in one file
    checks = account.doctor()
    assert {(check.step, "s3:PutObject" in check.hint) for check in failed(checks)} == {(Step.WRITE, True)}
    assert "ZL121" in cli("inspect", "glue.others.i", code=1).err
    assert "access is denied" in cli("inspect", "lake.db.others", code=1).err


def test_the_policy_for_apply_passes_every_check(account: Account) -> None:
    account.commit_in_dynamodb()
    account.become(iam_policies(load_project(account.root)).apply)
    checks = account.doctor()
    assert failed(checks) == []
    committing = {c.catalog: (c.status, c.detail) for c in checks if c.step is Step.COMMIT}
    assert committing["lake"] == (CheckStatus.OK, "DynamoDB: delta_log: nothing was written")
    assert committing["glue"][0] is CheckStatus.SKIPPED
    assert "glue:UpdateTable" in committing["glue"][1]
    assert account.dynamodb().scan(TableName="delta_log")["Count"] == 0


@pytest.mark.parametrize(
    "action",
    [
        "glue:GetTable",
        "glue:GetDatabases",
        "glue:GetTables",
        "s3:ListBucket",
        "s3:GetObject",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "kms:Decrypt",
        "kms:GenerateDataKey",
        "dynamodb:DescribeTable",
        "dynamodb:GetItem",
        "dynamodb:Query",
        "dynamodb:PutItem",
    ],
)
def test_the_doctor_names_the_action_that_is_missing(account: Account, action: str) -> None:
    account.commit_in_dynamodb()
    account.become(without(iam_policies(load_project(account.root)).apply, action))
    checks = failed(account.doctor())
    assert checks
    for check in checks:
        assert action in check.hint, str(check)


@pytest.mark.long
def test_apply_rewrites_with_its_policy(account: Account, cli: Cli) -> None:
    account.become(iam_policies(load_project(account.root)).apply)
    done = account.apply()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Applied: 2 as declared." in done.stdout
    cli("drift", code=0)


@pytest.mark.long
def test_apply_names_the_permission_to_commit_and_commits_nothing(account: Account) -> None:
    account.become(without(iam_policies(load_project(account.root)).apply, "glue:UpdateTable"))
    done = account.apply("glue.db.i")
    assert done.returncode == 1
    assert "ZL314" in done.stderr
    assert "glue:UpdateTable" in done.stderr
    assert "zlayout doctor --iam" in done.stderr
    assert "0 commits" in done.stdout


def test_a_table_that_cannot_be_read_yet_has_its_declared_location(account: Account, cli: Cli) -> None:
    nothing = {"Effect": "Allow", "Action": ["sts:GetCallerIdentity"], "Resource": "*"}
    account.become({"Version": "2012-10-17", "Statement": [nothing]})
    printed = cli("doctor", "--iam", code=1)  # the location of the table in Glue is not known
    resources = next(e["Resource"] for e in json.loads(printed.out)["plan"]["Statement"] if e["Sid"] == "ReadFiles")
    assert resources == ["arn:aws:s3:::lake/glue/*", "arn:aws:s3:::lake/delta/db/t/*"]
    assert printed.err.count("access is denied") == 1
    assert "catalog glue" in printed.err


@pytest.mark.usefixtures("root")
def test_a_project_without_aws_has_no_policy(cli: Cli) -> None:
    assert "no table of these catalogs is on AWS" in cli("doctor", "--iam", code=1).err
