"""The history alone, every record judged: `hr.parse_json`, join, Parquet by day."""

from shape import LOG, dated

import headrace as hr


@hr.stream(to=hr.parquet("data/checked", partition_by=["date"]), trigger=hr.available_now())
def checked(raw_logs, customers):
    # Without the quarantine: the other sides have nothing like it.
    return dated(hr.parse_json(raw_logs, LOG, quarantine=False), customers)
