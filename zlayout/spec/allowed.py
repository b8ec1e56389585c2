"""The Spark settings and the catalog properties that `zlayout.yaml` may contain, with the type of each value.

This list is the only source: the JSON Schema for editors and the tables of docs/spec.md are generated from it
(`make schemas`). A setting belongs here only if every value that its type accepts is harmless in the library that reads
it. It must not load a class, run a command, read a file of this machine and send it, disable TLS or another check, or
choose who receives credentials without the check of `endpoint_problem`. The names of classes are accepted only if they
are listed. Everything else is the operator's: spark-submit, spark-defaults.conf and the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from zlayout.errors import Diagnostic
from zlayout.message_text import escape_unprintable, quote_value
from zlayout.spec.check import Violation, suggestion
from zlayout.spec.formats import FORMATS

PLAIN_HTTP = "expected https to another machine, found http"
USE_HTTPS = "use https, or set allow_http: true in the catalog, which sends credentials without encryption"
_USE_HTTPS_OF_STORE = "use https, or set storage.allow_http: true in the catalog, which sends data without encryption"
_USE_STORAGE = "use https, or declare the address as storage.endpoint of the catalog, with storage.allow_http: true"
OAUTH2_SERVER = "oauth2-server-uri"
_OPERATORS = "with spark-submit --conf or in spark-defaults.conf"
SPARK_HINT = f"set it {_OPERATORS}"
_SPARK_HINT_OF_VALUE = f"set any other value {_OPERATORS}"
# Only close names are suggested: many settings have the same first words.
_SIMILAR = 0.85

_LINE = r"(?!.*\$\{)[^\x00-\x1f\x7f-\x9f\u2028\u2029]"  # a character of one line without control characters
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT = r"[0-9]{1,5}"
_AUTHORITY = rf"(?P<host>{_HOST})(?::{_PORT})?"
_URL_PATH = r"(?:/[A-Za-z0-9._~%:@/-]{0,1000})?"
_URL = rf"(?P<scheme>https?)://{_AUTHORITY}{_URL_PATH}"
_URL_OR_HOST = rf"(?:(?P<scheme>https?)://)?{_AUTHORITY}{_URL_PATH}"
_MASTER = (
    r"local|local\[(?:[1-9][0-9]{0,3}|\*)(?:, ?[1-9][0-9]{0,3})?\]|yarn"
    rf"|spark://{_HOST}:{_PORT}(?:,{_HOST}:{_PORT})*"
    rf"|k8s://(?:https://)?{_HOST}(?::{_PORT})?{_URL_PATH}"
    rf"|k8s://http://(?:localhost|127\.0\.0\.1|\[::1\])(?::{_PORT})?{_URL_PATH}"
)
_MASTER_TITLE = "local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value.

    Attributes:
        title: What is expected, as part of a sentence.
        pattern: The regular expression that the whole text of a value matches. It is compiled when it is first used.
        example: A value for the JSON Schema.
        low, high: The smallest and the largest number; None for values that are not numbers.
        words: All values, if they are listed.
        is_endpoint: Whether the value is an address, which `endpoint_problem` checks too.
    """

    title: str
    pattern: str
    example: str
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    is_endpoint: bool = False

    def accepts(self, text: str) -> bool:
        """Return whether the text is a value of this type. Addresses are not checked further."""
        if re.fullmatch(self.pattern, text) is None:
            return False
        return self.low is None or self.high is None or self.low <= float(text) <= self.high


def _of(title: str, pattern: str, example: str, **more: Any) -> ValueType:
    return ValueType(title, pattern, example, **more)


def _whole(low: int, high: int) -> ValueType:
    return _of(f"a whole number from {low} to {high}", r"-?[0-9]{1,18}", str(max(low, 1)), low=low, high=high)


def _one_of(*words: str) -> ValueType:
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return ValueType(listed, "|".join(map(re.escape, words)), words[0], words=words)


def _list_of(title: str, *words: str) -> ValueType:
    one = f"(?:{'|'.join(map(re.escape, words))})"
    return ValueType(title, rf"{one}(?:\s?,\s?{one}){{0,19}}", words[0], words=words)


