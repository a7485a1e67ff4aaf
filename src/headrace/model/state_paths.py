"""Paths below a project's state folder. Nothing here touches a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class _Below:
    """A fixed path below the state folder, as a read-only attribute."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, places: StatePaths, owner: type[StatePaths]) -> Path:
        return places.state / self._path


@dataclass(frozen=True, slots=True)
class StatePaths:
    """`state` is `.headrace`, absolute. Deleting it while nothing runs loses no data."""

    state: Path

    supervisor_lock = _Below("supervisor.lock")  # held (fcntl.lockf) while a supervisor lives
    supervisor_process = _Below("supervisor.json")  # model.runs.Process of the supervisor
    supervisor_log = _Below("supervisor.log")
    home = _Below("home")  # the unique name of this state folder
    requests = _Below("requests")
    answers = _Below("answers")
    desired_folder = _Below("desired")
    versions = _Below("versions")
    runs = _Below("runs")
    history = _Below("history.db")
    alerts = _Below("alerts.db")
    alert_rows = _Below("alerts")  # PIPELINE/QUERY/BATCH.jsonl below it, until they are read
    alert_topics = _Below("alerttopics.json")  # queries whose rows come through a topic
    lag = _Below("lag.json")  # model.lag.QueryLag of every query
    sql_rules = _Below("sqlrules.json")  # model.rules.SqlResult of every rule with SQL
    exports = _Below("exports")  # one file per exporter: model.progress_exports.Export
    relay_log = _Below("relay.log")
    keys = _Below("keys")  # of the HTTP API: one file per key, named by its hash
    web = _Below("web.json")  # model.web.Listening
    web_log = _Below("web.log")
    broker = _Below("kafka/process.json")  # the development broker: process and port

    def key(self, hash_: str) -> Path:
        return self.keys / f"{hash_}.json"

    def export(self, name: str) -> Path:
        return self.exports / f"{name}.json"

    def export_counters(self, name: str) -> Path:  # the last values that were sent as increases
        return self.exports / f"{name}.counters"

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
