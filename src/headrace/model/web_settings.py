"""Settings of the page with their defaults, and its address."""

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
    address: str | None = None  # the page's address in notices, if others use a different one
    hosts: list[str] = field(default_factory=list)  # other host names it accepts
    certificate: str | None = None  # TLS: a PEM file, and its key
    key: str | None = None
    behind_proxy: bool = False  # TLS ends at a proxy on this machine or on a trusted network
    proxies: list[str] = field(default_factory=lambda: ["127.0.0.1"])

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def is_secure(self) -> bool:
        """The browser uses TLS, so cookies can be Secure."""
        return bool(self.certificate) or self.behind_proxy


PORT = 8321
PORTS_TRIED = 50


@dataclass(frozen=True, slots=True)
class Listening(Jsonable):
    """`.headrace/web.json`: the page's address, written once it listens."""

    url: str
    pid: int
    started: float  # as in model.runs.Process
    boot: str
    at: float