BOOLEAN = _one_of("true", "false")
ONLY_TRUE = _one_of("true")
COUNT = _whole(0, 2**31 - 1)
LARGE_COUNT = _whole(0, 2**63 - 1)
PORT = _whole(0, 65535)
NUMBER = _of("a number", r"[0-9]{1,9}(?:\.[0-9]{1,9})?", "1.5")
SHARE = _of("a number from 0 to 1", r"[0-9]{1,9}(?:\.[0-9]{1,9})?", "0.5", low=0, high=1)
SIZE = _of("a size such as 512m", r"(?i:[0-9]{1,18}(?:[bkmgtp]|[kmgtp]i?b)?)", "512m")
SIZE_OR_OFF = _of("a size such as 512m, or -1", r"(?i:-1|[0-9]{1,18}(?:[bkmgtp]|[kmgtp]i?b)?)", "10m")
DURATION = _of("a duration such as 30s", r"[0-9]{1,15}(?: ?(?:ns|us|ms|s|sec|secs|m|min|mins|h|d))?", "30s")
DURATION_OR_OFF = _of("a duration such as 30s, or -1", rf"-1|{DURATION.pattern}", "30s")
CORES = _of("a number of cores such as 2 or 500m", r"[0-9]{1,4}(?:\.[0-9]{1,3})?|[0-9]{1,7}m", "500m")
NAME = _of("a name of letters, digits, '_' and '-'", r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", "eu-central-1")
QUEUE = _of("a name of letters, digits, '_', '-' and '.'", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", "root.reports")
TEXT = _of("one line of text", rf"{_LINE}{{1,1000}}", "zlayout")
SECRET = _of("a secret in one line", rf"{_LINE}{{1,20000}}", "${SECRET}")
HOST = _of("a host name or an IP address", _HOST, "10.0.0.5")
PATH = _of(
    "a path, not a URL",
    r"(?![A-Za-z][A-Za-z0-9+.-]*:)(?!.*\$\{)[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,4096}",
    "/data/spark",
)
TIME_ZONE = _of("a time zone such as Europe/Berlin", r"[A-Za-z0-9_+-]{1,30}(?:[/:][A-Za-z0-9_+-]{1,30}){0,2}", "UTC")
URL = ValueType("the URL of a server", _URL, "https://store.example.com", is_endpoint=True)
ENDPOINT = ValueType("the URL or the host of a server", _URL_OR_HOST, "https://store.example.com", is_endpoint=True)
THRIFT = _of("thrift://HOST:PORT", rf"thrift://{_HOST}:{_PORT}(?:,thrift://{_HOST}:{_PORT}){{0,9}}", "thrift://h:9083")
HOST_PORT = _of("HOST:PORT", rf"{_HOST}:{_PORT}", "namenode:8020")
NAMES = _of("names, separated by commas", r"[A-Za-z0-9_-]{1,100}(?:,[A-Za-z0-9_-]{1,100}){0,19}", "a,b")
ARN = _of("an ARN", r"arn:aws[a-z0-9-]{0,20}:[A-Za-z0-9+=,.@_/:-]{1,2000}", "arn:aws:iam::123456789012:role/zlayout")
KMS_KEY = _of(
    "the id, alias or ARN of a KMS key",
    r"[A-Za-z0-9-]{1,100}|(?:arn:aws[a-z0-9-]{0,20}:kms:[a-z0-9-]{1,40}:[0-9]{12}:)?(?:key|alias)/[A-Za-z0-9/_-]{1,256}",
    "alias/tables",
)
EMAIL = _of("the e-mail address of a service account", r"[A-Za-z0-9._-]{1,100}@[A-Za-z0-9.-]{1,200}", "a@b.example.com")
PRINCIPAL = _of(
    "a Kerberos principal", r"[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._-]{1,200})?@[A-Za-z0-9.-]{1,200}", "h/_HOST@R"
)
API_PREFIX = _of("a part of the path of a URL", r"[A-Za-z0-9._~%-]{1,200}(?:/[A-Za-z0-9._~%-]{1,200}){0,9}", "v1-main")
ACCOUNT = _of("the name of a storage account", r"[a-z0-9]{3,24}", "account")
DELEGATIONS = _list_of("vended-credentials", "vended-credentials", "remote-signing")
_S3A = "org.apache.hadoop.fs.s3a"
_AWS_2, _AWS_1 = "software.amazon.awssdk.auth.credentials", "com.amazonaws.auth"
# None of these has a setting in this list by which it would run a command or read a file that zlayout.yaml names.
AWS_PROVIDERS = _list_of(
    "credential providers of Hadoop and AWS that docs/spec.md lists",
    f"{_S3A}.SimpleAWSCredentialsProvider",
    f"{_S3A}.TemporaryAWSCredentialsProvider",
    f"{_S3A}.AnonymousAWSCredentialsProvider",
    f"{_S3A}.auth.AssumedRoleCredentialProvider",
    f"{_S3A}.auth.IAMInstanceCredentialsProvider",
    f"{_AWS_2}.DefaultCredentialsProvider",
    f"{_AWS_2}.EnvironmentVariableCredentialsProvider",
    f"{_AWS_2}.ContainerCredentialsProvider",
    f"{_AWS_2}.InstanceProfileCredentialsProvider",
    f"{_AWS_2}.ProfileCredentialsProvider",
    f"{_AWS_2}.WebIdentityTokenFileCredentialsProvider",
    f"{_AWS_2}.AnonymousCredentialsProvider",
    f"{_AWS_1}.DefaultAWSCredentialsProviderChain",
    f"{_AWS_1}.EnvironmentVariableCredentialsProvider",
    f"{_AWS_1}.EC2ContainerCredentialsProviderWrapper",
    f"{_AWS_1}.InstanceProfileCredentialsProvider",
    f"{_AWS_1}.WebIdentityTokenCredentialsProvider",
    f"{_AWS_1}.profile.ProfileCredentialsProvider",
    f"{_AWS_1}.AnonymousAWSCredentials",
)
_ABFS_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
AZURE_PROVIDERS = _one_of(
    f"{_ABFS_OAUTH}.ClientCredsTokenProvider",
    f"{_ABFS_OAUTH}.MsiTokenProvider",
    f"{_ABFS_OAUTH}.RefreshTokenBasedTokenProvider",
    f"{_ABFS_OAUTH}.UserPasswordTokenProvider",
    f"{_ABFS_OAUTH}.WorkloadIdentityTokenProvider",
)
_HDFS_HA = "org.apache.hadoop.hdfs.server.namenode.ha"
HDFS_PROVIDERS = _one_of(
    f"{_HDFS_HA}.ConfiguredFailoverProxyProvider",
    f"{_HDFS_HA}.RequestHedgingProxyProvider",
    f"{_HDFS_HA}.ObserverReadProxyProvider",
)
# The variable parts of names. None of them contains a dot of its own, so that a name has one meaning.
PARTS = {
    "BUCKET": r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
    "ACCOUNT": r"[a-z0-9]{3,24}",
    "CLOUD": r"(?:dfs|blob)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)",
    "NAMESERVICE": r"[A-Za-z0-9_-]{1,100}",
    "NAMENODE": r"[A-Za-z0-9_-]{1,100}",
}
_PART = re.compile("|".join(PARTS))


@dataclass(frozen=True, slots=True)
class Group:
    """Settings that belong together.

    Attributes:
        title: What they are for.
        settings: The type of each value by name. Words in capitals of `PARTS` are variable parts of a name.
        types: The catalog types whose `properties` may have them; empty for all.
        reader: Which library reads them; empty for all libraries.
        ignores_case: Whether the library ignores the case of the names.
    """

    title: str
    settings: Mapping[str, ValueType]
    types: tuple[str, ...] = ()
    reader: str = ""
    ignores_case: bool = False


def _each(type_: ValueType, prefix: str, *names: str) -> dict[str, ValueType]:
    return {f"{prefix}{name}": type_ for name in names}


_S3A_SETTINGS = {
    "access.key": SECRET,
    "secret.key": SECRET,
    "session.token": SECRET,
    "aws.credentials.provider": AWS_PROVIDERS,
    "assumed.role.arn": ARN,
    "assumed.role.session.name": NAME,
    "assumed.role.session.duration": DURATION,
    "assumed.role.external.id": NAME,
    "assumed.role.credentials.provider": AWS_PROVIDERS,
    "assumed.role.sts.endpoint": ENDPOINT,
    "assumed.role.sts.endpoint.region": NAME,
    "endpoint": ENDPOINT,
    "endpoint.region": NAME,
    "endpoint.fips": BOOLEAN,
    "cross.region.access.enabled": BOOLEAN,
    "path.style.access": BOOLEAN,
    "accesspoint.arn": ARN,
    "requester.pays.enabled": BOOLEAN,
    "encryption.algorithm": _one_of("AES256", "SSE-KMS", "DSSE-KMS"),
    "encryption.key": KMS_KEY,
    "server-side-encryption-algorithm": _one_of("AES256", "SSE-KMS", "DSSE-KMS"),
    "server-side-encryption.key": KMS_KEY,
    "attempts.maximum": COUNT,
    "retry.limit": COUNT,
    "retry.interval": DURATION,
    "retry.throttle.limit": COUNT,
    "retry.throttle.interval": DURATION,
    "connection.maximum": COUNT,
    "connection.timeout": DURATION,
    "connection.establish.timeout": DURATION,
    "connection.acquisition.timeout": DURATION,
    "connection.request.timeout": DURATION,
    "connection.idle.time": DURATION,
    "connection.ttl": DURATION,
    "threads.max": COUNT,
    "threads.keepalivetime": DURATION,
    "max.total.tasks": COUNT,
    "executor.capacity": COUNT,
    "block.size": SIZE,
    "multipart.size": SIZE,
    "multipart.threshold": SIZE,
    "fast.upload.buffer": _one_of("disk", "array", "bytebuffer"),
    "fast.upload.active.blocks": COUNT,
    "buffer.dir": PATH,
    "readahead.range": SIZE,
    "paging.maximum": COUNT,
    "list.version": _one_of("1", "2"),
    "experimental.input.fadvise": _one_of("normal", "sequential", "random"),
    "vectored.read.min.seek.size": SIZE,
    "vectored.read.max.merged.size": SIZE,
}
_ABFS_ACCOUNT = {
    "account.auth.type": _one_of("SharedKey", "OAuth", "SAS"),
    "account.oauth.provider.type": AZURE_PROVIDERS,
    "account.oauth2.client.id": NAME,
    "account.oauth2.client.secret": SECRET,
    "account.oauth2.client.endpoint": URL,
    "account.oauth2.msi.tenant": NAME,
    "account.oauth2.user.name": TEXT,
    "account.oauth2.user.password": SECRET,
    "account.oauth2.refresh.token": SECRET,
    "account.oauth2.refresh.token.endpoint": URL,
    "account.hns.enabled": BOOLEAN,
    "sas.fixed.token": SECRET,
}

SPARK = (
    Group(
        "cores and memory",
        {
            "spark.cores.max": COUNT,
            "spark.default.parallelism": COUNT,
            "spark.driver.cores": COUNT,
            "spark.driver.maxResultSize": SIZE,
            "spark.driver.memory": SIZE,
            "spark.driver.memoryOverhead": SIZE,
            "spark.driver.memoryOverheadFactor": NUMBER,
            "spark.executor.cores": COUNT,
            "spark.executor.instances": COUNT,
            "spark.executor.memory": SIZE,
            "spark.executor.memoryOverhead": SIZE,
            "spark.executor.memoryOverheadFactor": NUMBER,
            "spark.memory.fraction": SHARE,
            "spark.memory.storageFraction": SHARE,
            "spark.memory.offHeap.enabled": BOOLEAN,
            "spark.memory.offHeap.size": SIZE,
            "spark.storage.memoryMapThreshold": SIZE,
            "spark.kryoserializer.buffer": SIZE,
            "spark.kryoserializer.buffer.max": SIZE,
            "spark.cleaner.periodicGC.interval": DURATION,
            "spark.local.dir": PATH,
        },
    ),
    Group(
        "dynamic allocation",
        {
            "spark.dynamicAllocation.enabled": BOOLEAN,
            "spark.dynamicAllocation.initialExecutors": COUNT,
            "spark.dynamicAllocation.minExecutors": COUNT,
            "spark.dynamicAllocation.maxExecutors": COUNT,
            "spark.dynamicAllocation.executorAllocationRatio": SHARE,
            "spark.dynamicAllocation.executorIdleTimeout": DURATION,
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": DURATION,
            "spark.dynamicAllocation.schedulerBacklogTimeout": DURATION,
            "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": DURATION,
            "spark.dynamicAllocation.shuffleTracking.enabled": BOOLEAN,
            "spark.dynamicAllocation.shuffleTracking.timeout": DURATION,
        },
    ),
    Group(
        "tasks and scheduling",
        {
            "spark.app.name": TEXT,
            "spark.scheduler.mode": _one_of("FIFO", "FAIR"),
            "spark.scheduler.maxRegisteredResourcesWaitingTime": DURATION,
            "spark.scheduler.minRegisteredResourcesRatio": SHARE,
            "spark.scheduler.revive.interval": DURATION,
            **_each(DURATION, "spark.locality.wait", "", ".node", ".process", ".rack"),
            "spark.task.cpus": COUNT,
            "spark.task.maxFailures": COUNT,
            "spark.task.reaper.enabled": BOOLEAN,
            "spark.task.reaper.killTimeout": DURATION_OR_OFF,
            "spark.task.reaper.pollingInterval": DURATION,
            "spark.task.reaper.threadDump": BOOLEAN,
            "spark.stage.maxConsecutiveAttempts": COUNT,
            "spark.speculation": BOOLEAN,
            "spark.speculation.interval": DURATION,
            "spark.speculation.multiplier": NUMBER,
            "spark.speculation.quantile": SHARE,
            "spark.speculation.minTaskRuntime": DURATION,
            "spark.speculation.task.duration.threshold": DURATION,
            "spark.speculation.efficiency.enabled": BOOLEAN,
            "spark.speculation.efficiency.processRateMultiplier": NUMBER,
            "spark.speculation.efficiency.longRunTaskFactor": NUMBER,
            "spark.excludeOnFailure.enabled": BOOLEAN,
            "spark.excludeOnFailure.timeout": DURATION,
            "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": COUNT,
            "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": COUNT,
            "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": COUNT,
            "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode": COUNT,
            "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": COUNT,
            "spark.excludeOnFailure.application.maxFailedExecutorsPerNode": COUNT,
            "spark.excludeOnFailure.application.fetchFailure.enabled": BOOLEAN,
            "spark.excludeOnFailure.killExcludedExecutors": BOOLEAN,
        },
    ),
    Group(
        "shuffle and compression",
        {
            "spark.broadcast.blockSize": SIZE,
            "spark.broadcast.compress": BOOLEAN,
            "spark.rdd.compress": BOOLEAN,
            "spark.io.compression.codec": _one_of("lz4", "lzf", "snappy", "zstd"),
            "spark.io.compression.lz4.blockSize": SIZE,
            "spark.io.compression.snappy.blockSize": SIZE,
            "spark.io.compression.zstd.bufferPool.enabled": BOOLEAN,
            "spark.io.compression.zstd.bufferSize": SIZE,
            "spark.io.compression.zstd.level": _whole(-7, 22),
            "spark.io.compression.zstd.workers": COUNT,
            "spark.io.encryption.enabled": ONLY_TRUE,
            "spark.io.encryption.keySizeBits": _one_of("128", "192", "256"),
            "spark.reducer.maxSizeInFlight": SIZE,
            "spark.reducer.maxReqsInFlight": COUNT,
            "spark.reducer.maxBlocksInFlightPerAddress": COUNT,
            "spark.shuffle.compress": BOOLEAN,
            "spark.shuffle.file.buffer": SIZE,
            "spark.shuffle.io.connectionTimeout": DURATION,
            "spark.shuffle.io.maxRetries": COUNT,
            "spark.shuffle.io.numConnectionsPerPeer": COUNT,
            "spark.shuffle.io.retryWait": DURATION,
            "spark.shuffle.registration.maxAttempts": COUNT,
            "spark.shuffle.registration.timeout": DURATION,
            "spark.shuffle.service.enabled": BOOLEAN,
            "spark.shuffle.service.port": PORT,
            "spark.shuffle.sort.bypassMergeThreshold": COUNT,
            "spark.shuffle.spill.compress": BOOLEAN,
        },
    ),
    Group(
        "network and user interface",
        {
            # Without `spark.driver.bindAddress`, which is the operator's, Spark binds to this address, so that it can
            # only be one of this machine.
            "spark.driver.host": HOST,
            "spark.driver.port": PORT,
            "spark.driver.blockManager.port": PORT,
            "spark.blockManager.port": PORT,
            "spark.port.maxRetries": COUNT,
            "spark.executor.heartbeatInterval": DURATION,
            "spark.network.timeout": DURATION,
            "spark.network.timeoutInterval": DURATION,
            "spark.network.maxRemoteBlockSizeFetchToMem": SIZE,
            "spark.rpc.askTimeout": DURATION,
            "spark.rpc.lookupTimeout": DURATION,
            "spark.rpc.message.maxSize": COUNT,
            "spark.rpc.numRetries": COUNT,
            "spark.rpc.retry.wait": DURATION,
            "spark.ui.enabled": BOOLEAN,
            "spark.ui.port": PORT,
            "spark.ui.showConsoleProgress": BOOLEAN,
        },
    ),
    Group(
        "Kubernetes and YARN",
        {
            "spark.kubernetes.allocation.batch.delay": DURATION,
            "spark.kubernetes.allocation.batch.size": COUNT,
            "spark.kubernetes.allocation.executor.timeout": DURATION,
            "spark.kubernetes.allocation.maxPendingPods": COUNT,
            "spark.kubernetes.executor.limit.cores": CORES,
            "spark.kubernetes.executor.request.cores": CORES,
            "spark.kubernetes.namespace": NAME,
            "spark.yarn.am.cores": COUNT,
            "spark.yarn.am.memory": SIZE,
            "spark.yarn.am.memoryOverhead": SIZE,
            "spark.yarn.maxAppAttempts": COUNT,
            "spark.yarn.priority": COUNT,
            "spark.yarn.queue": QUEUE,
        },
    ),
    Group(
        "SQL and Delta",
        {
            "spark.sql.adaptive.enabled": BOOLEAN,
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": SIZE,
            "spark.sql.adaptive.autoBroadcastJoinThreshold": SIZE_OR_OFF,
            "spark.sql.adaptive.coalescePartitions.enabled": BOOLEAN,
            "spark.sql.adaptive.coalescePartitions.initialPartitionNum": COUNT,
            "spark.sql.adaptive.coalescePartitions.minPartitionSize": SIZE,
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": BOOLEAN,
            "spark.sql.adaptive.localShuffleReader.enabled": BOOLEAN,
            "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": BOOLEAN,
            "spark.sql.adaptive.rebalancePartitionsSmallPartitionFactor": SHARE,
            "spark.sql.adaptive.skewJoin.enabled": BOOLEAN,
            "spark.sql.adaptive.skewJoin.skewedPartitionFactor": NUMBER,
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": SIZE,
            "spark.sql.autoBroadcastJoinThreshold": SIZE_OR_OFF,
            "spark.sql.broadcastTimeout": DURATION,
            "spark.sql.files.maxPartitionBytes": SIZE,
            "spark.sql.files.maxPartitionNum": COUNT,
            "spark.sql.files.minPartitionNum": COUNT,
            "spark.sql.files.openCostInBytes": SIZE,
            "spark.sql.parquet.compression.codec": _one_of(
                "none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"
            ),
            "spark.sql.session.timeZone": TIME_ZONE,
            "spark.sql.shuffle.partitions": COUNT,
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": COUNT,
            "spark.sql.sources.parallelPartitionDiscovery.threshold": COUNT,
            "spark.sql.warehouse.dir": PATH,
            "spark.databricks.delta.optimize.maxThreads": COUNT,
            "spark.databricks.delta.snapshotPartitions": COUNT,
        },
    ),
    Group("S3 (Hadoop's S3A)", {f"spark.hadoop.fs.s3a.{name}": type_ for name, type_ in _S3A_SETTINGS.items()}),
    Group(
        "S3 (Hadoop's S3A), one bucket",
        {f"spark.hadoop.fs.s3a.bucket.BUCKET.{name}": type_ for name, type_ in _S3A_SETTINGS.items()},
    ),
    Group(
        "Azure Data Lake Storage (Hadoop's ABFS)",
        {
            "spark.hadoop.fs.azure.account.key.ACCOUNT.CLOUD": SECRET,
            **{f"spark.hadoop.fs.azure.{name}": type_ for name, type_ in _ABFS_ACCOUNT.items()},
            **{f"spark.hadoop.fs.azure.{name}.ACCOUNT.CLOUD": type_ for name, type_ in _ABFS_ACCOUNT.items()},
            "spark.hadoop.fs.azure.io.retry.max.retries": COUNT,
            "spark.hadoop.fs.azure.io.retry.backoff.interval": COUNT,
            "spark.hadoop.fs.azure.io.retry.min.backoff.interval": COUNT,
            "spark.hadoop.fs.azure.io.retry.max.backoff.interval": COUNT,
            "spark.hadoop.fs.azure.http.connection.timeout": COUNT,
            "spark.hadoop.fs.azure.http.read.timeout": COUNT,
            "spark.hadoop.fs.azure.read.request.size": SIZE,
            "spark.hadoop.fs.azure.write.request.size": SIZE,
            "spark.hadoop.fs.azure.write.max.concurrent.requests": COUNT,
            "spark.hadoop.fs.azure.readaheadqueue.depth": COUNT,
        },
    ),
    Group(
        "Google Cloud Storage (gcs-connector)",
        {
            "spark.hadoop.fs.gs.project.id": NAME,
            "spark.hadoop.fs.gs.storage.root.url": URL,
            "spark.hadoop.fs.gs.auth.service.account.enable": BOOLEAN,
            "spark.hadoop.fs.gs.auth.null.enable": BOOLEAN,
            "spark.hadoop.fs.gs.auth.impersonation.service.account": EMAIL,
            "spark.hadoop.fs.gs.block.size": SIZE,
            "spark.hadoop.fs.gs.http.connect-timeout": COUNT,
            "spark.hadoop.fs.gs.http.read-timeout": COUNT,
            "spark.hadoop.fs.gs.http.max.retry": COUNT,
            "spark.hadoop.fs.gs.inputstream.fadvise": _one_of("AUTO", "RANDOM", "SEQUENTIAL"),
            "spark.hadoop.fs.gs.inputstream.min.range.request.size": SIZE,
            "spark.hadoop.fs.gs.outputstream.upload.chunk.size": SIZE,
            "spark.hadoop.fs.gs.requester.pays.mode": _one_of("AUTO", "CUSTOM", "DISABLED", "ENABLED"),
            "spark.hadoop.fs.gs.requester.pays.buckets": NAMES,
            "spark.hadoop.fs.gs.requester.pays.project.id": NAME,
            "spark.hadoop.google.cloud.auth.service.account.enable": BOOLEAN,
            "spark.hadoop.google.cloud.auth.null.enable": BOOLEAN,
        },
    ),
    Group(
        "HDFS and the Hive metastore",
        {
            "spark.hadoop.dfs.nameservices": NAMES,
            "spark.hadoop.dfs.ha.namenodes.NAMESERVICE": NAMES,
            "spark.hadoop.dfs.namenode.rpc-address.NAMESERVICE.NAMENODE": HOST_PORT,
            "spark.hadoop.dfs.client.failover.proxy.provider.NAMESERVICE": HDFS_PROVIDERS,
            "spark.hadoop.dfs.client.use.datanode.hostname": BOOLEAN,
            "spark.hadoop.dfs.client.socket-timeout": DURATION,
            "spark.hadoop.dfs.blocksize": SIZE,
            "spark.hadoop.dfs.replication": COUNT,
            "spark.hadoop.hive.metastore.uris": THRIFT,
            "spark.hadoop.hive.metastore.client.connect.retry.delay": DURATION,
            "spark.hadoop.hive.metastore.client.socket.timeout": DURATION,
            "spark.hadoop.hive.metastore.connect.retries": COUNT,
            "spark.hadoop.hive.metastore.kerberos.principal": PRINCIPAL,
            "spark.hadoop.hive.metastore.sasl.enabled": ONLY_TRUE,
            "spark.hadoop.hive.metastore.use.SSL": ONLY_TRUE,
        },
    ),
)

_DELTALAKE_S3_URLS = ("aws_endpoint_url", "aws_endpoint", "aws_endpoint_url_s3", "endpoint_url", "endpoint")
DELTALAKE = (
    Group(
        "requests",
        {
            "timeout": DURATION,
            "connect_timeout": DURATION,
            "pool_idle_timeout": DURATION,
            "pool_max_idle_per_host": COUNT,
            "http1_only": BOOLEAN,
            "http2_only": BOOLEAN,
            "http2_keep_alive_interval": DURATION,
            "http2_keep_alive_timeout": DURATION,
            "http2_keep_alive_while_idle": BOOLEAN,
            "randomize_addresses": BOOLEAN,
            "allow_http": BOOLEAN,
            "max_retries": COUNT,
            "retry_timeout": DURATION,
            "backoff_config.init_backoff": DURATION,
            "backoff_config.max_backoff": DURATION,
            "backoff_config.base": NUMBER,
        },
        ignores_case=True,
    ),
    Group(
        "S3",
        {
            **_each(URL, "", *_DELTALAKE_S3_URLS),
            **_each(NAME, "", "aws_region", "region", "aws_default_region", "default_region"),
            **_each(SECRET, "", "aws_access_key_id", "access_key_id"),
            **_each(SECRET, "", "aws_secret_access_key", "secret_access_key"),
            **_each(SECRET, "", "aws_session_token", "aws_token", "session_token", "token"),
            **_each(BOOLEAN, "", "aws_virtual_hosted_style_request", "virtual_hosted_style_request"),
            "aws_allow_http": BOOLEAN,
            **_each(BOOLEAN, "", "aws_skip_signature", "skip_signature"),
            **_each(BOOLEAN, "", "aws_unsigned_payload", "unsigned_payload"),
            **_each(BOOLEAN, "", "aws_request_payer", "request_payer"),
            **_each(BOOLEAN, "", "aws_s3_express", "s3_express"),
            "aws_server_side_encryption": _one_of("AES256", "aws:kms", "aws:kms:dsse"),
            "aws_sse_kms_key_id": KMS_KEY,
            "aws_sse_bucket_key_enabled": BOOLEAN,
        },
        ignores_case=True,
    ),
    Group(
        "Google Cloud Storage",
        {"google_base_url": URL, "google_skip_signature": BOOLEAN},
        ignores_case=True,
    ),
    Group(
        "Azure Data Lake Storage",
        {
            **_each(URL, "", "azure_endpoint", "azure_storage_endpoint"),
            **_each(ACCOUNT, "", "azure_storage_account_name", "account_name"),
            **_each(
                SECRET, "azure_storage_", "account_key", "access_key", "master_key", "sas_key", "sas_token", "token"
            ),
            **_each(SECRET, "", "account_key", "access_key", "master_key", "sas_key", "sas_token", "bearer_token"),
            **_each(NAME, "", "azure_storage_client_id", "azure_client_id", "client_id"),
            **_each(SECRET, "", "azure_storage_client_secret", "azure_client_secret", "client_secret"),
            **_each(NAME, "", "azure_storage_tenant_id", "azure_tenant_id", "tenant_id"),
            "azure_allow_http": BOOLEAN,
            "azure_skip_signature": BOOLEAN,
            **_each(BOOLEAN, "", "azure_use_fabric_endpoint", "use_fabric_endpoint"),
            **_each(BOOLEAN, "", "azure_storage_use_emulator", "use_emulator"),
        },
        ignores_case=True,
    ),
)
ICEBERG = (
    Group(
        "S3",
        {
            "client.region": NAME,
            "s3.endpoint": URL,
            "s3.access-key-id": SECRET,
            "s3.secret-access-key": SECRET,
            "s3.session-token": SECRET,
        },
    ),
    Group(
        "S3",
        {
            "s3.region": NAME,
            "s3.force-virtual-addressing": BOOLEAN,
            "s3.connect-timeout": NUMBER,
            "s3.request-timeout": NUMBER,
            "s3.anonymous": BOOLEAN,
            "s3.resolve-region": BOOLEAN,
            "client.access-key-id": SECRET,
            "client.secret-access-key": SECRET,
            "client.session-token": SECRET,
        },
        reader="pyiceberg",
    ),
    Group(
        "S3",
        {
            "s3.path-style-access": BOOLEAN,
            "s3.use-arn-region-enabled": BOOLEAN,
            "s3.cross-region-access-enabled": BOOLEAN,
            "s3.dualstack-enabled": BOOLEAN,
            "s3.acceleration-enabled": BOOLEAN,
            "s3.checksum-enabled": BOOLEAN,
            "s3.chunked-encoding-enabled": BOOLEAN,
            "s3.sse.type": _one_of("none", "s3", "kms", "dsse-kms"),
            "s3.sse.key": KMS_KEY,
            "s3.multipart.num-threads": COUNT,
            "s3.multipart.part-size-bytes": COUNT,
            "s3.multipart.threshold": NUMBER,
            "s3.retry.num-retries": COUNT,
            "s3.retry.min-wait-ms": COUNT,
            "s3.retry.max-wait-ms": COUNT,
            "http-client.type": _one_of("apache", "urlconnection"),
            **_each(COUNT, "http-client.urlconnection.", "connection-timeout-ms", "socket-timeout-ms"),
            **_each(
                COUNT,
                "http-client.apache.",
                "connection-timeout-ms",
                "socket-timeout-ms",
                "connection-acquisition-timeout-ms",
                "connection-max-idle-time-ms",
                "connection-time-to-live-ms",
                "max-connections",
            ),
        },
        reader="Iceberg in Spark",
    ),
    Group(
        "Google Cloud Storage",
        {
            "gcs.service.host": URL,
            "gcs.oauth2.token": SECRET,
            "gcs.oauth2.token-expires-at": LARGE_COUNT,
            "gcs.project-id": NAME,
        },
    ),
    Group(
        "metadata and connections",
        {
            "clients": COUNT,
            "client.pool.cache.eviction-interval-ms": COUNT,
            "io.manifest.cache-enabled": BOOLEAN,
            "io.manifest.cache.expiration-interval-ms": LARGE_COUNT,
            "io.manifest.cache.max-total-bytes": LARGE_COUNT,
            "io.manifest.cache.max-content-length": LARGE_COUNT,
        },
        reader="Iceberg in Spark",
    ),
    Group(
        "type rest",
        {
            "token": SECRET,
            "credential": SECRET,
            "oauth2-server-uri": URL,
            "scope": TEXT,
            "audience": TEXT,
            "resource": TEXT,
            "prefix": API_PREFIX,
            "rest.sigv4-enabled": BOOLEAN,
            "rest.signing-region": NAME,
            "rest.signing-name": NAME,
            "rest-page-size": COUNT,
            "view-endpoints-supported": BOOLEAN,
        },
        types=("rest",),
    ),
    Group(
        "type rest",
        {
            "header.X-Iceberg-Access-Delegation": DELEGATIONS,
            "header.Polaris-Realm": NAME,
            "header.X-Goog-User-Project": NAME,
        },
        types=("rest",),
        ignores_case=True,
    ),
    Group("type rest", {"rest.sigv4.max-retries": COUNT}, types=("rest",), reader="pyiceberg"),
    Group(
        "type rest",
        {
            "token-expires-in-ms": LARGE_COUNT,
            "token-refresh-enabled": BOOLEAN,
            "token-exchange-enabled": BOOLEAN,
            "rest-metrics-reporting-enabled": BOOLEAN,
            **_each(COUNT, "rest.client.", "max-retries", "max-connections", "connections-per-route"),
            **_each(COUNT, "rest.client.", "connection-timeout-ms", "socket-timeout-ms"),
        },
        types=("rest",),
        reader="Iceberg in Spark",
    ),
    Group("type sql", {"pool_pre_ping": BOOLEAN}, types=("sql",), reader="pyiceberg"),
    Group(
        "type sql",
        {"jdbc.strict-mode": BOOLEAN, "jdbc.init-catalog-tables": BOOLEAN},
        types=("sql",),
        reader="Iceberg in Spark",
    ),
    Group(
        "type hive",
        {
            "hive.hive2-compatible": BOOLEAN,
            "hive.kerberos-authentication": BOOLEAN,
            "hive.kerberos-service-name": NAME,
        },
        types=("hive",),
        reader="pyiceberg",
    ),
    Group("type hive", {"list-all-tables": BOOLEAN}, types=("hive",), reader="Iceberg in Spark"),
    Group("type glue", {"glue.id": NAME, "glue.skip-archive": BOOLEAN}, types=("glue",)),
    Group(
        "type glue",
        {
            "glue.region": NAME,
            "glue.access-key-id": SECRET,
            "glue.secret-access-key": SECRET,
            "glue.session-token": SECRET,
            "glue.max-retries": COUNT,
            "glue.retry-mode": _one_of("standard", "adaptive", "legacy"),
        },
        types=("glue",),
        reader="pyiceberg",
    ),
    Group("type glue", {"glue.skip-name-validation": BOOLEAN}, types=("glue",), reader="Iceberg in Spark"),
)
PROPERTIES = {"delta": DELTALAKE, "iceberg": ICEBERG}
# Properties that let deltalake use plain http for every address.
_ALLOW_HTTP = frozenset({"allow_http", "aws_allow_http", "azure_allow_http"})


def check_settings(data: Mapping[str, Any]) -> Iterator[Violation]:
    """Check `spark.master`, `spark.conf` and the `properties` of all catalogs.

    Args:
        data: The content of `zlayout.yaml` with variables replaced. What does not conform to the schema is skipped.

    Yields:
        ZL028 for a Spark setting and ZL029 for a catalog property that is not in the list; ZL013 and ZL014 for a value
        that its type does not accept; ZL037 for an address to which credentials are sent without encryption.
    """
    spark = _map(data.get("spark"))
    master = spark.get("master")
    if isinstance(master, str) and not re.fullmatch(_MASTER, master):
        message = f"expected {_MASTER_TITLE} for spark.master, found another text"
        yield "spark.master", Diagnostic("ZL013", message, hint="name another master with spark-submit --master")
    for name, value in _map(spark.get("conf")).items():
        yield from _check("spark.conf", name, value, "spark")
    for catalog, entry in _map(data.get("catalogs")).items():
        yield from _check_properties(f"catalogs.{catalog}", _map(entry))


def catalog_type(data: Mapping[str, Any]) -> str | None:
    """Return the declared type of a catalog, or else the default of its format; None if the format has no default."""
    traits = FORMATS[data["format"]]
    default = next(iter(traits.catalog_types)) if traits.type_is_optional else None
    found: str | None = data.get("type", default)
    return found


def java_string(value: Any) -> str:
    """Return a scalar as the string that Java and Spark use for it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def leaves_by_http(text: str) -> bool:
    """Return whether requests to an address leave this machine by plain http."""
    found = re.fullmatch(_URL_OR_HOST, text)
    return found is not None and found["scheme"] == "http" and not _is_this_machine(found["host"])


def is_url(text: str) -> bool:
    """Return whether a text is an http or https URL with a host, and without a user, a query or a fragment."""
    return re.fullmatch(_URL, text) is not None


@cache
def settings(section: str, catalog_type: str = "") -> Mapping[str, ValueType]:
    """Return the settings of a section: the type of each value by name, with the words of `PARTS` in capitals.

    Args:
        section: "spark", or the name of a format for its catalog properties.
        catalog_type: The type of the catalog; empty for Spark settings.
    """
    groups = _groups(section, catalog_type)
    return {name: type_ for group in groups for name, type_ in group.settings.items()}


def type_of(name: str, section: str, catalog_type: str = "") -> ValueType | None:
    """Return the type of the value of a setting, None if the list does not have the setting. See `settings`."""
    exact, folded = _index(section, catalog_type)
    if found := exact.get(name) or folded.get(name.lower()):
        return found
    return next((type_ for pattern, type_ in _patterns(section, catalog_type) if pattern.fullmatch(name)), None)


@cache
def _index(section: str, catalog_type: str) -> tuple[Mapping[str, ValueType], Mapping[str, ValueType]]:
    """Return the types by exact name, and by the lower case of the names whose case does not matter."""
    exact, folded = {}, {}
    for group in _groups(section, catalog_type):
        for name, type_ in group.settings.items():
            if group.ignores_case:
                folded[name.lower()] = type_
            elif not _PART.search(name):
                exact[name] = type_
    return exact, folded


@cache
def _patterns(section: str, catalog_type: str) -> tuple[tuple[re.Pattern[str], ValueType], ...]:
    groups = _groups(section, catalog_type)
    named = [item for group in groups for item in group.settings.items() if _PART.search(item[0])]
    return tuple((re.compile(name_pattern(name)), type_) for name, type_ in named)


def _groups(section: str, catalog_type: str) -> tuple[Group, ...]:
    groups = SPARK if section == "spark" else PROPERTIES.get(section, ())
    return tuple(group for group in groups if not group.types or catalog_type in group.types)


def name_pattern(name: str) -> str:
    """Return the regular expression of a name with variable parts."""
    return _PART.sub(lambda part: PARTS[part[0]], name.replace(".", r"\."))


def _check_properties(key: str, entry: Mapping[str, Any]) -> Iterator[Violation]:
    properties, format_ = _map(entry.get("properties")), entry.get("format")
    if not properties or not isinstance(format_, str) or format_ not in FORMATS:
        return
    type_ = catalog_type(entry)
    if not isinstance(type_, str) or type_ not in FORMATS[format_].catalog_types:
        return  # `check_catalog` reports the type
    allow_http = bool(_map(entry.get("storage")).get("allow_http"))
    addresses = [text for name, value in properties.items() if (text := _address(name, value, format_, type_))]
    addresses += [str(_map(entry.get("storage")).get("endpoint", ""))]
    for name, value in properties.items():
        yield from _check(f"{key}.properties", name, value, format_, type_, entry)
        needs_http = any(a.startswith("http://") and not leaves_by_http(a) for a in addresses)
        is_http = format_ == "delta" and str(name).lower() in _ALLOW_HTTP and java_string(value) == "true"
        if is_http and not allow_http and not needs_http:
            message = "expected an http endpoint on this machine for this property, found none"
            yield f"{key}.properties.{name}", Diagnostic("ZL037", message, hint=_USE_HTTPS_OF_STORE)


def _address(name: Any, value: Any, section: str, type_: str) -> str:
    found = type_of(str(name), section, type_)
    return java_string(value) if found is not None and found.is_endpoint else ""


def _check(
    parent: str, name: Any, value: Any, section: str, type_: str = "", entry: Mapping[str, Any] | None = None
) -> Iterator[Violation]:
    """entry: the catalog whose property is checked."""
    if not isinstance(name, str) or not isinstance(value, str | int | float):
        return  # the schema reports the value
    key = f"{parent}.{name}"
    expected = type_of(name, section, type_)
    if expected is None:
        yield key, _unknown(key, name, section, type_)
        return
    text = java_string(value)
    if not expected.accepts(text):
        code = "ZL014" if expected.words else "ZL013"
        hint = _SPARK_HINT_OF_VALUE if section == "spark" else ""
        message = f"expected {expected.title} for {escape_unprintable(key)}, found another text"
        yield key, Diagnostic(code, message, hint=hint)
    elif expected.is_endpoint and leaves_by_http(text):
        if entry is None:
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=_USE_STORAGE)
        elif name == OAUTH2_SERVER and not entry.get("allow_http"):
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=USE_HTTPS)
        elif name != OAUTH2_SERVER and not _map(entry.get("storage")).get("allow_http"):
            yield key, Diagnostic("ZL037", PLAIN_HTTP, hint=_USE_HTTPS_OF_STORE)


def _unknown(key: str, name: str, section: str, type_: str) -> Diagnostic:
    similar = suggestion(name, settings(section, type_), _SIMILAR)
    if section == "spark":
        code, what, hint = "ZL028", "a Spark setting that docs/spec.md allows", SPARK_HINT
    elif section == "iceberg":
        what = f"a property that docs/spec.md allows for type {type_} of {section}"
        code, hint = "ZL029", f"remove it; for Spark alone, set spark.sql.catalog.NAME.KEY {_OPERATORS}"
    else:
        what = f"a property that docs/spec.md allows for {section}"
        code, hint = "ZL029", f"set variables of the environment for plan, and Spark settings {_OPERATORS} for apply"
    message = f"expected {what} for {escape_unprintable(key)}, found {quote_value(name)}"
    return Diagnostic(code, message, hint=f"{similar} Else {hint}" if similar else hint)


def _is_this_machine(host: str) -> bool:
    return host.lower() in ("localhost", "127.0.0.1", "[::1]")


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
