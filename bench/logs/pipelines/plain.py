"""The history alone by plain `from_json`: exactly what the bare script does."""

from shape import dated, opened

import headrace as hr


@hr.stream(to=hr.parquet("data/plain", partition_by=["date"]), trigger=hr.available_now())
def plain(raw_logs, customers):
    return dated(opened(raw_logs), customers)
