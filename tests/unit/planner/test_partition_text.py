from datetime import date

import pytest

from zlayout.planner.partitions import partition_text
from zlayout.table.partition import Partition, PartitionField


@pytest.mark.parametrize(
    ("transform", "value", "text"),
    [
        ("identity", "west", "c=west"), ("identity", None, "c=null"), ("identity", date(2026, 1, 2), "c=2026-01-02"),
        ("year", 56, "year(c)=2026"), ("year", -1, "year(c)=1969"), ("month", 672, "month(c)=2026-01"),
        ("month", -1, "month(c)=1969-12"), ("day", 20454, "day(c)=2026-01-01"), ("day", -1, "day(c)=1969-12-31"),
        ("hour", 25, "hour(c)=1970-01-02T01"), ("day", 2_932_896, "day(c)=9999-12-31"),
        ("day", 2_932_897, "day(c)=2932897"), ("day", -719_163, "day(c)=-719163"),
        ("hour", 10**15, "hour(c)=1000000000000000"), ("bucket[16]", 3, "bucket(16, c)=3"),
        ("truncate[2]", "ab", "truncate(2, c)=ab"),
    ],
)  # fmt: skip
def test_values_read_as_people_write_them(transform: str, value: object, text: str) -> None:
    assert partition_text(Partition(0, (PartitionField("c", transform),), (value,))) == text


def test_several_fields_and_none() -> None:
    fields = (PartitionField("a"), PartitionField("b"))
    assert partition_text(Partition(0, fields, (1, "x"))) == "a=1, b=x"
    assert partition_text(Partition(0, (), ())) == ""


def test_no_two_partitions_have_the_same_text() -> None:
    fields = (PartitionField("p"), PartitionField("q"))
    values = [None, "null", "'null'", "x", "x, q=y", "y, q=y", "it's"]
    texts = [partition_text(Partition(0, fields, (one, other))) for one in values for other in values]
    assert len(set(texts)) == len(texts)
    assert partition_text(Partition(0, fields, (None, "null"))) == "p=null, q='null'"
    assert partition_text(Partition(0, fields, ("it's", "a,b"))) == "p=it's, q=a,b"
