"""The whole catalogue in search order: the first match wins.

A full disk, denied access and lack of memory come first, because they cause other failures; the
most general patterns come last.
"""

from __future__ import annotations

from headrace.failures.catalogue import brokers, checkpoints, code, queries, storage, tables
from headrace.failures.catalogue_entry import CatalogueEntry

ENTRIES: tuple[CatalogueEntry, ...] = (
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
