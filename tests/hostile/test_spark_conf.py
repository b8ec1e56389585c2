"""spark.conf and spark.master of zlayout.yaml: what runs code, reads files or loosens a check is refused."""

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
    # classes that Hadoop, S3A, ABFS and gcs-connector load
    "spark.hadoop.fs.s3a.impl", "spark.hadoop.fs.x.impl", "spark.hadoop.fs.AbstractFileSystem.x.impl",
    "spark.hadoop.fs.azure.account.keyprovider.acc.dfs.core.windows.net", "spark.hadoop.fs.azure.account.keyprovider",
    "spark.hadoop.fs.azure.shellkeyprovider.script", "spark.hadoop.fs.azure.sas.token.provider.type",
    "spark.hadoop.fs.azure.account.oauth.provider.type.acc.evil.example.com",
    "spark.hadoop.fs.azure.delegation.token.provider.type", "spark.hadoop.fs.azure.identity.transformer.class",
    "spark.hadoop.fs.azure.encryption.context.provider.type", "spark.hadoop.fs.s3a.aws.credentials.provider.mapping",
    "spark.hadoop.fs.s3a.custom.signers", "spark.hadoop.fs.s3a.http.signer.class",
    "spark.hadoop.fs.s3a.signing-algorithm",
    "spark.hadoop.fs.s3a.s3.client.factory.impl", "spark.hadoop.fs.s3a.delegation.token.binding",
    "spark.hadoop.fs.s3a.input.stream.custom.factory", "spark.hadoop.fs.s3a.audit.service.classname",
    "spark.hadoop.fs.s3a.encryption.cse.custom.keyring.class.name", "spark.hadoop.fs.s3a.metadatastore.impl",
    "spark.hadoop.fs.s3a.bucket.lake.s3.client.factory.impl", "spark.hadoop.fs.s3a.bucket.lake.custom.signers",
    "spark.hadoop.fs.gs.authorization.handler.impl", "spark.hadoop.fs.gs.auth.access.token.provider.impl",
    "spark.hadoop.google.cloud.auth.access.token.provider.impl", "spark.hadoop.fs.gs.delegation.token.binding",
    "spark.hadoop.fs.getspaceused.classname", "spark.hadoop.fs.client.htrace.sampler.classes",
    "spark.hadoop.dfs.trustedchannel.resolver.class", "spark.hadoop.dfs.client.replica.accessor.builder.classes",
    "spark.hadoop.dfs.client.failover.proxy.provider", "spark.hadoop.dfs.webhdfs.oauth2.access.token.provider",
    "spark.hadoop.hive.metastore.rawstore.impl", "spark.hadoop.hive.metastore.filter.hook",
    "spark.hadoop.hive.metastore.init.hooks", "spark.sql.adaptive.customCostEvaluatorClass",
    "spark.kubernetes.allocation.pods.allocator", "spark.kubernetes.allocation.driver.readinessTimeout.x",
    # files of the machine, and where credentials go
    "spark.kerberos.keytab", "spark.kerberos.principal", "spark.kerberos.access.hadoopFileSystems",
    "spark.hadoop.hadoop.security.credential.provider.path", "spark.hadoop.fs.s3a.security.credential.provider.path",
    "spark.hadoop.google.cloud.auth.service.account.json.keyfile", "spark.hadoop.fs.gs.auth.service.account.keyfile",
    "spark.hadoop.fs.azure.account.oauth2.token.file", "spark.hadoop.fs.azure.account.oauth2.msi.endpoint",
    "spark.hadoop.fs.azure.account.oauth2.msi.authority", "spark.hadoop.fs.azure.metric.uri",
    "spark.hadoop.fs.gs.token.server.url", "spark.hadoop.fs.gs.proxy.address", "spark.hadoop.fs.s3a.proxy.host",
    "spark.hadoop.fs.gs.grpc.server.address", "spark.hadoop.fs.gs.storage.http.headers.x", "spark.hadoop.fs.defaultFS",
    "spark.hadoop.fs.azure.account.key.acc.evil.example.com", "spark.hadoop.fs.azure.abfs.endpoint",
    "spark.kubernetes.context", "spark.driver.bindAddress", "spark.hadoop.dfs.encryption.key.provider.uri",
    "spark.hadoop.dfs.webhdfs.oauth2.refresh.url", "spark.hadoop.fs.s3a.acl.default",
    # checks
    "spark.hadoop.fs.s3a.connection.ssl.enabled", "spark.hadoop.fs.s3a.bucket.lake.connection.ssl.enabled",
    "spark.hadoop.fs.s3a.ssl.channel.mode", "spark.hadoop.fs.azure.always.use.https",
    "spark.hadoop.fs.file.checksum.verify",
    "spark.hadoop.fs.s3a.failinject.throttle.probability", "spark.hadoop.dfs.data.transfer.protection",
    "spark.hadoop.fs.s3a.bucket.a.b.endpoint", "spark.hadoop.fs.s3a.bucket..endpoint",
]  # fmt: skip
TAKEN = {
    "spark.driver.memory": "8g", "spark.executor.memory": "700m", "spark.executor.instances": "4",
    "spark.executor.cores": "4", "spark.cores.max": "64", "spark.driver.host": "zlayout.layouts.svc",
    "spark.driver.maxResultSize": "0", "spark.sql.shuffle.partitions": "200", "spark.sql.warehouse.dir": "/tmp/w",
    "spark.databricks.delta.snapshotPartitions": "2", "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "20", "spark.speculation": "false", "spark.speculation.multiplier": "1.5",
    "spark.task.cpus": "1", "spark.local.dir": "/data1/spark,/data2/spark",
    "spark.hadoop.fs.s3a.endpoint": "https://minio.example.com:9000", "spark.hadoop.fs.s3a.secret.key": "a/b+c=",
    "spark.hadoop.fs.s3a.bucket.raw-data.endpoint": "s3.eu-west-1.amazonaws.com",
    "spark.hadoop.fs.s3a.bucket.raw-data.path.style.access": "true",
    "spark.hadoop.fs.s3a.aws.credentials.provider":
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider, "
        "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": "a2V5",
    "spark.hadoop.fs.azure.account.auth.type.acc.dfs.core.windows.net": "OAuth",
    "spark.hadoop.fs.azure.account.oauth.provider.type":
        "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "spark.hadoop.fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
    "spark.hadoop.fs.gs.project.id": "my-project", "spark.hadoop.fs.gs.storage.root.url": "http://127.0.0.1:4443",
    "spark.hadoop.dfs.nameservices": "ha", "spark.hadoop.dfs.ha.namenodes.ha": "nn1,nn2",
    "spark.hadoop.dfs.namenode.rpc-address.ha.nn1": "namenode-1.example.com:8020",
    "spark.hadoop.google.cloud.auth.service.account.enable": "false",
    "spark.hadoop.hive.metastore.uris": "thrift://h1:9083,thrift://h2:9083",
    "spark.sql.adaptive.coalescePartitions.enabled": "true", "spark.network.timeout": "600s",
    "spark.yarn.queue": "root.reports", "spark.kubernetes.namespace": "layouts", "spark.memory.fraction": "0.6",
    "spark.ui.enabled": "false", "spark.sql.session.timeZone": "America/Argentina/Buenos_Aires",
    "spark.sql.autoBroadcastJoinThreshold": "-1", "spark.executor.memoryOverhead": "2048",
}  # fmt: skip
# Values that would do harm, of settings that have harmless values.
VALUES = [
    ("spark.io.compression.codec", "com.example.Evil", "ZL014"),
    ("spark.sql.parquet.compression.codec", "com.example.Evil", "ZL014"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.example.Evil", "ZL014"),
    ("spark.hadoop.fs.s3a.aws.credentials.provider",
     "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,com.example.Evil", "ZL014"),
    ("spark.hadoop.fs.s3a.bucket.lake.aws.credentials.provider", "com.example.Evil", "ZL014"),
    ("spark.hadoop.fs.azure.account.auth.type", "Custom", "ZL014"),
    ("spark.hadoop.fs.azure.account.oauth.provider.type", "com.example.Evil", "ZL014"),
    ("spark.hadoop.dfs.client.failover.proxy.provider.ha", "com.example.Evil", "ZL014"),
    ("spark.hadoop.hive.metastore.sasl.enabled", "false", "ZL014"),
    ("spark.io.encryption.enabled", "false", "ZL014"),
    ("spark.hadoop.fs.s3a.fast.upload.buffer", "com.example.Evil", "ZL014"),
    ("spark.hadoop.fs.s3a.endpoint", "http://evil.example.com", "ZL037"),
    ("spark.hadoop.fs.s3a.endpoint", "http://127.0.0.1.evil.example.com", "ZL037"),
    ("spark.hadoop.fs.s3a.endpoint", "http://127.0.0.1\\@evil.example.com", "ZL013"),
    ("spark.hadoop.fs.s3a.endpoint", "http://evil.example.com\\@127.0.0.1", "ZL013"),
    ("spark.hadoop.fs.s3a.endpoint", "http://127.0.0.1#@evil.example.com", "ZL013"),
    ("spark.hadoop.fs.s3a.endpoint", "https://user:password@host", "ZL013"),
    ("spark.hadoop.fs.s3a.endpoint", "file:///etc/passwd", "ZL013"),
    ("spark.hadoop.fs.azure.account.oauth2.client.endpoint", "http://evil.example.com/token", "ZL037"),
    ("spark.hadoop.fs.s3a.assumed.role.sts.endpoint", "http://evil.example.com", "ZL037"),
    ("spark.hadoop.fs.gs.storage.root.url", "http://evil.example.com", "ZL037"),
    ("spark.hadoop.fs.s3a.endpoint.region", "x.evil.example.com/", "ZL013"),
    ("spark.driver.memory", "8g -javaagent:evil.jar", "ZL013"),
    ("spark.executor.memory", "8g\n-javaagent:evil.jar", "ZL0"),
    ("spark.sql.warehouse.dir", "http://evil.example.com/", "ZL013"),
    ("spark.local.dir", "file:/etc", "ZL013"),
    ("spark.app.name", "x" * 1_000_000, "ZL0"),
    ("spark.task.cpus", "9" * 5000, "ZL013"),
]  # fmt: skip
MASTERS = [
    "local", "local[4]", "local[*]", "local[4, 2]", "yarn", "spark://head:7077", "spark://h1:7077,h2:7077",
    "spark://127.0.0.1:7077", "k8s://https://kubernetes.default.svc", "k8s://https://10.0.0.1:6443", "k8s://host:443",
    "k8s://http://127.0.0.1:8001",
]  # fmt: skip
NO_MASTERS = [
    "", "evil", "local[", "local[4]x", "local-cluster[2,1,1024]", "mesos://h:5050", "sc://h:15002", "yarn-cluster",
    "k8s://http://evil.example.com", "k8s://file:///etc/passwd", "spark://h", "spark://h:7077/../x", "SPARK://h:1",
    "spark://h:7077 --conf x=y", "com.example.Evil", "local[*]\n",
]  # fmt: skip


def error_of(key: str, folder: Path, value: str = "1", master: str = "local[1]") -> str:
    catalogs = {"lake": {"format": "delta", "warehouse": "w"}}
    project = {"version": 1, "catalogs": catalogs, "spark": {"master": master, "conf": {key: "${ONE}"}}}
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    return str(refused(lambda: load_project(folder, {"ONE": value})) or "")


@pytest.mark.parametrize("key", REFUSED)
def test_what_runs_code_or_loosens_a_check_is_refused_with_a_way_out(key: str, tmp_path: Path) -> None:
    error = error_of(key, tmp_path)
    assert "ZL028" in error
    assert key in error
    assert "spark-submit" in error
    assert "spark-defaults.conf" in error


@pytest.mark.parametrize("key", TAKEN)
def test_sizes_and_access_settings_are_accepted(key: str, tmp_path: Path) -> None:
    assert error_of(key, tmp_path, TAKEN[key]) == ""
    for other in (f" {key}", f"{key}\n", f"x.{key}", f"{key}\x00", key.upper()):
        assert "ZL0" in error_of(other, tmp_path, TAKEN[key])


@pytest.mark.parametrize(("key", "value", "code"), VALUES)
def test_a_value_that_does_harm_is_refused_and_not_shown(key: str, value: str, code: str, tmp_path: Path) -> None:
    error = error_of(key, tmp_path, value)
    assert code in error
    assert code in ("ZL0", "ZL037") or key in error
    assert value not in error
    assert "evil" not in error.lower()


def test_a_similar_name_is_suggested(tmp_path: Path) -> None:
    error = error_of("spark.executer.memory", tmp_path)
    assert "(did you mean 'spark.executor.memory'? Else set it with spark-submit --conf or in " in error


@pytest.mark.parametrize("master", MASTERS)
def test_masters_that_spark_documents_are_accepted(master: str, tmp_path: Path) -> None:
    assert error_of("spark.task.cpus", tmp_path, master=master) == ""


@pytest.mark.parametrize("master", NO_MASTERS)
def test_any_other_master_is_refused(master: str, tmp_path: Path) -> None:
    error = error_of("spark.task.cpus", tmp_path, master=master)
    assert "ZL013" in error
    assert "spark.master" in error


@pytest.mark.parametrize("key", ["spark.app.name", "spark.hadoop.fs.s3a.secret.key"])
@pytest.mark.parametrize("value", ["${env:CANARY}", "x${spark.hadoop.fs.s3a.secret.key}", "${"])
def test_no_variable_is_left_for_spark_and_hadoop_to_replace(key: str, value: str, tmp_path: Path) -> None:
    assert "ZL019" in error_of(key, tmp_path, value)


def test_no_variable_comes_together_from_parts(tmp_path: Path) -> None:
    catalogs = {"lake": {"format": "delta", "warehouse": "/w/${NONE:-$}{env:CANARY}"}}
    conf = {"spark.app.name": "${NONE:-$}{env:CANARY}"}
    (tmp_path / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs, "spark": {"conf": conf}}))
    error = str(refused(lambda: load_project(tmp_path, {"CANARY": "secret"})))
    assert error.count("ZL019") == 2
    assert "secret" not in error


def test_no_variable_comes_from_the_name_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "${env:CANARY}"
    folder.mkdir()
    assert "ZL019" in error_of("spark.task.cpus", folder)
