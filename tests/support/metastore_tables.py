"""What Spark 4.1 with Delta 4.4 stores in a Hive metastore and, through its client for Glue, in Glue.

`tests/spark/test_hive_names.py` compares it with what Spark really stores.
"""

from typing import Any

PLACEHOLDER = "-__PLACEHOLDER__"


def spark_parameters(provider: str = "delta") -> dict[str, str]:
    return {
        "spark.sql.sources.provider": provider,
        "spark.sql.sources.schema": '{"type":"struct","fields":[]}',
        "spark.sql.partitionProvider": "catalog",
        "spark.sql.create.version": "4.1.4",
    }


def glue_table(name: str, location: str, *, managed: bool = False, provider: str = "delta") -> dict[str, Any]:
    """The `TableInput` of Glue for a table of a Spark data source."""
    folder = location if managed else f"s3://warehouse/sales.db/{name}{PLACEHOLDER}"
    return {
        "Name": name,
        "TableType": "MANAGED_TABLE" if managed else "EXTERNAL_TABLE",
        "Parameters": spark_parameters(provider) | ({} if managed else {"EXTERNAL": "TRUE"}),
        "StorageDescriptor": {
            "Columns": [{"Name": "col", "Type": "array<string>"}],
            "Location": folder,
            "SerdeInfo": {"Parameters": {"serialization.format": "1", "path": location}},
        },
    }


def hive_table(database: str, name: str, location: str, *, managed: bool = False, provider: str = "delta") -> Any:
    """The Thrift `Table` of the same."""
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    table = glue_table(name, location, managed=managed, provider=provider)
    serde = SerDeInfo(
        serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        parameters=table["StorageDescriptor"]["SerdeInfo"]["Parameters"],
    )
    storage = StorageDescriptor(
        cols=[FieldSchema("col", "array<string>", "from deserializer")],
        location=table["StorageDescriptor"]["Location"].replace("s3://warehouse", "file:/tmp/warehouse"),
        inputFormat="org.apache.hadoop.mapred.SequenceFileInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
        serdeInfo=serde,
        parameters={},
        bucketCols=[],
        sortCols=[],
        numBuckets=-1,
        compressed=False,
    )
    return Table(
        dbName=database,
        tableName=name,
        owner="test",
        sd=storage,
        partitionKeys=[],
        parameters=table["Parameters"],
        tableType=table["TableType"],
    )
