"""An outage: a source that does not answer a query. Reported by the driver, shown as a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.numbers import real

TEXT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Outage:
    """`error` names the address and the client's error: "Kafka HOST:PORT: connection refused".
    `since` is when the query began to wait."""

    error: str
    since: float
    source: str | None = None  # as Spark describes it
    addresses: tuple[str, ...] = ()

    @classmethod
    def heard(cls, data: Mapping[str, Any], at: float) -> Outage:
        since, source, known = real(data.get("since")), data.get("source"), data.get("addresses")
        listed = known if isinstance(known, list) else []
        return cls(
            error=str(data.get("error") or "no answer")[:TEXT_MAX],
            since=at if since is None else since,
            source=str(source)[:TEXT_MAX] if source else None,
            addresses=tuple(str(address)[:200] for address in listed if address)[:10],
        )
