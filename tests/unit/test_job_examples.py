"""The files of examples/jobs, against the published schema or model of each platform. None was run on a platform."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from databricks.bundles.jobs import Job as DatabricksJob
from jsonschema import Draft202012Validator
from support.jars import S3_EXCLUDED, newest_tested

import zlayout
from zlayout.cli.app import app
from zlayout.secrets import without_secrets
from zlayout.spark import versions
from zlayout.spark.session import packages
from zlayout.spec.client_options import spark_catalog_conf
from zlayout.spec.formats import FORMATS
from zlayout.spec.load import load_project

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "examples/jobs"
FILES = sorted(path.name for path in JOBS.iterdir())
GLUE_PAGE = (ROOT / "docs/platforms/glue-jobs.md").read_text()


def example(name: str) -> Any:
    return yaml.safe_load((JOBS / name).read_text())


def commands() -> list[list[str]]:
    """The arguments of zlayout in every file. The script of a Glue job has its own."""
    lines = [line for line in (JOBS / "crontab").read_text().splitlines() if "zlayout " in line and line[0] != "#"]
    (task,) = example("databricks.yml")["resources"]["jobs"]["zlayout"]["tasks"]
    return [
        *(shlex.split(line.replace(r"\%", "%").partition("&& zlayout ")[2]) for line in lines),
        example("kubernetes-spark-operator.yaml")["spec"]["template"]["arguments"],
        example("emr-serverless.yaml")["jobDriver"]["sparkSubmit"]["entryPointArguments"],
        task["python_wheel_task"]["parameters"],
    ]


def test_the_page_lists_every_file() -> None:
    page = (ROOT / "docs/jobs.md").read_text()
    assert set(re.findall(r"`([\w.-]+)`", page.partition("Neither")[0])) >= set(FILES)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_zlayout_accepts_the_command(command: list[str]) -> None:
    name, *arguments = command
    group: Any = typer.main.get_command(app)
    given = group.commands[name].make_context(name, list(arguments)).params
    assert given.get("auto_approve", True)


@pytest.mark.parametrize("name", FILES)
def test_no_example_has_a_secret_and_all_have_this_version(name: str) -> None:
    text = (JOBS / name).read_text()
    assert without_secrets(text) == text
    assert {version for _, version in re.findall(r"zlayout(\[\w+\])?==([\d.]+)", text)} <= {zlayout.__version__}


def test_the_operator_accepts_it_as_a_schedule_and_alone() -> None:
    kinds = json.loads((ROOT / "tests/fixtures/spark_operator_v1beta2.json").read_text())["kinds"]
    document = example("kubernetes-spark-operator.yaml")
    application = document["spec"]["template"]
    for one in (document, document | {"kind": "SparkApplication", "spec": application}):
        Draft202012Validator(kinds[one["kind"]]).validate(one)
    application["unknown"] = 1
    assert not Draft202012Validator(kinds[document["kind"]]).is_valid(document)


def test_kubernetes_gets_the_jars_that_zlayout_requests(tmp_path: Path) -> None:
    (tmp_path / "zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: s3://lake/delta}\n"
    )
    project = load_project(tmp_path, {})
    application = example("kubernetes-spark-operator.yaml")["spec"]["template"]
    newest = newest_tested(next(each for each in reversed(versions.RELEASES) if each.iceberg))
    assert application["sparkVersion"] == newest
    if not newest.startswith(versions.installed().spark):
        pytest.skip("the example is for the newest version of Spark")
    conf = application["sparkConf"]
    assert conf["spark.jars.packages"].split(",") == list(packages(project.catalogs.values()))
    assert conf["spark.jars.excludes"].split(",") == list(S3_EXCLUDED)


@pytest.mark.parametrize(
    ("name", "service", "operation"),
    [
        ("emr-serverless.yaml", "emr-serverless", "StartJobRun"),
        ("glue-job.yaml", "glue", "CreateJob"),
        ("glue-trigger.yaml", "glue", "CreateTrigger"),
    ],
)
def test_the_model_of_the_service_accepts_it(name: str, service: str, operation: str) -> None:
    pytest.importorskip("botocore", reason="not with the lowest versions, whose dateutil it excludes")
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    model = ServiceModel(Loader().load_service_model(service, "service-2"), service)
    shape = model.operation_model(operation).input_shape
    # The client adds the token that makes a repeated request harmless.
    parameters = example(name) | ({"clientToken": "x"} if operation == "StartJobRun" else {})
    if "executionRoleArn" in parameters:  # as long as one
        parameters["executionRoleArn"] = "arn:aws:iam::123456789012:role/zlayout"
    assert ParamValidator().validate(parameters, shape).generate_report() == ""
    assert ParamValidator().validate(parameters | {"unknown": 1}, shape).has_errors()


def test_the_session_of_glue_has_the_catalog_that_zlayout_expects(tmp_path: Path) -> None:
    """What `apply` compares in a session that it is given (ZL207, ZL208), for the project of the page."""
    (tmp_path / "zlayout.yaml").write_text(GLUE_PAGE.partition("```yaml\n")[2].partition("```")[0])
    (catalog,) = load_project(tmp_path, {}).catalogs.values()
    expected = {"spark.sql.extensions": FORMATS["iceberg"].spark_extension} | spark_catalog_conf(catalog)
    given = dict(
        each.split("=", 1) for each in example("glue-job.yaml")["DefaultArguments"]["--conf"].split(" --conf ")
    )
    prefix = "spark.sql.catalog.glue_catalog"
    for key in ("spark.sql.extensions", prefix, f"{prefix}.type", f"{prefix}.warehouse", f"{prefix}.cache-enabled"):
        assert given[key] == expected[key]


def test_the_model_of_databricks_accepts_it() -> None:
    (body,) = example("databricks.yml")["resources"]["jobs"].values()
    assert DatabricksJob.from_dict(body).as_dict() == body
    with pytest.raises(Exception, match="unknown"):
        DatabricksJob.from_dict(body | {"unknown": 1})


def test_cron_runs_its_commands_in_the_folder_of_the_project(tmp_path: Path) -> None:
    """The command parts, in a shell, with a zlayout that prints what it is given."""
    program = tmp_path / "bin" / "zlayout"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport os, sys\nprint(os.getcwd(), *sys.argv[1:])\n")
    program.chmod(0o755)
    lines = re.findall(r"^\d+ \d+ \S+ \S+ \S+ (.*)$", (JOBS / "crontab").read_text(), re.M)
    assert len(lines) == 2
    for line in lines:
        shell = line.replace("/opt/project", str(tmp_path))
        environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout == f"{tmp_path} {line.partition('&& zlayout ')[2]}\n"
