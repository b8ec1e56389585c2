"""A Hive metastore on the loopback address, from the jars of pyspark, with its database in a folder."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark
from support.servers import running

JARS = Path(pyspark.__file__).parent / "jars"
SOURCE = Path(__file__).parent / "java" / "Metastore.java"
_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dderby.system.durability=test")
_LOG = """
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""


@contextmanager
def hive_metastore(
    port: int,
    folder: Path,
    jars: Iterable[str] = (),
    conf: Mapping[str, str] | None = None,
    options: Iterable[str] = (),
) -> Iterator[str]:
    """The thrift URI of a metastore.

    Args:
        port: the port to listen on.
        folder: an empty folder, for its database, its log and the tables of its default warehouse.
        jars: more of the class path: the metastore makes the folders of tables, so it needs the clients of their store.
        conf: more of hive-site.xml, such as how these clients reach the store.
        options: more options of Java.
    """
    uri = f"thrift://127.0.0.1:{port}"
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "hive.metastore.uris": uri,
        "hive.metastore.warehouse.dir": (folder / "warehouse").as_uri(),
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "hikaricp",
        "hive.async.log.enabled": "false",
        **(conf or {}),
    }
    properties = (f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>", encoding="utf-8")
    (folder / "hive-log4j2.properties").write_text(_LOG, encoding="utf-8")
    classes = ":".join((str(folder), f"{JARS}/*", *jars))
    # Janino, which Spark has, compiles and runs the source without a JDK.
    compiled = ("org.codehaus.janino.SimpleCompiler", str(SOURCE), "Metastore")
    command = ["java", *_OPTIONS, *options, "-cp", classes, *compiled, str(port)]
    with running(command, port, folder / "metastore.log", cwd=folder):
        yield uri
