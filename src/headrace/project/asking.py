"""Asking the supervisor for something, and waiting for what becomes of it.

Requests are files; the supervisor answers by one. Invariant: nothing here writes desired state.
"""

from __future__ import annotations

import getpass
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.define import versions
from headrace.errors import ConfigError, ControlError, revived
from headrace.model.gaps import Gap
from headrace.model.limits import DrainLimits
from headrace.model.requests import Answer, Request, What
from headrace.model.runs import Desired, Ending, Exit
from headrace.project import definitions, runs
from headrace.project.workspace import Target, Workspace, known_pipeline
from headrace.state import desired, requests, supervisors

ANSWER_S = 30.0
POLL_S = 0.1
GAPS_TOLD = 100  # in the audit
LAST_WORDS_S = 2.0  # for the supervisor to write how a vanished run ended


def request(work: Workspace, what: What, pipeline: str = "") -> Request:
    now = time.time()
    name = f"{int(now * 1000):013d}-{secrets.token_hex(4)}"  # sorts by time: served in order
    return Request(name, what.value, who(), now, pipeline=pipeline, profile=work.profile)


def deployment(work: Workspace, target: Target, version: str, *, dev: bool = False) -> Request:
    return replace(
        request(work, What.DEPLOY, target.pipeline),
        version=version,
        file=target.file,
        script=target.script,
        args=target.args,
        dev=dev,
    )


def ask(work: Workspace, asked: Request, timeout_s: float = ANSWER_S) -> Answer:
    """Leaves the request and waits for its answer; a refusal is raised as the error it is."""
    requests.leave(work.places, asked)
    return answer(work, asked, timeout_s)


def answer(work: Workspace, asked: Request, timeout_s: float = ANSWER_S) -> Answer:
    got = requests.answer_of(work.places, asked.id, timeout_s)
    if got is None:
        raise ControlError(
            f"The supervisor did not answer within {timeout_s:.0f} s.",
            why=f"It was asked to {asked.what} {asked.pipeline}; the request stays, to be served "
            "when it can.",
            where=str(work.places.supervisor_log),
            fix="look into that log; headrace down and headrace up start a new supervisor",
            slug="no-answer",
        )
    if not got.ok:
        raise revived(got.error or {"what": got.text}, ControlError)
    return got


def need_supervisor(work: Workspace) -> None:
    if supervisors.running(work.places) is None:
        raise ControlError(
            f"No supervisor runs for {work.project}.",
            why="start, stop, restart and rollback ask the supervisor, and there is none to ask.",
            fix="headrace up",
            slug="no-supervisor",
        )


def start(work: Workspace, name: str, gaps: Sequence[Gap] | None = None) -> str:
    """`gaps`: what is gone from its sources, and is to be left out this once."""
    return _simple(work, What.START, name, gaps)


def restart(work: Workspace, name: str) -> str:
    return _simple(work, What.RESTART, name)


def _simple(work: Workspace, what: What, name: str, gaps: Sequence[Gap] | None = None) -> str:
    need_supervisor(work)
    pipeline = known_pipeline(work, name)
    asked = request(work, what, pipeline)
    if gaps is not None:
        told = [gap.in_words() for gap in gaps[:GAPS_TOLD]]
        told += [f"and {more} more"] if (more := len(gaps) - len(told)) else []
        note = "; ".join(told) or "nothing was missing"
        asked = replace(asked, accepted_gaps=tuple(gap.to_json() for gap in gaps), note=note)
    got = ask(work, asked)
    return got.text or f"{pipeline}: {what.value} is under way; look: headrace status {pipeline}"


def drain_limits(work: Workspace, pipeline: str) -> DrainLimits:
    """As its settings say; a real-time query reaches a boundary only at the end of its batch."""
    limits = work.settings.for_pipeline(pipeline).drain
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return limits
    found = definitions.stored(work, wanted.version, wanted.profile, pipeline)
    lengths = [float(query.trigger.get("batch_s", 0.0)) for query in found.queries] if found else []
    longest_s = max(lengths, default=0.0)
    return replace(limits, timeout_s=limits.timeout_s + longest_s)


