"""One query whose output says which version of the file wrote it."""

from pyspark.sql import functions as F

import headrace as hr

MARK = "first"


@hr.stream(to="out")
def marked(lines):
    return lines.select("value", F.lit(MARK).alias("mark"))
