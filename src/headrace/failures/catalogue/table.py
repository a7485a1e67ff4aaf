"""The whole catalogue in the order in which it is searched. Read by `classify` and `page`.

Where one text fits several entries the first wins: a full disk, refused access and lack of memory
come first, since they also explain what else went wrong; the widest patterns come last.
"""

from __future__ import annotations

from headrace.failures.catalogue import brokers, checkpoints, code, queries, storage, tables
from headrace.failures.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *storage.FIRST,
    *code.MEMORY,
    *checkpoints.ENTRIES,
    *brokers.ENTRIES,
    *tables.ENTRIES,
    *queries.ENTRIES,
    *storage.ENTRIES,
    *code.ENTRIES,
    code.USER_CODE,
    queries.VANISHED,
    queries.UNKNOWN,
)
