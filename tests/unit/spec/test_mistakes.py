# ruff: noqa: E501 (tables of exact messages)
"""Mistakes in layouts and projects: the message of each, and its place."""

import pytest
from unit.spec.conftest import LAYOUT, PROJECT, Load

from zlayout.errors import SpecError

ONE_LINE = "${...} is not allowed in"
FIELDS = "warehouse, uri, tables, storage and properties of catalogs, spark.master, spark.conf, commit.properties"
ONLY_IN = f"use it in zlayout.yaml only: {FIELDS}"
KEYS = (
    "known keys: version, table, match, exclude, only, partition_timezone, ref, description, tags, partition_by, zorder,"
    " files, where, where_may_be_empty, workload, tolerance, engine"
)
TRANSFORMS = "expected a column, identity, year, month, day or hour of one, bucket(n, c) or truncate(n, c)"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version: 1\n", "", "a.yaml:1:1: ZL011 key 'version' is missing (for example version: 1)"),
        ("version: 1", "version: 2", "a.yaml:1:1: ZL013 expected version 1 for version, found the number 2"),
        ("version: 1", "version: true", "a.yaml:1:1: ZL013 expected version 1 for version, found true"),
        ("  columns: [a, b]", "  curve: zorder", "a.yaml:3:1: ZL011 key 'columns' is missing in zorder"),
        ("zorder:\n  columns: [a, b]\n", "", "a.yaml:1:1: ZL011 key 'zorder' is missing (declare zorder.columns, or only files.target_size to combine small files without an order)"),
        ("zorder:", "ref: 'a b'\nzorder:", "a.yaml:3:1: ZL013 expected the name of a branch, of letters, digits and _ . / - for ref, found 'a b'"),
        ("zorder:", "zordr: 1\nzorder:", "a.yaml:3:1: ZL010 unknown key 'zordr' (did you mean 'zorder'?)"),
        ("zorder:", "qqq: 1\nzorder:", f"a.yaml:3:1: ZL010 unknown key 'qqq' ({KEYS})"),
        ("[a, b]", "[a, {nam: b, name: b}]", "a.yaml:4:17: ZL010 unknown key 'nam' in zorder.columns[1] (did you mean 'name'?)"),
        ("[a, b]", "[a, {weight: 1}]", "a.yaml:4:16: ZL011 key 'name' is missing in zorder.columns[1] (for example name: l_shipdate)"),
        ("[a, b]", "[a, 3]", "a.yaml:4:16: ZL013 expected a column name or {name, weight} for zorder.columns[1], found the number 3"),
        ("[a, b]", "[]", "a.yaml:4:3: ZL013 expected a list of 1 to 32 columns for zorder.columns, found an empty one"),
        ("[a, b]", "a", "a.yaml:4:3: ZL013 expected a list of 1 to 32 columns for zorder.columns, found 'a'"),
        ("[a, b]", "[a, {name: b, weight: 0}]", "a.yaml:4:26: ZL013 expected a number above 0, at most 1000 for zorder.columns[1].weight, found the number 0"),
        ("[a, b]", "[a, b, {name: a}]", "a.yaml:4:19: ZL016 duplicate column 'a' in zorder.columns (keep the first one)"),
        ("[a, b]", "[a]\n  curve: zorde", "a.yaml:5:3: ZL014 expected kd, zorder, hilbert, linear or workload for zorder.curve, found 'zorde' (did you mean 'zorder'?)"),
        ("[a, b]", "[a]\n  curve: kd\nengine: native", "a.yaml:5:3: ZL025 engine native of iceberg does not support curve kd (use curve zorder or hilbert or linear, or engine zlayout)"),
        ("[a, b]", "[a]\n  curve: workload", "a.yaml:5:3: ZL058 expected zorder.cuts with curve workload, found none (add cuts, which zlayout advise finds for a workload, or use curve kd)"),
        ("[a, b]", "[a]\n  cuts: [a < 1]", "a.yaml:5:3: ZL058 expected curve workload with zorder.cuts, found kd (set curve: workload, or remove the cuts)"),
        ("[a, b]", "[a]\n  curve: workload\n  cuts: [A < 1, b < 1]", "a.yaml:6:17: ZL058 expected a column of zorder.columns in zorder.cuts, found 'b' (add it to zorder.columns, or remove the cut)"),
        ("[a, b]", "[a]\n  curve: workload\n  cuts: [a < 'x', a<'x']", "a.yaml:6:19: ZL058 duplicate cut at 'x' in zorder.cuts (keep the first one)"),
        *(
            ("[a, b]", f"[a]\n  curve: workload\n  cuts: [{cut}]", f"a.yaml:6:10: ZL058 expected column < literal or column <= literal in zorder.cuts, found '{cut}' (for example l_shipdate < DATE '1995-01-01')")
            for cut in ("a", "a > 1", "a < 1 AND b < 1", "f(a) < 1", "a <", "1 < 2")
        ),
        ("[a, b]", "[a]\n  curve: workload\n  cuts: []", "a.yaml:6:3: ZL013 expected a list of 1 to 64 cuts for zorder.cuts, found an empty one"),
        ("[a, b]", "[a]\n  curve: workload\n  cuts: [a < 1]\nengine: native", "a.yaml:5:3: ZL025 engine native of iceberg does not support curve workload (use curve zorder or hilbert or linear, or engine zlayout)"),
        ("[a, b]", "[a]\n  noise: yes", "a.yaml:5:3: ZL013 expected true or false for zorder.noise, found 'yes'"),
        ("[a, b]", "[a]\n  range_ids: 1", "a.yaml:5:3: ZL013 expected a whole number from 2 to 65536 for zorder.range_ids, found the number 1"),
        ("[a, b]", "[a]\n  range_ids: 1_000", "a.yaml:5:3: ZL013 expected a whole number from 2 to 65536 for zorder.range_ids, found '1_000'"),
        ("[a, b]", "[a]\nfiles: {target_size: 128mb}", "a.yaml:5:9: ZL013 expected a size such as 128MiB, or a number of bytes from 1024 for files.target_size, found '128mb'"),
        ("[a, b]", "[a]\nfiles: {target_size: 1000B}", "a.yaml:5:9: ZL013 expected files.target_size from 1KiB to 1024TiB, found '1000B'"),
        ("[a, b]", "[a]\nfiles: {max_group_size: 0B}", "a.yaml:5:9: ZL013 expected files.max_group_size from files.target_size, 128MiB, to 1024TiB, found '0B'"),
        ("[a, b]", "[a]\nfiles: {max_group_size: 1MiB, target_size: 1048577}", "a.yaml:5:9: ZL013 expected files.max_group_size from files.target_size, 1048577, to 1024TiB, found '1MiB'"),
        ("[a, b]", "[a]\nfiles: {max_group_size: 1025TiB}", "a.yaml:5:9: ZL013 expected files.max_group_size from files.target_size, 128MiB, to 1024TiB, found '1025TiB'"),
        ("[a, b]", "[a]\nfiles: {max_group_size: 1MiB, target_size: 1MiB}", ""),
        ("[a, b]", "[a]\nfiles: 3", "a.yaml:5:1: ZL013 expected a map with target_size, sort_within, max_group_size for files, found the number 3"),
        ("[a, b]", "[a]\ntolerance: {small_files: 101%}", "a.yaml:5:13: ZL013 expected a share such as 10% or 0.1 for tolerance.small_files, found '101%'"),
        ("[a, b]", "[a]\ntolerance: {touched: 0.5}", "a.yaml:5:13: ZL013 expected a factor of at least 1 such as 1.5x or 1.5 for tolerance.touched, found the number 0.5"),
        ("[a, b]", "[a]\ntags: [x, x]", "a.yaml:5:1: ZL013 expected a list of tags for tags, found one with duplicates"),
        ("[a, b]", "[a]\nwhere: year(d) = 1", "a.yaml:5:1: ZL031 the function year() is not allowed in where (allowed: AND OR NOT, = != < <= > >= <=>, IN, BETWEEN, LIKE 'prefix%', IS NULL, columns, days(c) and literals)"),
        ("[a, b]", "[a]\nwhere: ${W}", f"a.yaml:5:1: ZL017 {ONE_LINE} 'where' ({ONLY_IN})"),
        ("[a, b]", "['${A}']", f"a.yaml:4:13: ZL017 {ONE_LINE} '[0]' ({ONLY_IN})"),
        ("[a, b]", "[a]\npartition_by: [months(d)]", f"a.yaml:5:16: ZL023 {TRANSFORMS}, found 'months(d)' (did you mean 'month'?)"),
        ("[a, b]", "[a]\npartition_by: [bucket(d)]", f"a.yaml:5:16: ZL023 {TRANSFORMS}, found 'bucket(d)' (write bucket(16, column))"),
        ("[a, b]", "[a]\npartition_by: ['bucket(0, d)']", f"a.yaml:5:16: ZL023 {TRANSFORMS}, found 'bucket(0, d)' (write bucket(16, column))"),
        ("[a, b]", "[a]\npartition_by: ['day(1, d)']", f"a.yaml:5:16: ZL023 {TRANSFORMS}, found 'day(1, d)' (write day(column))"),
        ("[a, b]", "[a]\npartition_by: ['day(f(d))']", f"a.yaml:5:16: ZL023 {TRANSFORMS}, found 'day(f(d))'"),
        ("[a, b]", "[a]\npartition_by: [d, identity(d)]", "a.yaml:5:19: ZL023 duplicate partition key 'identity(d)' in partition_by"),
        ("ice.db.t", "ice", "a.yaml:2:1: ZL020 expected catalog.namespace.table, found 'ice' (the first part is a catalog of zlayout.yaml)"),
        ("ice.db.t", "ice.t", "a.yaml:2:1: ZL020 expected catalog.namespace.table for Iceberg, found 'ice.t'"),
        ("ice.db.t", "ice..t", "a.yaml:2:1: ZL020 expected a table name such as lake.sales.orders, found 'ice..t' (put a part with a dot in backticks, and double a backtick inside it)"),
        ("ice.db.t", "lake.`..`.t", "a.yaml:2:1: ZL020 invalid part '..' in a table name (remove '/', '\\', '.', '..', outer blanks and unprintable characters)"),
        ("ice.db.t", '"lake.a\\e.t"', "a.yaml:2:1: ZL020 invalid part 'a\\x1b' in a table name (remove '/', '\\', '.', '..', outer blanks and unprintable characters)"),
        ("ice.db.t", "icy.db.t", "a.yaml:2:1: ZL021 unknown catalog 'icy' (did you mean 'ice'?)"),
        ("ice.db.t", "x.db.t", "a.yaml:2:1: ZL021 unknown catalog 'x' (catalogs of zlayout.yaml: lake, ice)"),
        ("ice.db.t", "lake.db.t\npartition_by: [day(d)]", "a.yaml:3:16: ZL024 expected a column in partition_by of a Delta table, found 'day(d)' (use a generated column, or z-order by the column itself)"),
        ("ice.db.t", "lake.db.t\nengine: native", ""),
        ("ice.db.t", "ice.db.t\nref: audit", ""),
        ("ice.db.t", "lake.db.t\nref: main", ""),
        ("ice.db.t", "lake.db.t\nref: audit", "a.yaml:3:1: ZL055 ref 'audit': Delta tables have no branches (remove ref)"),
    ],
)  # fmt: skip
def test_mistakes_in_a_layout(load: Load, old: str, new: str, expected: str) -> None:
    assert old in LAYOUT
    files = {"zlayout.yaml": PROJECT, "layouts/a.yaml": LAYOUT.replace(old, new, 1)}
    if not expected:
        assert len(load(files).layouts) == 1
        return
    with pytest.raises(SpecError) as caught:
        load(files)
    assert str(caught.value) == f"layouts/{expected}"


