"""Follows the runs of a pipeline: their output on stdout, their events on stderr."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from headrace.cli.errors import in_words
from headrace.model.events import EventKind
from headrace.model.status import PipelineStatus, State
from headrace.project import history, log_tail, runs
from headrace.project.workspace import Workspace
from headrace.state.event_file import EventFile

_SHOWN = {
    EventKind.RUN_STARTED,
    EventKind.QUERY_STARTED,
    EventKind.QUERY_TERMINATED,
    EventKind.SCRIPT_ENDED,
    EventKind.QUERY_STOPPED,
}
_NOTABLE = (State.WAITING, State.STALLED)


def say(text: str, colour: str = "cyan") -> None:
    """A message of Headrace, marked as such beside the driver's output."""
    echo(click.style("headrace: ", fg=colour, bold=True) + text, err=True)


def echo(text: str, *, err: bool = False) -> None:
    """Print. A closed terminal must not end a run, least of all during its drain."""
    try:
        click.echo(text, err=err)
    except OSError:  # print nothing from now on; `headrace logs` still shows all output
        stream = sys.stderr if err else sys.stdout
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), stream.fileno())


class Follower:
    """Owns the reading positions in the files of the current run."""

    def __init__(self, work: Workspace, pipeline: str, generation: int) -> None:
        self.current: str | None = None
        self._places = work.places
        self._secrets = work.secrets
        self._pipeline = pipeline
        self._generation = generation
        self._log: log_tail.Tail | None = None
        self._events: EventFile | None = None
        self._state: tuple[str, str | None] = ("", None)
        self._failed: set[str] = set()

    def poll(self, *, last: bool = False) -> None:
        """Print new output; `last` includes a last line without a line end."""
        self._print_new(last)
        found = runs.newest(self._places, self._pipeline)
        if found is None or found.spec.generation < self._generation or found.name == self.current:
            return
        self._print_new(True)
        self.current = found.name
        self._log = log_tail.Tail(self._places.log(found.name))
        self._events = EventFile(self._places.events(found.name))
        attempt = f", attempt {found.spec.attempt}" if found.spec.attempt > 1 else ""
        say(f"{self._pipeline}: run {found.name}{attempt}")
        self._print_new(last)

    def _print_new(self, last: bool) -> None:
        if self._log is None or self._events is None or self.current is None:
            return
        while lines := self._log.lines(whole=not last):
            for line in lines:
                echo(history.safe_line(line, self._secrets))
        for event in self._events.remaining(_SHOWN):
            query = f"/{event.query}" if event.query else ""
            say(f"{self._pipeline}{query}: {history.event_words(event)}")
        found = runs.read(self._places, self.current)
        if found is not None and found.exit is not None and self.current not in self._failed:
            self._failed.add(self.current)
            for problem in found.exit.all_problems:
                echo(in_words(problem), err=True)

    def print_state(self, status: PipelineStatus) -> None:
        """Once each time the pipeline starts to wait or stalls."""
        seen = (status.state, status.run)
        if seen != self._state and status.state in _NOTABLE:
            say(f"{status.name} is {status.state}: {status.why}", colour="yellow")
        self._state = seen
