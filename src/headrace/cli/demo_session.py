"""One `headrace demo`: its folder, the generator, the pipeline under a supervisor, the count.

Nothing is run in a way of its own: it deploys as `run` does and looks as `status` does.
What is shown is `demo_screen`'s. Invariant: the generator ends before anything is counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.cli import broker, definitions, links, spinner
from headrace.cli.demo_screen import Screen, Watcher
from headrace.cli.follow import say
from headrace.cli.foreground import OwnSupervisor, check_alive, put_back, supervised
from headrace.cli.signals import Interrupts
from headrace.cli.tables import print_line
from headrace.connectors import kafkafailures
from headrace.demo import count, folder, topics, truth, view
from headrace.demo.media import Medium, OnFiles
from headrace.demo.places import PIPELINE, DemoPlaces
from headrace.errors import Error, SetupError
from headrace.model.requests import Request, What
from headrace.model.runs import Exit
from headrace.model.status import State
from headrace.project import asking, endings, runs
from headrace.project.workspace import Workspace, open_workspace, target
from headrace.supervisor import process

POLL_S = 0.2
SILENCE_S = 240.0  # longer than --for, at most, if the silent cluster was not missed yet
RESULTS_S = 600.0  # with --for, until every query has committed once
READ_S = 180.0  # for the rest of the input, once the generator has ended
TAKE_S = 15.0  # for the supervisor to take the last alert rows


@dataclass(frozen=True, slots=True)
class Wish:
    folder: Path
    profile: str
    for_s: float | None
    rate: int
    json: bool
    kafka: bool = False

    @property
    def command(self) -> str:
        return f"headrace demo {'--kafka ' * self.kafka}--dir {self.folder}"


def run(wish: Wish, interrupts: Interrupts) -> int:
    if wish.kafka:
        kafkafailures.confluent()  # what is not installed is told before anything is written
    port = broker.free(folder.PORT) if wish.kafka else folder.PORT
    demo, is_new, seed = folder.prepare(wish.folder, wish.profile, port)
    with folder.alone(demo):
        say(f"{'wrote' if is_new else 'goes on in'} {wish.folder}: it is yours")
        work = open_workspace(demo.folder, wish.profile)
        with _medium(wish, work, demo, interrupts) as medium:
            return _run(wish, work, demo, medium, seed, interrupts)


@contextmanager
def _medium(
    wish: Wish, work: Workspace, demo: DemoPlaces, interrupts: Interrupts
) -> Iterator[Medium]:
    if not wish.kafka:
        yield OnFiles(work.settings, demo)
        return
    with _broker(work, interrupts) as found:
        if not interrupts.came():
            topics.create(found)
        with closing(topics.OnTopics(work.settings, demo)) as medium:
            yield medium


@contextmanager
def _broker(work: Workspace, interrupts: Interrupts) -> Iterator[topics.Topics]:
    """A cluster of the user's, `headrace kafka up`'s, or our own as long as the demo runs. Whatever
    else listens on our port is somebody else's: broker.up says so."""
    found = topics.topics_of(work.settings)
    host, _, port = found.servers.rpartition(":")
    running = broker.running(work.places)
    if host not in broker.OURS or (running is not None and not running.is_of_demo):
        yield found
        return
    try:
        with spinner.shown("the broker starts"):
            broker.up(work.places, int(port), is_over=interrupts.came, of_demo=True)
        if not interrupts.came():
            say(f"Kafka listens: {found.servers}")
        yield found
    finally:
        broker.down(work.places)


def _run(
    wish: Wish,
    work: Workspace,
    demo: DemoPlaces,
    medium: Medium,
    seed: int,
    interrupts: Interrupts,
) -> int:
    goal = target(work, PIPELINE)
    version = definitions.snapshot(work)
    if interrupts.came():
        say("stopped before anything was started")
        return 0
    generator = _generator(demo, wish.rate, seed, medium.generator_args())
    try:
        with supervised(work, only=PIPELINE) as own:
            asked = replace(asking.deployment(work, goal, version, dev=True), replaces=True)
            asking.ask(work, asked)
            if page := links.when_listening(work):
                say(f"page: {page}")
            session = _Session(wish, demo, work, medium, asked, own, interrupts, generator)
            watcher = Watcher(work, demo, medium, version, wish.rate)
            try:
                with Screen(is_live=not wish.json and sys.stdout.isatty()) as screen:
                    ended = session.follow(watcher, screen)
            finally:
                put_back(work, asked, own)
    finally:
        generator.end()
    return _report(wish, demo, medium, watcher, ended)


def _generator(
    demo: DemoPlaces, rate: int, seed: int, where_to: Sequence[str]
) -> process.Companion:
    """First of all: its data may wait for Spark, but Spark must not wait for data."""
    demo.control.unlink(missing_ok=True)  # an earlier machine's, or hour's, troubles
    module = [*process.PYTHON, "headrace.demo.generator", str(demo.folder)]
    command = [*module, "--rate", str(rate), "--seed", str(seed), *where_to]
    return process.Companion(command, demo.folder, demo.generator_log)


@dataclass(frozen=True, slots=True)
class _Ended:
    """`is_read`: everything that went in has come out, so that it can be counted."""

    is_read: bool
    exit: Exit | None
    needs_attention: bool = False
    why: str = ""


