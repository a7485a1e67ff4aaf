"""Paths in the demo's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PIPELINE = "metrics"
KAFKA = "kafka"  # the profile


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """`folder` is the project. Deployments and the pipeline ignore `.demo/`. `below` is the folder
    of results in headrace.toml; the Kafka profile has another one."""

    folder: Path
    below: str = "data"

    @property
    def own(self) -> Path:
        return self.folder / ".demo"

    @property
    def marker(self) -> Path:  # marks a folder that the demo wrote
        return self.own / "demo.json"

    @property
    def lock(self) -> Path:  # held by the running demo
        return self.own / "demo.lock"

    @property
    def generator_lock(
        self,
    ) -> Path:  # held by the generator, which may end a little after the demo
        return self.own / "generator.lock"

    @property
    def truth(self) -> Path:  # one line per input file, by the generator
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
