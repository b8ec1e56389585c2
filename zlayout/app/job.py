"""Make the job definition by which a scheduler or a platform runs zlayout. It contains no secret."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import zlayout
from zlayout.app import crontab
from zlayout.app.crontab import refused
from zlayout.app.job_conf import formats_of, spark_conf
from zlayout.errors import SpecError
from zlayout.message_text import quote_value
from zlayout.secrets import without_secrets
from zlayout.spark import versions
from zlayout.spark.configuration import packages_conf
from zlayout.spec.load import PROJECT_FILE
from zlayout.spec.model import Project
from zlayout.spec.yaml import dump

Target = Literal["k8s-spark-operator", "emr-serverless", "glue", "databricks", "cron"]
APPLY = "apply --auto-approve"
DRIFT = "drift"
COMMANDS = ("plan", "drift", "apply")
EVERY_NIGHT = "17 2 * * *"
# The targets that start Spark. On the others, zlayout starts it, or needs none.
_STARTS_SPARK = ("k8s-spark-operator", "emr-serverless", "glue")
# The jars of Amazon's own builds (docs/platforms/emr.md).
_EMR_JARS = {
    "delta": ("/usr/share/aws/delta/lib/delta-spark.jar", "/usr/share/aws/delta/lib/delta-storage.jar"),
    "iceberg": ("/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar",),
}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job needs in addition to the project. An empty value is written as a placeholder such as `<ROLE>`.

    Attributes:
        name: The name of the job.
        command: The command of zlayout with its options. Empty: `drift` on Databricks, otherwise `apply`.
        schedule: Five fields as in crontab, in UTC, or for cron in local time. Empty: no schedule, or for cron every
            night.
        folder: The folder of the project on the machine that runs the job.
        image: The container image on Kubernetes.
        entry_point: The script that Spark starts.
        role: The role of the job on AWS, and on Kubernetes the service account of the driver.
        application: The id of the application of EMR Serverless.
        spark: The minor version of Spark on Kubernetes; empty for that of the installed pyspark.
    """

    name: str = "zlayout"
    command: str = ""
    schedule: str = ""
    folder: str = ""
    image: str = ""
    entry_point: str = ""
    role: str = ""
    application: str = ""
    spark: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job definition.

    Attributes:
        text: The definition in the language of the target: YAML, JSON, or a line of a crontab.
        placeholders: The placeholders in it, which must be replaced.
        left_out: The names of Spark settings that are not in it, because they are secrets or depend on the machine.
    """

    text: str
    placeholders: tuple[str, ...]
    left_out: tuple[str, ...]


def job(project: Project, target: Target, options: JobOptions) -> Job:
    """Return the job of a project for a platform.

    Raises:
        SpecError: ZL080, the platform cannot do what is requested; ZL081, an option contains a secret.
    """
    arguments = _arguments(target, options.command)
    kept, left_out = spark_conf(project, on_kubernetes=target == "k8s-spark-operator", with_catalogs=target == "glue")
    text = _WRITERS[target](project, options, arguments, kept)
    if without_secrets(text) != text:
        hint = "remove it, and give it to the job as a role, a profile or an environment variable"
        raise SpecError.of("ZL081", "the job would contain a password, a key or a token", hint=hint)
    found = sorted(set(re.findall(r"<[A-Z_]+>", text)))
    return Job(text, tuple(found), left_out if target in _STARTS_SPARK else ())


def _arguments(target: Target, command: str) -> list[str]:
    """Return the arguments of the command. Raises SpecError ZL080."""
    if target == "glue" and command:
        hint = "change the script instead (docs/platforms/glue-jobs.md)"
        raise refused("the script of a Glue job decides what it runs, so that --command is unused", hint)
    try:
        arguments = shlex.split(command or (DRIFT if target == "databricks" else APPLY))
    except ValueError as error:
        raise refused(f"expected a command, found {quote_value(command)}: {error}", "close its quotes") from error
    if not arguments or arguments[0] not in COMMANDS:
        raise refused(f"expected one of {', '.join(COMMANDS)}, found {quote_value(command)}", "use --command drift")
    if arguments[0] == "apply" and target == "databricks":
        hint = "use --command drift, and apply on an open Spark (docs/platforms/databricks.md)"
        raise refused("apply cannot rewrite tables in Databricks", hint)
    if arguments[0] == "apply" and "--auto-approve" not in arguments:
        raise refused("apply asks for approval, which a job cannot give", "add --auto-approve")
    return arguments


def _kubernetes(project: Project, options: JobOptions, arguments: list[str], conf: dict[str, str]) -> str:
    release = next((each for each in versions.RELEASES if each.spark == options.spark), None)
    if options.spark and (release is None or release.iceberg is None):
        known = ", ".join(each.spark for each in versions.RELEASES if each.iceberg)
        raise refused(
            f"expected a version of Spark out of {known}, found {quote_value(options.spark)}", "use one of them"
        )
    release = release or versions.installed()
    namespace = conf.pop("spark.kubernetes.namespace", "default")
    application = {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": versions.newest_tested(release),
        "image": options.image or "<IMAGE>",
        "mainApplicationFile": options.entry_point or "local:///opt/zlayout/run.py",
        "arguments": [*arguments, "--project", options.folder or "/opt/project"],
        # The folder for downloaded jars: the home folder of Spark's user cannot be written to.
        "sparkConf": {**packages_conf(project.catalogs.values(), release), "spark.jars.ivy": "/tmp/.ivy2", **conf},
        "restartPolicy": {"type": "Never"},
        "driver": {"serviceAccount": options.role or "<SERVICE_ACCOUNT>"},
        "executor": {},
    }
    spec: dict[str, Any] = application
    if options.schedule:
        crontab.fields(options.schedule)
        spec = {"schedule": options.schedule, "timeZone": "UTC", "concurrencyPolicy": "Forbid", "template": application}
    return dump(
        {
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "ScheduledSparkApplication" if options.schedule else "SparkApplication",
            "metadata": {"name": options.name, "namespace": namespace},
            "spec": spec,
        },
        width=120,
    )


def _emr(project: Project, options: JobOptions, arguments: list[str], conf: dict[str, str]) -> str:
    if options.schedule:
        raise refused("EMR Serverless has no schedule", "start the job from a scheduler, such as EventBridge")
    jars = [jar for name in formats_of(project) for jar in _EMR_JARS.get(name, ())]
    properties = {
        "spark.jars": ",".join(jars),
        "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "/opt/zlayout/bin/python",
        **conf,
    }
    run = {
        "name": options.name,
        "applicationId": options.application or "<APPLICATION>",
        "executionRoleArn": options.role or "<ROLE>",
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": options.entry_point or "<ENTRY_POINT>",
                "entryPointArguments": [*arguments, "--project", options.folder or "/opt/project"],
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [{"classification": "spark-defaults", "properties": properties}]
        },
    }
    return _json({"StartJobRun": run})


def _glue(project: Project, options: JobOptions, _: list[str], conf: dict[str, str]) -> str:
    arguments = {
        "--datalake-formats": ",".join(formats_of(project)),
        "--additional-python-modules": f"zlayout[glue]=={zlayout.__version__}",
        "--extra-files": f"{options.folder or '<FOLDER>'}/{PROJECT_FILE}",
        "--conf": " --conf ".join(f"{key}={value}" for key, value in conf.items()),
    }
    create = {
        "Name": options.name,
        "Role": options.role or "<ROLE>",
        "GlueVersion": "5.1",
        "Command": {
            "Name": "glueetl",
            "PythonVersion": "3",
            "ScriptLocation": options.entry_point or "<ENTRY_POINT>",
        },
        "DefaultArguments": arguments,
        "ExecutionProperty": {"MaxConcurrentRuns": 1},
        "WorkerType": "G.1X",
        "NumberOfWorkers": 2,
    }
    if not options.schedule:
        return _json({"CreateJob": create})
    minute, hour, day, month, weekday = crontab.quartz_fields(options.schedule)
    trigger = {
        "Name": options.name,
        "Type": "SCHEDULED",
        "Schedule": f"cron({minute} {hour} {day} {month} {weekday} *)",
        "Actions": [{"JobName": options.name}],
        "StartOnCreation": True,
    }
    return _json({"CreateJob": create, "CreateTrigger": trigger})


def _databricks(_project: Project, options: JobOptions, arguments: list[str], _conf: dict[str, str]) -> str:
    body: dict[str, Any] = {
        "name": options.name,
        "max_concurrent_runs": 1,
        "tasks": [
            {
                "task_key": arguments[0],
                "environment_key": "zlayout",
                "python_wheel_task": {
                    "package_name": "zlayout",
                    "entry_point": "zlayout",
                    "parameters": [*arguments, "--project", options.folder or "${workspace.file_path}"],
                },
            }
        ],
        "environments": [
            {
                "environment_key": "zlayout",
                "spec": {"environment_version": "3", "dependencies": [f"zlayout=={zlayout.__version__}"]},
            }
        ],
    }
    if options.schedule:
        minute, hour, day, month, weekday = crontab.quartz_fields(options.schedule)
        quartz = f"0 {minute} {hour} {day} {month} {weekday}"
        body["schedule"] = {"quartz_cron_expression": quartz, "timezone_id": "UTC"}
    key = re.sub(r"\W", "_", options.name)
    return dump({"bundle": {"name": options.name}, "resources": {"jobs": {key: body}}}, width=120)


def _cron(project: Project, options: JobOptions, arguments: list[str], _conf: dict[str, str]) -> str:
    schedule = options.schedule or EVERY_NIGHT
    crontab.fields(schedule)
    folder = shlex.quote(options.folder or str(Path(project.root)))
    # cron ends a command at a percent sign.
    return f"{schedule} cd {folder} && zlayout {shlex.join(arguments)}".replace("%", r"\%") + "\n"


_WRITERS: dict[Target, Callable[[Project, JobOptions, list[str], dict[str, str]], str]] = {
    "k8s-spark-operator": _kubernetes,
    "emr-serverless": _emr,
    "glue": _glue,
    "databricks": _databricks,
    "cron": _cron,
}


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
