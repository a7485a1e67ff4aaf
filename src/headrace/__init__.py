"""Headrace keeps PySpark Structured Streaming running. Public names only; imports nothing heavy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from headrace.connectors.alert import alert as alert
    from headrace.connectors.console import console as console
    from headrace.connectors.files import avro as avro
    from headrace.connectors.files import binary as binary
    from headrace.connectors.files import csv as csv
    from headrace.connectors.files import files as files
    from headrace.connectors.files import json as json
    from headrace.connectors.files import orc as orc
    from headrace.connectors.files import parquet as parquet
    from headrace.connectors.files import text as text
    from headrace.connectors.kafka.connector import kafka as kafka
    from headrace.connectors.kafka.event_hubs import event_hubs as event_hubs
    from headrace.connectors.live import live as live
    from headrace.connectors.memory import memory as memory
    from headrace.connectors.rate import rate as rate
    from headrace.connectors.socket import socket as socket
    from headrace.connectors.user_functions import each_batch as each_batch
    from headrace.connectors.user_functions import each_row as each_row
    from headrace.define.api import listener as listener
    from headrace.define.api import source as source
    from headrace.define.api import stream as stream
    from headrace.define.api import table as table
    from headrace.define.api import udf as udf
    from headrace.define.api import view as view
    from headrace.define.triggers import available_now as available_now
    from headrace.define.triggers import continuous as continuous
    from headrace.define.triggers import real_time as real_time
    from headrace.notebook.batch_io import read as read
    from headrace.notebook.batch_io import sql as sql
    from headrace.notebook.batch_io import write as write
    from headrace.notebook.display import display as display
    from headrace.notebook.session import session as session
    from headrace.transforms.parse import parse_json as parse_json
    from headrace.transforms.route import route as route
    from headrace.transforms.silence import absent as absent

_MODULES = {
    "define.api": ("listener", "source", "stream", "table", "udf", "view"),
    "define.triggers": ("available_now", "continuous", "real_time"),
    "transforms.silence": ("absent",),
    "transforms.parse": ("parse_json",),
    "transforms.route": ("route",),
    "connectors.alert": ("alert",),
    "connectors.console": ("console",),
    "connectors.files": ("files", "text", "csv", "json", "parquet", "orc", "avro", "binary"),
    "connectors.kafka.connector": ("kafka",),
    "connectors.kafka.event_hubs": ("event_hubs",),
    "connectors.live": ("live",),
    "connectors.memory": ("memory",),
    "connectors.rate": ("rate",),
    "connectors.socket": ("socket",),
    "connectors.user_functions": ("each_batch", "each_row"),
    "notebook.batch_io": ("read", "sql", "write"),
    "notebook.display": ("display",),
    "notebook.session": ("session",),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}
# For `%load_ext headrace`.
_HOOKS = dict.fromkeys(("load_ipython_extension", "unload_ipython_extension"), "notebook.magics")

__all__ = ["__version__", *sorted(_NAMES)]


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use."""
    module = _NAMES.get(name) or _HOOKS.get(name)
    if module is None:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"headrace.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