SPARK_KEY = "expected a Spark setting that docs/spec.md allows for spark.conf"
SPARK_HINT = "(set it with spark-submit --conf or in spark-defaults.conf)"
REPLACED = (
    "expected a value without '${' after replacing variables, because Spark and Hadoop would replace it "
    "(write ${NAME} alone, and set NAME to the final value)"
)
SECRET_HINT = "(replace it with ${NAME} and set NAME in the environment, or use a profile or the role of the machine)"
PROPERTY = "expected a property that docs/spec.md allows for delta"
PROPERTY_HINT = "(set variables of the environment for plan, and Spark settings with spark-submit --conf or in spark-defaults.conf for apply)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version: 1\n", "1:1: ZL011 key 'catalogs' is missing"),
        (PROJECT + "layouts: {}\n", "5:1: ZL013 expected a list of file patterns for layouts, found a map"),
        (PROJECT + "workload: {exports: {d: {files: d.csv}}}\n", "5:1: ZL011 key 'engine' is missing in workload (for example engine: trino)"),
        ("version: 1\ncatalogs: {}\n", "2:1: ZL013 expected a map of catalogs for catalogs, found an empty one"),
        (PROJECT + "layout: [x]\n", "5:1: ZL010 unknown key 'layout' (did you mean 'layouts'?)"),
        (PROJECT + "layouts: [../*.yaml]\n", "5:11: ZL027 expected a pattern below zlayout.yaml, found '../*.yaml' (use a relative pattern without '..')"),
        (PROJECT + "layouts: [/x.yaml]\n", "5:11: ZL027 expected a pattern below zlayout.yaml, found '/x.yaml' (use a relative pattern without '..')"),
        (PROJECT + "layouts: [x**]\n", "5:11: ZL027 expected a file pattern, found 'x**': Invalid pattern: '**' can only be an entire path component"),
        (PROJECT + "layouts: [x.yaml]\n", "5:11: ZL002 file 'x.yaml' does not exist"),
        (PROJECT + "  x-y: {format: delta, warehouse: w}\n", "5:3: ZL013 expected a catalog name of letters, digits and '_', other than spark_catalog and system for catalogs.x-y, found 'x-y'"),
        (PROJECT + "  spark_catalog: {format: delta, warehouse: w}\n", "5:3: ZL013 expected a catalog name of letters, digits and '_', other than spark_catalog and system for catalogs.spark_catalog, found 'spark_catalog'"),
        (PROJECT + "  x: {format: hudi}\n", "5:7: ZL014 expected delta or iceberg for catalogs.x.format, found 'hudi'"),
        (PROJECT + "  x: {format: delta}\n", "5:3: ZL029 expected warehouse or tables in catalogs.x, found neither (add the storage location of the tables)"),
        (PROJECT + "  x: {format: delta, type: sql, warehouse: w}\n", "5:22: ZL029 expected type path or hive or glue or unity for format delta, found 'sql'"),
        (PROJECT + "  x: {format: delta, uri: u, warehouse: w}\n", "5:22: ZL029 key 'uri' is not allowed for type path (remove it)"),
        (PROJECT + "  x: {format: delta, warehouse: 'abfss://c@a.dfs.core.windows.net', storage: {region: r}}\n", "5:69: ZL037 expected tables on S3 or GCS for storage, found abfss:// (remove storage, or use s3:// or gs:// for the warehouse)"),
        (PROJECT + "  x: {format: delta, warehouse: 'gs://b', storage: {region: r}}\n", "5:53: ZL037 key 'region' is not allowed for tables on GCS (remove it)"),
        (PROJECT + "  x: {format: delta, warehouse: 'gs://b', tables: {a.b: 's3://c'}, storage: {allow_http: true}}\n", "5:68: ZL037 expected tables on one object store for storage, found S3 and GCS (declare one catalog for each object store)"),
        (PROJECT + "  x: {format: delta, warehouse: 'gs://b', storage: {endpoint: 'https://a:b@h'}}\n", "5:53: ZL037 an endpoint must not contain credentials (remove them, and set GOOGLE_APPLICATION_CREDENTIALS in the environment)"),
        (PROJECT + "  x: {format: delta, warehouse: 'gs://b', storage: {endpoint: 'http://h'}}\n", "5:53: ZL037 expected https to another machine, found http (use https, or set allow_http: true, which sends data without encryption)"),
        (PROJECT + "  x: {format: delta, warehouse: 's3://b', storage: {endpoint: 'h:9'}}\n", "5:53: ZL037 expected https://HOST[:PORT], found another text"),
        (PROJECT + "  x: {format: delta, warehouse: 's3://b', storage: {endpoint: 'https://a:b@h'}}\n", "5:53: ZL037 an endpoint must not contain credentials (remove them, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment)"),
        (PROJECT + "  x: {format: delta, warehouse: 's3://b', storage: {endpoint: 'http://h'}}\n", "5:53: ZL037 expected https to another machine, found http (use https, or set allow_http: true, which sends data without encryption)"),
        (PROJECT + "  x: {format: delta, warehouse: 's3://b', storage: {secret: x}}\n", "5:53: ZL010 unknown key 'secret' in catalogs.x.storage (known keys: endpoint, region, path_style, allow_http)"),
        (PROJECT + "  x: {format: delta, warehouse: 's3://b', properties: {aws_secret_access_key: abc}}\n", f"5:56: ZL042 'catalogs.x.properties.aws_secret_access_key' contains a secret {SECRET_HINT}"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', properties: {credential: 'id:abc'}}\n", f"5:67: ZL042 'catalogs.x.properties.credential' contains a secret {SECRET_HINT}"),
        (PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: 'postgresql://u:abc@h/d'}\n", f"5:49: ZL042 'catalogs.x.uri' contains a secret {SECRET_HINT}"),
        (PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: '${U:-postgresql://u:abc@h/d}'}\n", f"5:49: ZL042 'catalogs.x.uri' contains a secret {SECRET_HINT}"),
        (PROJECT + "commit: {properties: {zlayout.run: x}}\n", "5:23: ZL013 expected a name of letters, digits and '_', other than operation for commit.properties.zlayout.run, found 'zlayout.run'"),
        (PROJECT + "commit: {properties: {operation: x}}\n", "5:23: ZL013 expected a name of letters, digits and '_', other than operation for commit.properties.operation, found 'operation'"),
        (PROJECT + "commit: {properties: {password: '${P:-x}'}}\n", "5:23: ZL042 'commit.properties.password' would store a secret (remove it: every reader of the table can read what a commit stores)"),
        (PROJECT + "spark: {conf: {spark.hadoop.fs.s3a.secret.key: abc}}\n", f"5:16: ZL042 'spark.conf.spark.hadoop.fs.s3a.secret.key' contains a secret {SECRET_HINT}"),
        (PROJECT + "  x: {format: delta, type: unity, uri: 'http://h', warehouse: main}\n", "5:35: ZL037 expected https to another machine, found http (use https, or set allow_http: true in the catalog, which sends credentials without encryption)"),
        (PROJECT + "  x: {format: delta, warehouse: w, vended_credentials: true}\n", "5:36: ZL029 key 'vended_credentials' is not allowed for type path (remove it)"),
        (PROJECT + "  x: {format: delta, type: unity, uri: 'https://h'}\n", "5:3: ZL029 key 'warehouse' is missing in catalogs.x (add it for type unity)"),
        (PROJECT + "  x: {format: delta, type: hive, uri: 'thrift://h', tables: {a.b: /c}}\n", "5:53: ZL029 key 'tables' is not allowed for type hive (remove it)"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'http://h'}\n", "5:36: ZL037 expected https to another machine, found http (use https, or set allow_http: true in the catalog, which sends credentials without encryption)"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', properties: {oauth2-server-uri: 'http://o'}}\n", "5:67: ZL037 expected https to another machine, found http (use https, or set allow_http: true in the catalog, which sends credentials without encryption)"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', properties: {header.x-iceberg-access-delegation: remote-signing}}\n", "5:67: ZL029 expected vended-credentials, because pyiceberg does not support requests that the catalog signs (remove the property)"),
        (PROJECT + "  x: {format: iceberg, type: hive, uri: 'thrift://h', yield_to_writers: true}\n", "5:55: ZL029 key 'yield_to_writers' is not allowed for type hive (remove it)"),
        (PROJECT + "  x: {format: iceberg, type: hive, uri: 'http://h'}\n", "5:36: ZL029 expected thrift: for type hive, found http: (use type rest, or correct the address)"),
        (PROJECT + "  x: {format: iceberg, type: hive, uri: 'thrift://h', warehouse: ./w}\n", "5:55: ZL029 expected an absolute location for type hive, found a relative path (use the URL of an object store, or remove it if the catalog knows its warehouse)"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', warehouse: ./w}\n", "5:54: ZL029 expected an absolute location for type rest, found a relative path (use the URL of an object store, or remove it if the catalog knows its warehouse)"),
        (PROJECT + "  x: {format: iceberg, type: glue, warehouse: w}\n", "5:36: ZL029 expected an absolute location for type glue, found a relative path (use the URL of an object store, or remove it if the catalog knows its warehouse)"),
        (PROJECT + "  x: {format: iceberg, type: glue, warehouse: 'gs://b'}\n", "5:36: ZL029 expected a warehouse on S3 for type glue, found gs: (use s3://BUCKET/PATH)"),
        (PROJECT + "  x: {format: delta, warehouse: 'thrift://h'}\n", "5:22: ZL029 expected a folder or the URL of an object store, found the address of a service, thrift: (use the location below which tables are stored)"),
        (PROJECT + "  x: {format: delta, warehouse: w, file_locations: {a.b: [c, 's3://d/*']}}\n", "5:62: ZL029 expected the URL or the folder below which files are, found 's3://d/*' (write it in full, without '..' and without patterns)"),
        (PROJECT + "  x: {format: delta, warehouse: w, file_locations: {a.b: [../c]}}\n", "5:59: ZL029 expected the URL or the folder below which files are, found '../c' (write it in full, without '..' and without patterns)"),
        (PROJECT + "  x: {format: delta, warehouse: w, file_locations: {a.b: ['s3://']}}\n", "5:59: ZL029 expected the URL or the folder below which files are, found 's3://' (write it in full, without '..' and without patterns)"),
        (PROJECT + "  x: {format: delta, warehouse: w, file_locations: {a.b: ['${L:-/c}']}}\n", "5:59: ZL017 ${...} is not allowed in '[0]' (use it in zlayout.yaml only: warehouse, uri, tables, storage and properties of catalogs, spark.master, spark.conf, commit.properties)"),
        (PROJECT + "  x: {format: delta, warehouse: w, file_locations: {a.b: s3://c}}\n", "5:53: ZL013 expected a list of folders or URLs for catalogs.x.file_locations.a.b, found 's3://c'"),
        (PROJECT + "  x: {format: iceberg}\n", "5:3: ZL029 expected type sql or rest or hive or glue for format iceberg, found none"),
        (PROJECT + "  x: {format: iceberg, type: rest}\n", "5:3: ZL029 key 'uri' is missing in catalogs.x (add it for type rest)"),
        (PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: 'jdbc:postgresql://h/d'}\n", "5:49: ZL029 expected a URI of SQLAlchemy for type sql, found jdbc: (use sqlite:///FILE, postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE)"),
        (PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: 'postgres://h/d'}\n", "5:49: ZL029 expected a URI of SQLAlchemy for type sql, found postgres: (use sqlite:///FILE, postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE)"),
        (PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: 'sqlite://'}\n", "5:49: ZL029 expected a catalog that Spark can read, found one in memory (use a file, for example sqlite:///catalog.db)"),
        (PROJECT + "  x: {format: delta, warehouse: w, properties: {cache-enabled: true}}\n", f"5:49: ZL029 {PROPERTY} for catalogs.x.properties.cache-enabled, found 'cache-enabled' {PROPERTY_HINT}"),
        (PROJECT + "spark: {conf: {spark.sql.extensions: x}}\n", f"5:16: ZL028 {SPARK_KEY}.spark.sql.extensions, found 'spark.sql.extensions' {SPARK_HINT}"),
        (PROJECT + "spark: {conf: {spark.sql.catalog.spark_catalog: x}}\n", f"5:16: ZL028 {SPARK_KEY}.spark.sql.catalog.spark_catalog, found 'spark.sql.catalog.spark_catalog' {SPARK_HINT}"),
        (PROJECT + "spark: {conf: {spark.sql.files.ignoreCorruptFiles: true}}\n", f"5:16: ZL028 {SPARK_KEY}.spark.sql.files.ignoreCorruptFiles, found 'spark.sql.files.ignoreCorruptFiles' {SPARK_HINT}"),
        (PROJECT + 'spark: {conf: {"spark.local.dir\\n": x}}\n', f"5:16: ZL028 {SPARK_KEY}.spark.local.dir\\n, found 'spark.local.dir\\n' (did you mean 'spark.local.dir'? Else {SPARK_HINT[1:]}"),
        (PROJECT + "spark: {conf: {spark.local.dir: [x]}}\n", "5:16: ZL013 expected text, a number, true or false for spark.conf.spark.local.dir, found a list"),
        (PROJECT + "spark: {master: '${M}'}\n", "5:9: ZL018 the environment variable M is not set (set it, or write ${M:-default})"),
        (PROJECT + "spark: {master: '${M:?ask the team}'}\n", "5:9: ZL018 the environment variable M is not set: ask the team (set it, or write ${M:-default})"),
        (PROJECT + "spark: {master: '${M-x}'}\n", "5:9: ZL019 expected ${NAME}, ${NAME:-default} or ${NAME:?message}, found another '${'"),
        (PROJECT + "spark: {master: '$${M:-{env:CANARY}}'}\n", f"5:9: ZL019 {REPLACED}"),
        (PROJECT + "spark: {conf: {spark.hadoop.fs.s3a.endpoint: 'https://h/${OTHER}'}}\n", f"5:16: ZL019 {REPLACED}"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', properties: {header.x: '${OTHER}'}}\n", f"5:67: ZL019 {REPLACED}"),
        (PROJECT + "  x: {format: iceberg, type: rest, uri: 'https://h', properties: {header.x: 'env:CANARY'}}\n", "5:67: ZL019 expected a value that does not begin with env:, because Iceberg would replace it (write ${NAME})"),
        (PROJECT + "spark: {master: '${EMPTY}'}\n", "5:9: ZL018 expected a value, found an empty string after replacing ${...}"),
        (PROJECT + "spark: {master: '${LINES}'}\n", "5:9: ZL018 expected one line of text, found a line break or NUL from ${...}"),
        (PROJECT + "defaults: {engine: '${E}'}\n", f"5:12: ZL014 expected zlayout or native for defaults.engine, found '${{E}}'\nzlayout.yaml:5:12: ZL017 {ONE_LINE} 'engine' ({ONLY_IN})"),
        (PROJECT + "notify: {webhook: '${SLACK_WEBHOOK}', template: t.jinja}\n", "5:1: ZL010 the key notify has been removed (send the report of drift from a step of your CI (docs/operate.md, Notifications))"),
        (PROJECT + "history: {table: lake.ops.h, keep: 10d}\n", "5:11: ZL010 the key history.table has been removed (name a SQLite file in history.path; `zlayout history TABLE --json` prints its records)"),
        (PROJECT + "notify: {webhook: 'https://hooks.example.com/the-token'}\n", "5:1: ZL010 the key notify has been removed (send the report of drift from a step of your CI (docs/operate.md, Notifications))"),
        (PROJECT + "defaults: {zorder: {columns: [a]}}\n", "5:21: ZL010 unknown key 'columns' in defaults.zorder (known keys: curve, range_ids, noise)"),
    ],
)  # fmt: skip
def test_mistakes_in_a_project(load: Load, text: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        load({"zlayout.yaml": text}, {"EMPTY": "", "LINES": "a\nb", "OTHER": "${env.CANARY}"})
    assert str(caught.value) == f"zlayout.yaml:{expected}"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_plain_http_of_the_environment_is_an_error_too(load: Load, variable: str) -> None:
    s3 = "  x: {format: delta, warehouse: 's3://b'}\n"
    with pytest.raises(SpecError) as caught:
        load({"zlayout.yaml": PROJECT + s3}, {variable: "http://store"})
    assert str(caught.value) == (
        f"zlayout.yaml:5:3: ZL037 expected https to another machine, found http in {variable} of the environment (use https, or set "
        "storage.allow_http: true in the catalog, which sends data without encryption)"
    )
    load({"zlayout.yaml": PROJECT + s3}, {variable: "http://127.0.0.1:9000"})
    load({"zlayout.yaml": PROJECT + s3}, {variable: "http://store", "AWS_ALLOW_HTTP": "true"})
    load({"zlayout.yaml": PROJECT + s3.replace("}", ", storage: {allow_http: true}}")}, {variable: "http://store"})
    load({"zlayout.yaml": PROJECT}, {variable: "http://store"})


def test_secrets_from_variables_and_names_that_only_look_like_secrets_are_accepted(load: Load) -> None:
    properties = "{token: '${T}', credential: 'id:${T}', token-refresh-enabled: true}"
    provider = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    conf = f"{{spark.hadoop.fs.s3a.aws.credentials.provider: {provider}, spark.hadoop.fs.s3a.secret.key: '${{T}}'}}"
    catalogs = f"  x: {{format: iceberg, type: rest, uri: 'https://u:${{T}}@h', properties: {properties}}}\n"
    assert load({"zlayout.yaml": f"{PROJECT}{catalogs}spark: {{conf: {conf}}}\n"}, {"T": "canary"}).catalogs["x"]


def test_a_curve_from_the_defaults_is_blamed_there(load: Load) -> None:
    files = {
        "zlayout.yaml": PROJECT + "defaults: {zorder: {curve: linear}, engine: native}\n",
        "layouts/a.yaml": LAYOUT,
    }
    assert load(files).layouts[0].layout.curve == "linear"
    with pytest.raises(SpecError) as caught:
        load(files | {"layouts/a.yaml": LAYOUT.replace("ice.", "lake.")})
    assert str(caught.value) == (
        "zlayout.yaml:5:21: ZL025 engine native of delta does not support curve linear (use curve zorder or hilbert, or engine zlayout)"
    )


def test_all_mistakes_of_all_files_come_at_once_and_sorted(load: Load) -> None:
    files = {
        "zlayout.yaml": PROJECT + "x: 1\n",
        "layouts/b.yaml": LAYOUT.replace("zorder", "zordr") + "tag: x\n",
        "layouts/a.yaml": "a: [\n",
        "layouts/c.yaml": LAYOUT,
        "layouts/d.yaml": LAYOUT + "where: f(x)\n",
    }
    with pytest.raises(SpecError) as caught:
        load(files)
    assert [(str(d.location), d.code) for d in caught.value.diagnostics] == [
        ("layouts/a.yaml:2:1", "ZL005"),
        ("layouts/b.yaml:1:1", "ZL011"),
        ("layouts/b.yaml:3:1", "ZL010"),
        ("layouts/b.yaml:5:1", "ZL010"),
        ("layouts/d.yaml:5:1", "ZL031"),
        ("zlayout.yaml:5:1", "ZL010"),
    ]


def test_a_table_has_one_layout(load: Load) -> None:
    with pytest.raises(SpecError) as caught:
        load(
            {
                "zlayout.yaml": PROJECT,
                "layouts/a.yaml": LAYOUT,
                "layouts/b.yaml": LAYOUT.replace("ice.db.t", "ice.`db`.t"),
            }
        )
    assert str(caught.value) == (
        "layouts/b.yaml:2:1: ZL022 duplicate layout for table 'ice.db.t' (first defined in layouts/a.yaml:2:1) (keep one of the two)"
    )


def test_values_of_variables_never_get_into_messages(load: Load) -> None:
    text = PROJECT + "  x: {format: iceberg, type: sql, warehouse: w, uri: '${U}', tables: {a: '${U}'}}\n"
    with pytest.raises(SpecError) as caught:
        load({"zlayout.yaml": text, "layouts/a.yaml": "${"}, {"U": "sqlite:///:memory:CANARY\n"})
    assert "CANARY" not in str(caught.value)
    assert {d.code for d in caught.value.diagnostics} >= {"ZL018"}