@dataclass
class _Session:
    """From the deploy to the end of the pipeline."""

    wish: Wish
    demo: DemoPlaces
    work: Workspace
    medium: Medium
    asked: Request
    own: OwnSupervisor | None
    interrupts: Interrupts
    generator: process.Companion

    def follow(self, watcher: Watcher, screen: Screen) -> _Ended:
        is_alive = self._watch(watcher, screen)
        self.generator.end()
        if not is_alive:
            return self._over(watcher)
        is_read = self._read_the_rest(watcher, screen)
        return self._stop(watcher, screen, is_read=is_read)

    def _watch(self, watcher: Watcher, screen: Screen) -> bool:
        """Until it is time to end. False: the pipeline has ended by itself."""
        until: float | None = None
        begin = time.monotonic()
        while not self.interrupts.came():
            check_alive(self.own)
            self._check_generator()
            watcher.look()
            if watcher.is_over():
                return False
            now = time.monotonic()
            if not watcher.has_committed():
                self._check_patience(now - begin, watcher.why)
                phase = f"waiting for the first results: {watcher.why}"
            elif self.wish.for_s is None:
                phase = watcher.why
            else:
                until = until or now + self.wish.for_s
                if now >= until + SILENCE_S or (now >= until and watcher.has_silence()):
                    return True
                phase = f"{until - now:.0f} s to go; {watcher.why}"
                if now >= until:
                    phase = "a little longer, until the silent cluster is missed: restarts begin "
                    phase += f"its minute anew; {watcher.why}"
            screen.show(watcher.seen(phase))
            time.sleep(POLL_S)
        return True

    def _check_patience(self, waited_s: float, why: str) -> None:
        """Who gave a time wants an end; who did not may watch it try again."""
        if self.wish.for_s is not None and waited_s > RESULTS_S:
            raise Error(
                f"After {waited_s:.0f} s not every query had committed a batch.",
                why=why,
                where=str(self.work.places.supervisor_log),
                fix=f"headrace --project {self.wish.folder} why {PIPELINE}",
                slug="demo-no-results",
            )

    def _read_the_rest(self, watcher: Watcher, screen: Screen) -> bool:
        """Everything that was generated goes through. A second Ctrl-C does not wait for that."""
        heard, deadline = self.interrupts.count, time.monotonic() + READ_S
        while left := self.medium.pending():
            if self.interrupts.count > max(heard, 1) or time.monotonic() > deadline:
                return False
            check_alive(self.own)
            watcher.look()
            if watcher.is_over():
                return False
            words = f"no more input; {left[0]}, then it stops (Ctrl-C: stops now)"
            screen.show(watcher.seen(words))
            time.sleep(POLL_S)
        watcher.look()
        return True

    def _stop(self, watcher: Watcher, screen: Screen, *, is_read: bool) -> _Ended:
        screen.show(watcher.seen("stopping at a batch boundary"), is_news=True)
        running = runs.newest(self.work.places, PIPELINE)
        request = asking.request(self.work, What.STOP, PIPELINE)
        asking.ask(self.work, replace(request, session=self.asked.id))
        limits = asking.drain_limits(self.work, PIPELINE)
        wait_s = limits.timeout_s + 2 * limits.kill_s + 10
        ended = asking.await_end(self.work, running, wait_s) if running else None
        now, deadline = time.time(), time.monotonic() + TAKE_S
        while not self.medium.has_taken_alerts(now) and time.monotonic() < deadline:
            check_alive(self.own)
            time.sleep(POLL_S)
        return _Ended(is_read, ended)

    def _over(self, watcher: Watcher) -> _Ended:
        last = runs.last_ended(self.work.places, PIPELINE)
        is_attention = watcher.state == State.NEEDS_ATTENTION
        return _Ended(False, last.exit if last else None, is_attention, watcher.why)

    def _check_generator(self) -> None:
        if self.generator.code is not None:
            raise SetupError(
                f"The log generator ended by itself, with code {self.generator.code}.",
                why=process.tail_of(self.demo.generator_log).strip() or "it left no words",
                where=str(self.demo.generator_log),
                fix=f"look whether the disk is full{' and the broker runs' * self.wish.kafka}; "
                f"{self.wish.command} goes on where it was",
                slug="demo-generator-ended",
            )


def _report(wish: Wish, demo: DemoPlaces, medium: Medium, watcher: Watcher, ended: _Ended) -> int:
    say(endings.headline(PIPELINE, ended.exit), colour="red" if ended.needs_attention else "green")
    if ended.needs_attention:
        say(f"needs attention: {ended.why}", colour="red")
        say(f"more: headrace --project {wish.folder} why {PIPELINE}")
        return endings.code_of(ended.exit, needs_attention=True, script=False)
    if not ended.is_read:
        say("not everything was read, so there is no count; the next start goes on with the rest")
        return 1 if wish.for_s is not None else endings.stop_code(ended.exit)
    found = counted(medium, demo)
    latencies = medium.latencies()
    for line in (*view.summary(found), *view.latencies(latencies)):
        say(line, colour="green" if found.is_right else "red")
    say(f"the project stays in {wish.folder}; {wish.command} goes on with it")
    if wish.json:
        print_line(watcher.to_json(found, latencies))
    return 0 if found.is_right and endings.stop_code(ended.exit) == 0 else 1


def counted(medium: Medium, demo: DemoPlaces) -> count.Count:
    """What came out of all that went in, once nothing works on it any more."""
    want = count.expected(medium.lines(), truth.customers(demo.customers))
    return count.count(want, medium.found(), medium.at_least_once)
