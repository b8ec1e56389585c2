"""Jobs for schedulers: golden files, and the published schema or model of each platform that has one.

`ZLAYOUT_WRITE_GOLDEN=1 pytest tests/unit/app/jobs` writes the golden files again. Nothing was run on a platform.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from databricks.bundles.jobs import Job as DatabricksJob
from jsonschema import Draft202012Validator
from support.projects import Cli, cli

import zlayout
from zlayout.app.crontab import quartz_fields
from zlayout.app.job import JobOptions, Target, job
from zlayout.errors import SpecError
from zlayout.spec.load import load_project
from zlayout.spec.model import Project

__all__ = ["cli"]
FOLDER = Path(__file__).parent
TARGETS = get_args(Target)
YAML = """\
version: 1
catalogs:
  lake: {format: delta, warehouse: s3://lake/delta, storage: {region: eu-central-1}}
  ice:
    format: iceberg
    type: rest
    uri: https://catalog.example.com
    warehouse: main
    properties: {token: "${CATALOG_TOKEN}"}
spark:
  conf:
    spark.executor.memory: 8g
    spark.driver.host: zlayout.layouts.svc
    spark.kubernetes.namespace: layouts
    spark.hadoop.fs.s3a.endpoint: ${S3_ENDPOINT}
    spark.hadoop.fs.s3a.secret.key: ${S3_KEY}
"""
ENVIRONMENT = {
    "CATALOG_TOKEN": "token-of-the-catalog",
    "S3_ENDPOINT": "https://objects.example.com",
    "S3_KEY": "key-of-the-store",
}
ROLE = "arn:aws:iam::123456789012:role/zlayout"
NIGHTLY = JobOptions(schedule="0 3 * * 1-5", spark="4.1", folder="/opt/project")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(YAML)
    (tmp_path / "layouts/t.yaml").write_text("version: 1\ntable: lake.db.t\nzorder: {columns: [a]}\n")
    return load_project(tmp_path, ENVIRONMENT)


def scheduled(target: Target) -> JobOptions:
    return JobOptions(spark="4.1") if target == "emr-serverless" else NIGHTLY


def written(project: Project, target: Target, options: JobOptions) -> Any:
    return yaml.safe_load(job(project, target, options).text)


@pytest.mark.parametrize("target", TARGETS)
def test_golden(project: Project, target: Target) -> None:
    text = job(project, target, scheduled(target)).text.replace(zlayout.__version__, "VERSION")
    path = FOLDER / "golden" / f"{target}.txt"
    if os.environ.get("ZLAYOUT_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("schedule", ["", "17 2 * * *"])
@pytest.mark.parametrize("spark", ["3.5", "4.0", "4.1"])
def test_the_operator_accepts_it(project: Project, schedule: str, spark: str) -> None:
    document = written(project, "k8s-spark-operator", JobOptions(schedule=schedule, spark=spark))
    schema = json.loads((FOLDER / "spark_operator_v1beta2.json").read_text())["kinds"][document["kind"]]
    Draft202012Validator(schema).validate(document)
    application = document["spec"]["template"] if schedule else document["spec"]
    scala = {"3.5": "2.12"}.get(spark, f"{spark}_2.13")
    assert f"delta-spark_{scala}:" in application["sparkConf"]["spark.jars.packages"]
    application["unknown"] = 1
    assert not Draft202012Validator(schema).is_valid(document)


@pytest.mark.parametrize(
    ("target", "service", "options"),
    [
        ("emr-serverless", "emr-serverless", JobOptions(command="drift --sample", role=ROLE)),
        ("glue", "glue", NIGHTLY),
        ("glue", "glue", JobOptions()),
    ],
)
def test_the_model_of_the_service_accepts_it(
    project: Project, target: Target, service: str, options: JobOptions
) -> None:
    pytest.importorskip("botocore", reason="not with the lowest versions, whose dateutil it excludes")
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model(service, "service-2"), service)
    calls = written(project, target, options)
    for operation, parameters in calls.items():
        # The client adds the token that makes a repeated request harmless.
        token = {"clientToken": "x"} if operation == "StartJobRun" else {}
        shape = model.operation_model(operation).input_shape
        assert ParamValidator().validate(parameters | token, shape).generate_report() == ""
        assert ParamValidator().validate(parameters | token | {"unknown": 1}, shape).has_errors()


def test_the_model_of_databricks_accepts_it(project: Project) -> None:
    (body,) = written(project, "databricks", NIGHTLY)["resources"]["jobs"].values()
    assert DatabricksJob.from_dict(body).as_dict() == body
    with pytest.raises(Exception, match="unknown"):
        DatabricksJob.from_dict(body | {"unknown": 1})


def test_cron_runs_it_in_the_folder_of_the_project(project: Project, tmp_path: Path) -> None:
    """The command part, in a shell, with a zlayout that prints what it is given."""
    folder = tmp_path / "a folder's name"
    folder.mkdir()
    program = tmp_path / "bin" / "zlayout"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport os, sys\nprint(os.getcwd(), sys.argv[1:])\n")
    program.chmod(0o755)
    options = JobOptions(command="apply 'lake.*' --auto-approve --report html=a%b.html", folder=str(folder))
    line = job(project, "cron", options).text
    command = re.fullmatch(r"17 2 \* \* \* (.*)\n", line)
    assert command
    assert r"a\%b.html" in command[1]
    shell = command[1].replace(r"\%", "%")
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == f"{folder} {['apply', 'lake.*', '--auto-approve', '--report', 'html=a%b.html']}\n"


@pytest.mark.parametrize("target", TARGETS)
def test_values_of_the_environment_and_secrets_stay_out(project: Project, target: Target) -> None:
    made = job(project, target, scheduled(target))
    for value in ENVIRONMENT.values():
        assert value not in made.text
    if target in ("k8s-spark-operator", "emr-serverless"):
        assert made.left_out == ("spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.secret.key")
    if target == "glue":
        assert "spark.sql.catalog.ice.token" in made.left_out
        assert "spark.sql.catalog.ice.uri=https://catalog.example.com" in made.text


def test_a_driver_in_a_cluster_gets_its_address_from_it(project: Project) -> None:
    document = written(project, "k8s-spark-operator", NIGHTLY)
    conf = document["spec"]["template"]["sparkConf"]
    assert "spark.driver.host" not in conf
    assert "spark.kubernetes.namespace" not in conf
    assert document["metadata"]["namespace"] == "layouts"
    assert conf["spark.executor.memory"] == "8g"


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ("databricks", JobOptions(command="apply --auto-approve"), "ZL080"),
        ("cron", JobOptions(command="apply"), "ZL080"),
        ("cron", JobOptions(command="rm -r /"), "ZL080"),
        ("cron", JobOptions(command="drift 'x"), "ZL080"),
        ("cron", JobOptions(command="  "), "ZL080"),
        ("cron", JobOptions(schedule="* * * *"), "ZL080"),
        ("cron", JobOptions(schedule="* * * * $(x)"), "ZL080"),
        ("glue", JobOptions(command="drift"), "ZL080"),
        ("glue", JobOptions(schedule="1 1 1 * 1"), "ZL080"),
        ("emr-serverless", JobOptions(schedule="1 1 * * *"), "ZL080"),
        ("k8s-spark-operator", JobOptions(spark="4.2"), "ZL080"),
        ("k8s-spark-operator", JobOptions(spark="new"), "ZL080"),
        ("cron", JobOptions(command="drift --report html=https://user:hunter22@example.com"), "ZL081"),
        ("k8s-spark-operator", JobOptions(image="https://token-of-x@registry.example.com/zlayout"), "ZL081"),
    ],
)
def test_what_cannot_run_is_refused(project: Project, target: Target, options: JobOptions, code: str) -> None:
    with pytest.raises(SpecError) as error:
        job(project, target, options)
    assert [each.code for each in error.value.diagnostics] == [code]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("17 2 * * *", ("17", "2", "*", "*", "?")),
        ("0 3 * * 1-5", ("0", "3", "?", "*", "MON-FRI")),
        ("0 3 * * 0,7", ("0", "3", "?", "*", "SUN,SUN")),
        ("*/15 * 1 * *", ("*/15", "*", "1", "*", "?")),
    ],
)
def test_quartz_names_the_days_of_the_week(schedule: str, expected: tuple[str, ...]) -> None:
    assert quartz_fields(schedule) == expected


def test_the_command_writes_a_file_and_lists_placeholders(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    printed = cli("job", "--target", "emr-serverless", "--out", "job.json", "--role", ROLE)
    assert printed.out == ""
    assert "Replace <APPLICATION>, <ENTRY_POINT> before" in printed.err
    assert "spark.hadoop.fs.s3a.secret.key" in printed.err
    assert json.loads(Path("job.json").read_text())["StartJobRun"]["executionRoleArn"] == ROLE
    assert cli("job", "--target", "cron").out.endswith("zlayout apply --auto-approve\n")
    assert "ZL082" in cli("job", "--target", "cron", "--out", "missing/job", code=1).err
