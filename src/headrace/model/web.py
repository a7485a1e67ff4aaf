"""Settings of the page, with their defaults, and what its process tells the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.runs import Jsonable

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class WebSettings:
    """[web] in headrace.toml. There is no way to switch the login off."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 0  # 0: the first free one from PORT on
    hosts: list[str] = field(default_factory=list)  # more names under which it may be called
    certificate: str | None = None  # TLS: a PEM file, and its key
    key: str | None = None
    behind_proxy: bool = False  # TLS ends at a proxy on this machine or on a trusted network
    proxies: list[str] = field(default_factory=lambda: ["127.0.0.1"])

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def is_secure(self) -> bool:
        """The browser speaks TLS: cookies may be marked so."""
        return bool(self.certificate) or self.behind_proxy


PORT = 8321
PORTS_TRIED = 50


@dataclass(frozen=True, slots=True)
class Listening(Jsonable):
    """`.headrace/web.json`: where the page is, written once it listens."""

    url: str
    pid: int
    started: float  # as in model.runs.Process: a pid alone may be a stranger's
    boot: str
    at: float
