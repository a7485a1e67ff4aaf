"""A batch writes four files; while a file `hold` is there, the fourth one never gets finished.

While it stands it shows a file `at-hold`, so that nobody has to guess when.
"""

import time
from pathlib import Path

from pyspark.sql import functions as F

import headrace as hr

HELD = "3:299"  # the last row of the last file


@hr.udf("string")
def padded(name: str) -> str:
    while name == HELD and Path("hold").exists():
        Path("at-hold").touch()
        time.sleep(0.05)
    return name + "." * 1000  # so that the rows before it do not wait in a buffer


@hr.stream(to=hr.parquet("data/kept"))
def kept(lines):
    cells = F.split("value", " ")
    rows = lines.select(
        cells[0].alias("file"), cells[1].cast("int").alias("part"), cells[2].alias("row")
    )
    return (
        rows.repartitionById(4, "part")
        .withColumn("padded", padded(F.concat_ws(":", "part", "row")))
        .withColumn("id", F.concat_ws(":", "file", "part", "row"))
    )
