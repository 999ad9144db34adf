"""Lets Java Hudi build the metadata table of a table: one bulk insert of one row, with the metadata table switched on.

Run by Spark's Python: with_metadata.py BASE
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures"))
import hudi  # noqa: E402

base = sys.argv[1]
spark = hudi.start_spark("0.15.0", memory="6g")
row = spark.createDataFrame([(-1, "added")], "id bigint, dt string")
(row.write.format("hudi").mode("append")
    .option("hoodie.table.name", os.environ["TABLE_NAME"])
    .option("hoodie.datasource.write.operation", "bulk_insert")
    .option("hoodie.datasource.write.recordkey.field", "id")
    .option("hoodie.datasource.write.precombine.field", "id")
    .option("hoodie.datasource.write.partitionpath.field", "dt")
    .option("hoodie.datasource.write.hive_style_partitioning", "true")
    .option("hoodie.metadata.enable", "true")
    .option("hoodie.clean.automatic", "false").option("hoodie.archive.automatic", "false")
    .save(base))
spark.stop()
