"""One `headrace demo`: its folder, the generator, the pipeline under a supervisor, the count.

It deploys as `run` does and reads the status as `status` does; `demo_screen` shows it.
Invariant: the generator ends before anything is counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.cli import kafka, pipeline_definitions, spinner, token
from headrace.cli.demo_screen import DemoScreen, Watcher, open_screen
from headrace.cli.follow import say
from headrace.cli.output import print_line
from headrace.cli.run_session import OwnSupervisor, check_alive, deploy, ensure_supervisor
from headrace.cli.signals import Interrupts
from headrace.connectors.kafka import client_errors
from headrace.demo import folder, input_reader, kafka_transport, loss_count, terminal_view
from headrace.demo.file_transport import FileTransport
from headrace.demo.kafka_transport import Transport
from headrace.demo.paths import PIPELINE, DemoPaths
from headrace.errors import Error, SetupError
from headrace.model.requests import Action, Request
from headrace.model.runs import Exit
from headrace.model.status import State
from headrace.project import control, run_end_text, runs
from headrace.project.workspace import Workspace, open_workspace, target
from headrace.supervisor import process

POLL_S = 0.2
SILENCE_S = 240.0  # --for is extended by at most this, until the silent cluster is detected
RESULTS_S = 600.0  # with --for: time until every query has committed its first batch
READ_S = 180.0  # time to read the rest of the input after the generator has ended
TAKE_S = 15.0  # time for the supervisor to store the last alert rows


@dataclass(frozen=True, slots=True)
class DemoOptions:
    folder: Path
    profile: str
    for_s: float | None
    rate: int
    json: bool
    kafka: bool = False

    @property
    def command(self) -> str:
        return f"headrace demo {'--kafka ' * self.kafka}--dir {self.folder}"


def run(options: DemoOptions, interrupts: Interrupts) -> int:
    if options.kafka:
        client_errors.confluent()  # raises if it is not installed, before anything is written
    port = kafka.free_port(folder.PORT) if options.kafka else folder.PORT
    demo, is_new, seed = folder.prepare(options.folder, options.profile, port)
    with folder.alone(demo):
        say(f"{'wrote the project to' if is_new else 'resuming the project in'} {options.folder}")
        work = open_workspace(demo.folder, options.profile)
        with _transport(options, work, demo, interrupts) as transport:
            return _run(options, work, demo, transport, seed, interrupts)


@contextmanager
def _transport(
    options: DemoOptions, work: Workspace, demo: DemoPaths, interrupts: Interrupts
) -> Iterator[Transport]:
    if not options.kafka:
        yield FileTransport(work.settings, demo)
        return
    with _broker(work, interrupts) as found:
        if not interrupts.is_set():
            kafka_transport.create(found)
        with closing(kafka_transport.KafkaTransport(work.settings, demo)) as transport:
            yield transport


@contextmanager
def _broker(work: Workspace, interrupts: Interrupts) -> Iterator[kafka_transport.DemoTopics]:
    """The user's cluster, the broker of `headrace kafka up`, or one that ends with the demo."""
    found = kafka_transport.topics_of(work.settings)
    host, _, port = found.servers.rpartition(":")
    running = kafka.running_broker(work.places)
    if host not in kafka.LOOPBACK or (running is not None and not running.is_of_demo):
        yield found
        return
    try:
        with spinner.show("starting the broker"):
            kafka.start_broker(work.places, int(port), is_cancelled=interrupts.is_set, of_demo=True)
        if not interrupts.is_set():
            say(f"Kafka is listening on {found.servers}")
        yield found
    finally:
        kafka.stop_broker(work.places)


def _run(
    options: DemoOptions,
    work: Workspace,
    demo: DemoPaths,
    transport: Transport,
    seed: int,
    interrupts: Interrupts,
) -> int:
    goal = target(work, PIPELINE)
    version = pipeline_definitions.snapshot(work)
    if interrupts.is_set():
        say("stopped before anything had started")
        return 0
    generator = _generator(demo, options.rate, seed, transport.generator_args())
    try:
        with (
            ensure_supervisor(work, only=PIPELINE) as own,
            deploy(work, goal, version, own, replaces=True) as asked,
        ):
            if page := token.when_listening(work):
                say(f"page: {page}")
            say("notifications: headrace alerts listen --port 9999, and [notify] in headrace.toml")
            session = _Session(options, demo, work, transport, asked, own, interrupts, generator)
            watcher = Watcher(work, demo, transport, version, options.rate)
            with open_screen(is_live=not options.json and sys.stdout.isatty()) as screen:
                ended = session.follow(watcher, screen)
    finally:
        generator.end()
    return _report(options, demo, transport, watcher, ended)


def _generator(demo: DemoPaths, rate: int, seed: int, where_to: Sequence[str]) -> process.Companion:
    """Started first: data may wait for Spark, but Spark must not wait for data."""
    demo.control.unlink(missing_ok=True)  # a lower rate from an earlier demo
    module = [*process.PYTHON, "headrace.demo.generator", str(demo.folder)]
    command = [*module, "--rate", str(rate), "--seed", str(seed), *where_to]
    return process.Companion(command, demo.folder, demo.generator_log)


@dataclass(frozen=True, slots=True)
class _DemoEnd:
    is_read: bool  # the pipeline has read all input, so the outputs can be counted
    exit: Exit | None
    attention: str | None = None  # why a person is needed


