import pytest

from zlayout.errors import EngineError
from zlayout.spark.session import TIME_ZONE, set_time_zone


def test_one_session_speaks_both_formats(spark, delta_path, iceberg_table):
    spark.range(3).write.format("delta").save(str(delta_path))
    spark.range(4).writeTo(str(iceberg_table)).using("iceberg").create()
    assert spark.read.format("delta").load(str(delta_path)).count() == 3
    assert spark.table(str(iceberg_table)).count() == 4


def test_a_time_zone_that_does_not_exist_is_an_error(spark):
    with pytest.raises(EngineError, match=r"ZL304 .*unknown time zone 'Europe/Berlln'.*such as Europe/Berlin"):
        set_time_zone(spark, "Europe/Berlln")
    assert spark.conf.get(TIME_ZONE) == "UTC"
    set_time_zone(spark, "UTC")