def await_end(work: Workspace, run: runs.Run, timeout_s: float) -> Exit | None:
    """How a run ended; vanished if its process is gone without a word; None if it still lives."""
    deadline = time.monotonic() + timeout_s
    gone_since: float | None = None
    while time.monotonic() < deadline:
        found = runs.read(work.places, run.name) or run
        if found.exit is not None:
            return found.exit
        if not runs.is_open(found):
            gone_since = gone_since or time.monotonic()
            if time.monotonic() - gone_since > LAST_WORDS_S:
                return Exit(Ending.VANISHED.value, -1, time.time())
        time.sleep(POLL_S)
    return None


@dataclass(frozen=True, slots=True)
class Rollback:
    """What `rollback` will do, before it does it."""

    pipeline: str
    current: str
    target: str
    running: bool
    changed: tuple[str, ...]

    def in_words(self) -> str:
        lines = [f"{self.pipeline}: version {self.current} → {self.target}"]
        lines += [f"  differs: {name}" for name in self.changed[:20]]
        more = len(self.changed) - 20
        lines += [f"  … and {more} more files"] if more > 0 else []
        if self.running:
            lines.append("  It runs now: it is drained first, then the other version starts.")
        else:
            lines.append("  It does not run now: the other version starts at once.")
        lines.append("  Checkpoints stay: the other version goes on where this one stopped.")
        return "\n".join(lines)


def plan_rollback(work: Workspace, name: str, version: str | None) -> Rollback:
    need_supervisor(work)
    pipeline = known_pipeline(work, name)
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        raise ControlError(
            f'"{pipeline}" was never deployed, so there is nothing to go back to.',
            fix=f"headrace up {pipeline}",
            slug="not-deployed",
        )
    target = _earlier(work, wanted, version)
    changed = _changed(work, wanted.version, target)
    newest = runs.newest(work.places, pipeline)
    running = newest is not None and runs.is_open(newest)
    return Rollback(pipeline, wanted.version, target, running, changed)


def _earlier(work: Workspace, wanted: Desired, version: str | None) -> str:
    if version is None:
        if wanted.previous:
            return wanted.previous[-1]
        raise ControlError(
            f'"{wanted.pipeline}" has no earlier version.',
            why=f"It has been {wanted.version} since its first deploy.",
            fix=f"headrace versions {wanted.pipeline} lists what is kept",
            slug="no-earlier-version",
        )
    kept = [str(item["version"]) for item in versions.listed(work.places)]
    matches = [item for item in kept if item.startswith(version)]
    if len(matches) == 1:
        return matches[0]
    problem = "is not kept" if not matches else f"fits {len(matches)} versions"
    raise ConfigError(
        f'Version "{version}" {problem}.',
        why=f"Kept are: {', '.join(kept) or 'none'}.",
        fix=f"headrace versions {wanted.pipeline}",
        slug="unknown-version",
    )


def _changed(work: Workspace, old: str, new: str) -> tuple[str, ...]:
    """Files that differ between two kept versions, by content."""
    sides = []
    for version in (old, new):
        root = work.places.code(version)
        files = (path for path in root.rglob("*") if path.is_file())
        sides.append({str(path.relative_to(root)): path.read_bytes() for path in files})
    left, right = sides
    return tuple(sorted(n for n in left.keys() | right.keys() if left.get(n) != right.get(n)))


def rollback(work: Workspace, plan: Rollback) -> str:
    asked = replace(request(work, What.ROLLBACK, plan.pipeline), version=plan.target)
    got = ask(work, asked)
    return got.text or f"{plan.pipeline} goes back to {plan.target}; look: headrace status"


def who() -> str:
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return "command line"
