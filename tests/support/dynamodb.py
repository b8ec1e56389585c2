"""DynamoDB on the loopback address, and Spark's configuration with which Delta decides commits in it.

The client of AWS SDK 1 that `S3DynamoDBLogStore` has takes the address from a file of regions and always uses TLS.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.ivy import NotDownloaded, jars_of
from support.servers import CREDENTIALS, free_port, wait_for_port

LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"
JAR_VARIABLE = "ZLAYOUT_TEST_DYNAMODB_JAR"  # a jar of delta-storage-s3-dynamodb, where Maven does not have it
_REGIONS = """<XML><Regions><Region><Name>us-east-1</Name><Domain>invalid</Domain>
<Endpoint><ServiceName>dynamodb</ServiceName><Http>false</Http><Https>true</Https>
<Hostname>127.0.0.1:{port}</Hostname></Endpoint></Region></Regions></XML>
"""


@contextmanager
def dynamodb_conf(folder: Path) -> Iterator[Path]:
    """A value of SPARK_CONF_DIR. Skips the test where the jars cannot be had.

    folder: an empty folder, for the configuration and the log of the server.
    """
    try:
        jars = jars_of("dynamodb")
        own = os.environ.get(JAR_VARIABLE)
        jars += [own] if own else jars_of("log-store")
    except NotDownloaded as missing:
        pytest.skip(f"needs Delta's log store for DynamoDB, named by {JAR_VARIABLE}: {missing}")
    port, log = free_port(), folder / "dynamodb.log"
    regions = folder / "regions.xml"
    regions.write_text(_REGIONS.format(port=port))
    options = f"-Dcom.amazonaws.regions.RegionUtils.fileOverride={regions} -Dcom.amazonaws.sdk.disableCertChecking=true"
    conf = {
        "spark.jars": ",".join(jars),
        "spark.driver.extraJavaOptions": options,
        **{f"spark.delta.logStore.{scheme}.impl": LOG_STORE for scheme in ("s3", "s3a")},
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), "--ssl"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | CREDENTIALS)
    try:
        wait_for_port(port, process, log)
        yield folder
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":  # make servers-long
    print(len(jars_of("dynamodb")), "jars of the client of DynamoDB")  # noqa: T201
