"""Where the demo keeps what in its folder. Paths only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PIPELINE = "metrics"
KAFKA = "kafka"  # the profile


@dataclass(frozen=True, slots=True)
class DemoPlaces:
    """`folder` is the project. `.demo/` is hidden from deploys and from the pipeline. `below` is
    where headrace.toml puts results: another place in Kafka's profile."""

    folder: Path
    below: str = "data"

    @property
    def own(self) -> Path:
        return self.folder / ".demo"

    @property
    def marker(self) -> Path:  # says that the demo wrote this folder
        return self.own / "demo.json"

    @property
    def lock(self) -> Path:  # held by the demo that runs here
        return self.own / "demo.lock"

    @property
    def generator_lock(self) -> Path:  # held by the generator, which may outlive its demo a little
        return self.own / "generator.lock"

    @property
    def truth(self) -> Path:  # one line a file of input, by the generator
        return self.own / "truth.jsonl"

    @property
    def control(self) -> Path:  # {"rate": N}: read by the generator every second
        return self.own / "control.json"

    @property
    def generator_log(self) -> Path:
        return self.own / "generator.log"

    @property
    def incoming(self) -> Path:
        return self.folder / "incoming"

    @property
    def customers(self) -> Path:
        return self.folder / "customers.csv"

    @property
    def history(self) -> Path:
        return self.folder / self.below / "metrics"

    @property
    def heartbeats(self) -> Path:
        return self.folder / self.below / "heartbeats"
