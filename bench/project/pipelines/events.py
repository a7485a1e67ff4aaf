"""The pipeline of the benchmarks: lines of JSON become Parquet files by day."""

from shape import kept as shaped

import headrace as hr


@hr.stream(to=hr.parquet("data/kept", partition_by=["day"]))
def kept(incoming):
    return shaped(incoming)
