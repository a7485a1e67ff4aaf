"""Paths in the demo's folder."""

from __future__ import annotations

from pathlib import Path

PIPELINE = "metrics"
KAFKA = "kafka"  # the profile


class DemoPaths:
    """`folder` is the project. Deployments and the pipeline ignore `.demo/`. `below` is the folder
    of results in headrace.toml; the Kafka profile has another one."""

    def __init__(self, folder: Path, below: str = "data") -> None:
        self.folder = folder
        self.incoming = folder / "incoming"
        self.customers = folder / "customers.csv"
        self.history = folder / below / "metrics"
        self.heartbeats = folder / below / "heartbeats"
        self.own = folder / ".demo"
        self.marker = self.own / "demo.json"  # marks a folder that the demo wrote
        self.lock = self.own / "demo.lock"  # held by the running demo
        self.generator_lock = self.own / "generator.lock"  # the generator may end after the demo
        self.generator_log = self.own / "generator.log"
        self.truth = self.own / "truth.jsonl"  # one line per input file, by the generator
        self.control = self.own / "control.json"  # {"rate": N}: read by the generator every second
