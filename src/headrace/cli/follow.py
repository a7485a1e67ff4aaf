"""Following a pipeline's runs: their output on stdout, what happens to them on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection

import click

from headrace.cli.errors import in_words
from headrace.model.events import Event, Kind
from headrace.model.places import Places
from headrace.model.runs import Exit
from headrace.model.status import PipelineStatus, State
from headrace.project import records, runs, tail

_TOLD = {
    Kind.RUN_STARTED,
    Kind.QUERY_STARTED,
    Kind.QUERY_TERMINATED,
    Kind.SCRIPT_ENDED,
    Kind.QUERY_STOPPED,
}
_NOTABLE = (State.WAITING, State.STALLED)


def say(text: str, colour: str = "cyan") -> None:
    """Headrace's own voice beside the driver's output."""
    echo(click.style("headrace: ", fg=colour, bold=True) + text, err=True)


def echo(text: str, *, err: bool = False) -> None:
    """A terminal that is gone must not end a run, least of all in the middle of its drain."""
    try:
        click.echo(text, err=err)
    except OSError:  # from here on nobody is spoken to; `headrace logs` has all of it
        stream = sys.stderr if err else sys.stdout
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nobody:
            os.dup2(nobody.fileno(), stream.fileno())


class Follower:
    """Owns the reading positions in the files of the current run."""

    def __init__(
        self,
        places: Places,
        pipeline: str,
        generation: int,
        prefix: str = "",
        secrets: Collection[str] = (),
    ) -> None:
        self.current: str | None = None
        self._places = places
        self._pipeline = pipeline
        self._generation = generation
        self._prefix = prefix
        self._secrets = secrets
        self._log: tail.Tail | None = None
        self._events: tail.Tail | None = None
        self._state: tuple[str, str | None] = ("", None)
        self._failed: set[str] = set()

    def poll(self, *, last: bool = False) -> None:
        """Print what is new; `last` also takes a line that was never ended."""
        self._print_new(last)
        found = runs.newest(self._places, self._pipeline)
        if found is None or found.spec.generation < self._generation or found.name == self.current:
            return
        self._print_new(True)
        self.current = found.name
        self._log = tail.Tail(self._places.log(found.name))
        self._events = tail.Tail(self._places.events(found.name))
        attempt = f", attempt {found.spec.attempt}" if found.spec.attempt > 1 else ""
        say(f"{self._pipeline}: run {found.name}{attempt}")
        self._print_new(last)

    def _print_new(self, last: bool) -> None:
        if self._log is None or self._events is None or self.current is None:
            return
        while lines := self._log.lines(whole=not last):
            for line in lines:
                echo(f"{self._prefix}{records.printable(line, self._secrets)}")
        for line in self._events.lines():
            with contextlib.suppress(ValueError):
                self._tell(Event.from_line(line))
        found = runs.read(self._places, self.current)
        if found is not None and found.exit is not None and self.current not in self._failed:
            self._failed.add(self.current)
            self._tell_failure(found.exit)

    def _tell(self, event: Event) -> None:
        if event.kind in _TOLD:
            name = f"{self._pipeline}/{event.query}" if event.query else self._pipeline
            say(f"{name}: {records.event_words(event)}")

    def _tell_failure(self, ended: Exit) -> None:
        for problem in ended.problems or ([ended.error] if ended.error else []):
            echo(in_words(problem), err=True)

    def tell_state(self, status: PipelineStatus) -> None:
        """Once for each time it has to wait or stands still."""
        seen = (status.state, status.run)
        if seen != self._state and status.state in _NOTABLE:
            say(f"{status.name} is {status.state}: {status.why}", colour="yellow")
        self._state = seen
