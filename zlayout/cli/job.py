"""The command `job`: write the job by which a scheduler or a platform runs zlayout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from zlayout.cli import options
from zlayout.cli.console import Color, Console

TargetName = Literal["k8s-spark-operator", "emr-serverless", "glue", "databricks", "cron"]


def job(
    target: Annotated[TargetName, typer.Option("--target", help="The scheduler or platform.")],
    command: Annotated[
        str,
        typer.Option(
            "--command",
            metavar="COMMAND",
            help="What the job runs. Default: apply --auto-approve; on Databricks drift.",
        ),
    ] = "",
    schedule: Annotated[
        str,
        typer.Option("--schedule", metavar="FIELDS", help="Five fields as in crontab, in UTC; for cron in local time."),
    ] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the job.")] = "zlayout",
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="The container image of Spark with zlayout.")
    ] = "",
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="The role, or on Kubernetes the service account.")
    ] = "",
    application: Annotated[
        str, typer.Option("--application", metavar="ID", help="The id of the EMR Serverless application.")
    ] = "",
    entry_point: Annotated[
        str, typer.Option("--entry-point", metavar="FILE", help="The script that Spark starts.")
    ] = "",
    folder: Annotated[
        str, typer.Option("--folder", metavar="FOLDER", help="The folder of the project where the job runs.")
    ] = "",
    spark: Annotated[
        str, typer.Option("--spark", metavar="VERSION", help="The version of Spark on Kubernetes, for example 4.1.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to a file.", show_default=False)] = None,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Write the job by which a scheduler or platform runs zlayout. Sends nothing, and writes no secret."""
    from zlayout.app.files import write_result
    from zlayout.app.job import JobOptions
    from zlayout.app.job import job as write_job
    from zlayout.app.project import load_project

    console = Console(color)
    chosen = JobOptions(name, command, schedule, folder, image, entry_point, role, application, spark)
    made = write_job(load_project(project), target, chosen)
    if out is None:
        console.result(made.text)
    else:
        write_result(out, made.text, "ZL082", str(out))
        console.say(f"job written to {out}")
    if made.placeholders:
        console.say(f"Replace {', '.join(made.placeholders)} before you use it.")
    if made.left_out:
        console.say(f"Left out, because they are secrets or come from variables: {', '.join(made.left_out)}")
    return 0
