"""spark.conf of zlayout.yaml: sizes and access to storage; what runs code or loosens a check is refused by name."""

import json
from pathlib import Path

import pytest
from hostile.asking import refused

from zlayout.spec.load import load_project

REFUSED = [
    "spark.jars", "spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings", "spark.files",
    "spark.archives", "spark.submit.pyFiles", "spark.submit.deployMode", "spark.plugins", "spark.plugins.defaultList",
    "spark.extraListeners", "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions",
    "spark.executor.extraJavaOptions", "spark.driver.extraClassPath", "spark.executor.extraClassPath",
    "spark.driver.extraLibraryPath", "spark.driver.userClassPathFirst", "spark.executorEnv.LD_PRELOAD",
    "spark.pyspark.python", "spark.pyspark.driver.python", "spark.serializer", "spark.closure.serializer",
    "spark.kryo.registrator", "spark.shuffle.manager", "spark.shuffle.sort.io.plugin.class", "spark.metrics.conf",
    "spark.metrics.conf.*.sink.x.class", "spark.ui.filters", "spark.ui.proxyBase",
    "spark.driver.resource.gpu.discoveryScript", "spark.executor.resource.gpu.discoveryScript",
    "spark.resources.discoveryPlugin", "spark.kubernetes.driver.podTemplateFile", "spark.kubernetes.container.image",
    "spark.kubernetes.executor.volumes.hostPath.x.mount.path", "spark.yarn.dist.files", "spark.yarn.jars",
    "spark.yarn.am.extraJavaOptions", "spark.yarn.appMasterEnv.X", "spark.eventLog.dir", "spark.sql.extensions",
    "spark.sql.catalog.x", "spark.sql.catalog.spark_catalog", "spark.sql.hive.metastore.jars",
    "spark.sql.warehouse.dir.x", "spark.sql.queryExecutionListeners", "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.ansi.enabled", "spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles",
    "spark.sql.sources.commitProtocolClass", "spark.databricks.delta.retentionDurationCheck.enabled",
    "spark.databricks.delta.commitValidation.enabled", "spark.delta.logStore.s3.impl",
    "spark.databricks.delta.stats.collect", "spark.ssl.enabled", "spark.authenticate", "spark.authenticate.secret",
    "spark.network.crypto.enabled", "spark.remote", "spark.api.mode", "spark.redaction.regex",
    "spark.hadoop.hadoop.security.group.mapping", "spark.hadoop.net.topology.script.file.name",
    "spark.hadoop.io.serializations", "spark.hadoop.mapreduce.job.reduces", "java.home", "spark", "spark.",
    "sparkXdriver.memory", "spark.driver.memory.x",
]  # fmt: skip
TAKEN = [
    "spark.driver.memory", "spark.executor.memory", "spark.executor.instances", "spark.executor.cores",
    "spark.cores.max", "spark.driver.host", "spark.driver.maxResultSize", "spark.sql.shuffle.partitions",
    "spark.sql.warehouse.dir", "spark.databricks.delta.snapshotPartitions", "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors", "spark.speculation", "spark.speculation.multiplier", "spark.task.cpus",
    "spark.local.dir", "spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net",
    "spark.hadoop.fs.gs.project.id", "spark.hadoop.dfs.nameservices",
    "spark.hadoop.google.cloud.auth.service.account.enable", "spark.hadoop.hive.metastore.uris",
    "spark.sql.adaptive.coalescePartitions.enabled", "spark.network.timeout", "spark.yarn.queue",
    "spark.kubernetes.namespace", "spark.kerberos.principal", "spark.memory.fraction", "spark.ui.enabled",
]  # fmt: skip


def error_of(key: str, folder: Path) -> str:
    catalogs = {"lake": {"format": "delta", "warehouse": "w"}}
    project = {"version": 1, "catalogs": catalogs, "spark": {"conf": {key: "${ONE}"}}}
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    return str(refused(lambda: load_project(folder, {"ONE": "1"})) or "")


@pytest.mark.parametrize("key", REFUSED)
def test_what_runs_code_or_loosens_a_check_is_refused_with_a_way_out(key: str, tmp_path: Path) -> None:
    error = error_of(key, tmp_path)
    assert "ZL028" in error
    assert key in error
    assert "spark-submit" in error
    assert "spark-defaults.conf" in error


@pytest.mark.parametrize("key", TAKEN)
def test_sizes_and_access_settings_are_accepted(key: str, tmp_path: Path) -> None:
    assert error_of(key, tmp_path) == ""
    for other in (f" {key}", f"{key}\n", f"x.{key}", f"{key}\x00", key.upper()):
        assert "ZL0" in error_of(other, tmp_path)