@dataclass
class _Session:
    """From the deployment to the end of the pipeline."""

    options: DemoOptions
    demo: DemoPaths
    work: Workspace
    transport: Transport
    asked: Request
    own: OwnSupervisor | None
    interrupts: Interrupts
    generator: process.Companion

    def follow(self, watcher: Watcher, screen: DemoScreen) -> _DemoEnd:
        is_running = self._watch(watcher, screen)
        self.generator.end()
        if not is_running:
            return self._over(watcher)
        is_read = self._read_the_rest(watcher, screen)
        return self._stop(watcher, screen, is_read=is_read)

    def _watch(self, watcher: Watcher, screen: DemoScreen) -> bool:
        """Until it is time to end. Returns False if the pipeline has ended by itself."""
        until: float | None = None
        begin = time.monotonic()
        while not self.interrupts.is_set():
            check_alive(self.own)
            self._check_generator()
            watcher.look()
            if watcher.is_over():
                return False
            now = time.monotonic()
            if not watcher.has_committed():
                self._check_timeout(now - begin, watcher.why)
                phase = f"waiting for the first results: {watcher.why}"
            elif self.options.for_s is None:
                phase = watcher.why
            else:
                until = until or now + self.options.for_s
                if now >= until + SILENCE_S or (now >= until and watcher.has_silence()):
                    return True
                phase = f"{until - now:.0f} s to go; {watcher.why}"
                if now >= until:
                    phase = "waiting until the silent cluster is detected (a restart resets the "
                    phase += f"one-minute timer); {watcher.why}"
            screen.show(watcher.take_snapshot(phase))
            time.sleep(POLL_S)
        return True

    def _check_timeout(self, waited_s: float, why: str) -> None:
        """Only with --for: without it, the user can watch further attempts."""
        if self.options.for_s is not None and waited_s > RESULTS_S:
            raise Error(
                f"Some queries had not committed a batch after {waited_s:.0f} s.",
                why=why,
                where=str(self.work.places.supervisor_log),
                fix=f"headrace --project {self.options.folder} why {PIPELINE}",
                slug="demo-no-results",
            )

    def _read_the_rest(self, watcher: Watcher, screen: DemoScreen) -> bool:
        """Wait until all input is processed. A second Ctrl-C ends the wait."""
        heard, deadline = self.interrupts.count, time.monotonic() + READ_S
        while left := self.transport.pending():
            if self.interrupts.count > max(heard, 1) or time.monotonic() > deadline:
                return False
            check_alive(self.own)
            watcher.look()
            if watcher.is_over():
                return False
            words = f"no more input; still waiting: {left[0]} (Ctrl-C stops the demo now)"
            screen.show(watcher.take_snapshot(words))
            time.sleep(POLL_S)
        watcher.look()
        return True

    def _stop(self, watcher: Watcher, screen: DemoScreen, *, is_read: bool) -> _DemoEnd:
        screen.show(watcher.take_snapshot("stopping at a batch boundary"), is_news=True)
        running = runs.newest(self.work.places, PIPELINE)
        request = control.request(self.work, Action.STOP, PIPELINE)
        control.ask(self.work, replace(request, session=self.asked.id))
        limits = control.drain_limits(self.work, PIPELINE)
        wait_s = limits.timeout_s + 2 * limits.kill_s + 10
        ended = control.await_end(self.work, running, wait_s) if running else None
        now, deadline = time.time(), time.monotonic() + TAKE_S
        while not self.transport.has_taken_alerts(now) and time.monotonic() < deadline:
            check_alive(self.own)
            time.sleep(POLL_S)
        return _DemoEnd(is_read, ended)

    def _over(self, watcher: Watcher) -> _DemoEnd:
        last = runs.last_ended(self.work.places, PIPELINE)
        attention = watcher.why if watcher.state == State.NEEDS_ATTENTION else None
        return _DemoEnd(False, last.exit if last else None, attention)

    def _check_generator(self) -> None:
        if self.generator.code is not None:
            raise SetupError(
                f"The log generator exited unexpectedly with code {self.generator.code}.",
                why=process.tail_of(self.demo.generator_log).strip() or "It printed nothing.",
                where=str(self.demo.generator_log),
                fix=f"Check the disk space{' and the broker' * self.options.kafka}, then resume "
                "the "
                f"demo: {self.options.command}",
                slug="demo-generator-ended",
            )


def _report(
    options: DemoOptions, demo: DemoPaths, transport: Transport, watcher: Watcher, ended: _DemoEnd
) -> int:
    say(run_end_text.headline(PIPELINE, ended.exit), colour="red" if ended.attention else "green")
    if ended.attention:
        say(f"needs attention: {ended.attention}", colour="red")
        say(f"details: headrace --project {options.folder} why {PIPELINE}")
        return run_end_text.code_of(ended.exit, needs_attention=True, script=False)
    if not ended.is_read:
        say("not all input was read, so nothing was counted; the next run reads the rest")
        return 1 if options.for_s is not None else run_end_text.stop_code(ended.exit)
    found = count_outputs(transport, demo)
    latencies = transport.latencies()
    for line in (*terminal_view.summary(found), *terminal_view.latencies(latencies)):
        say(line, colour="green" if found.is_right else "red")
    say(f"the project is in {options.folder}; to resume it: {options.command}")
    if options.json:
        print_line(watcher.to_json(found, latencies))
    return 0 if found.is_right and run_end_text.stop_code(ended.exit) == 0 else 1


def count_outputs(transport: Transport, demo: DemoPaths) -> loss_count.Count:
    """Compare outputs with input. The pipeline must have stopped."""
    want = loss_count.compute_expected(transport.lines(), input_reader.customers(demo.customers))
    return loss_count.count(want, transport.read_outputs(), transport.at_least_once)
