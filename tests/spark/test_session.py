def test_one_session_speaks_both_formats(spark, delta_path, iceberg_table):
    spark.range(3).write.format("delta").save(str(delta_path))
    spark.range(4).writeTo(str(iceberg_table)).using("iceberg").create()
    assert spark.read.format("delta").load(str(delta_path)).count() == 3
    assert spark.table(str(iceberg_table)).count() == 4
