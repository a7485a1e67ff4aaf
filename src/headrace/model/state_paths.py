"""Paths below a project's state folder. Nothing here touches a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StatePaths:
    """`state` is `.headrace`, absolute. Deleting it while nothing runs loses no data."""

    state: Path

    @property
    def supervisor_lock(self) -> Path:  # held (fcntl.lockf) while a supervisor lives
        return self.state / "supervisor.lock"

    @property
    def home(self) -> Path:  # the unique name of this state folder
        return self.state / "home"

    @property
    def supervisor_process(self) -> Path:  # model.runs.Process of the supervisor
        return self.state / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        return self.state / "supervisor.log"

    @property
    def requests(self) -> Path:
        return self.state / "requests"

    @property
    def answers(self) -> Path:
        return self.state / "answers"

    @property
    def history(self) -> Path:
        return self.state / "history.db"

    @property
    def alerts(self) -> Path:
        return self.state / "alerts.db"

    @property
    def alert_rows(self) -> Path:  # PIPELINE/QUERY/BATCH.jsonl below it, until they are read
        return self.state / "alerts"

    @property
    def keys(self) -> Path:  # of the HTTP API: one file a key, named by its hash
        return self.state / "keys"

    def key(self, hash_: str) -> Path:
        return self.keys / f"{hash_}.json"

    @property
    def web(self) -> Path:  # model.web.Listening
        return self.state / "web.json"

    @property
    def broker(self) -> Path:  # of development: its process and port, beside its data
        return self.state / "kafka" / "process.json"

    @property
    def lag(self) -> Path:  # of every query: model.lag.QueryLag
        return self.state / "lag.json"

    @property
    def alert_topics(self) -> Path:  # queries whose rows come through a topic
        return self.state / "alerttopics.json"

    @property
    def exports(self) -> Path:  # one file an exporter of progress: model.exports.Export
        return self.state / "exports"

    def export(self, name: str) -> Path:
        return self.exports / f"{name}.json"

    @property
    def relay_log(self) -> Path:
        return self.state / "relay.log"

    @property
    def web_log(self) -> Path:
        return self.state / "web.log"

    @property
    def versions(self) -> Path:
        return self.state / "versions"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def desired_folder(self) -> Path:
        return self.state / "desired"

    def desired(self, pipeline: str) -> Path:
        return self.desired_folder / f"{pipeline}.json"

    def version(self, version: str) -> Path:
        return self.versions / version

    def code(self, version: str) -> Path:
        return self.version(version) / "files"

    def definition(self, version: str, profile: str, pipeline: str) -> Path:
        return self.version(version) / "definitions" / profile / f"{pipeline}.json"

    def run(self, run: str) -> Path:
        return self.runs / run

    def events(self, run: str) -> Path:
        return self.run(run) / "events.jsonl"

    def exit(self, run: str) -> Path:
        return self.run(run) / "exit.json"

    def spec(self, run: str) -> Path:
        return self.run(run) / "run.json"

    def process(self, run: str) -> Path:
        return self.run(run) / "process.json"

    def spark_settings(self, run: str) -> Path:  # with secrets: removed once Spark has read them
        return self.run(run) / "conf" / "spark-defaults.conf"

    def defining(self, run: str) -> Path:  # of a check: the file whose code runs now
        return self.run(run) / "defining.json"

    def log(self, run: str) -> Path:
        return self.run(run) / "driver.log"
