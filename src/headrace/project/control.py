"""Sends requests to the supervisor and waits for replies.

Requests and replies are files. Invariant: nothing here writes the desired state.
"""

from __future__ import annotations

import getpass
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from headrace.define import deployed_code
from headrace.errors import ConfigError, ControlError, error_from_dict
from headrace.model.gaps import Gap
from headrace.model.limits import DrainLimits
from headrace.model.requests import Action, Reply, Request
from headrace.model.runs import Desired, Ending, Exit, Run
from headrace.project import runs
from headrace.project.silences import Subject
from headrace.project.workspace import Target, Workspace, resolve_pipeline
from headrace.state import definitions, desired, requests, supervisor_lookup

ANSWER_S = 30.0
POLL_S = 0.1
GAPS_RECORDED = 100  # in the audit log
OUTCOME_S = 2.0  # for the supervisor to write the outcome of a vanished run


def request(work: Workspace, what: Action, pipeline: str = "") -> Request:
    now = time.time()
    name = f"{int(now * 1000):013d}-{secrets.token_hex(4)}"  # sorts by time: handled in order
    return Request(name, what.value, who(), now, pipeline=pipeline, profile=work.profile)


def deployment(work: Workspace, target: Target, version: str, *, dev: bool = False) -> Request:
    return replace(
        request(work, Action.DEPLOY, target.pipeline),
        version=version,
        file=target.file,
        script=target.script,
        args=target.args,
        dev=dev,
    )


def ask(work: Workspace, asked: Request, timeout_s: float = ANSWER_S) -> Reply:
    """Send the request and wait for its reply. Raises the error if it is refused."""
    requests.leave(work.places, asked)
    got = requests.answer_of(work.places, asked.id, timeout_s)
    if got is None:
        raise ControlError(
            f"The supervisor did not answer within {timeout_s:.0f} s.",
            why=f"The request ({f'{asked.what} {asked.pipeline}'.strip()}) is still queued; the "
            "supervisor may handle it later.",
            where=str(work.places.supervisor_log),
            fix="Check the log. To start a new supervisor, run headrace down, then headrace up.",
            slug="no-answer",
        )
    if not got.ok:
        raise error_from_dict(got.error or {"what": got.text}, ControlError)
    return got


def require_supervisor(work: Workspace) -> None:
    if supervisor_lookup.running(work.places) is None:
        raise ControlError(
            f"No supervisor is running for {work.project}.",
            why="Only a running supervisor can do this.",
            fix="headrace up",
            slug="no-supervisor",
        )


def start(
    work: Workspace, name: str, what: Action = Action.START, gaps: Sequence[Gap] | None = None
) -> str:
    """Start or restart a pipeline. `gaps`: missing records to skip, this once."""
    require_supervisor(work)
    pipeline = resolve_pipeline(work, name)
    asked = request(work, what, pipeline)
    if gaps is not None:
        texts = [gap.in_words() for gap in gaps[:GAPS_RECORDED]]
        texts += [f"and {more} more"] if (more := len(gaps) - len(texts)) else []
        note = "; ".join(texts) or "nothing was missing"
        asked = replace(asked, accepted_gaps=tuple(gap.to_json() for gap in gaps), note=note)
    got = ask(work, asked)
    return got.text or f"{pipeline}: {what.value} is in progress; see headrace status {pipeline}"


def acknowledge(
    work: Workspace, number: int, *, by: str | None = None, timeout_s: float = ANSWER_S
) -> str:
    """Acknowledge the alert with this number. `by`: who, if not the user of this process."""
    asked = replace(request(work, Action.ACKNOWLEDGE), alert=number)
    return _change_alerts(work, asked, by, timeout_s)


def silence(
    work: Workspace,
    about: Subject,
    *,
    until: float,
    reason: str,
    by: str | None = None,
    timeout_s: float = ANSWER_S,
) -> str:
    """Send no notices about these alerts until then."""
    body = {**asdict(about), "until": until, "reason": reason}
    asked = replace(request(work, Action.SILENCE), silence=body)
    return _change_alerts(work, asked, by, timeout_s)


def end_silence(
    work: Workspace, number: int, *, by: str | None = None, timeout_s: float = ANSWER_S
) -> str:
    asked = replace(request(work, Action.END_SILENCE), silence={"id": number})
    return _change_alerts(work, asked, by, timeout_s)


def _change_alerts(work: Workspace, asked: Request, by: str | None, timeout_s: float) -> str:
    require_supervisor(work)
    return ask(work, replace(asked, by=by or asked.by), timeout_s).text


def drain_limits(work: Workspace, pipeline: str) -> DrainLimits:
    """From the settings, plus the batch length of real-time queries, which cannot stop earlier."""
    limits = work.settings.for_pipeline(pipeline).drain
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        return limits
    found = definitions.read(work.places, wanted.version, wanted.profile, pipeline)
    lengths = [float(query.trigger.get("batch_s", 0.0)) for query in found.queries] if found else []
    longest_s = max(lengths, default=0.0)
    return replace(limits, timeout_s=limits.timeout_s + longest_s)


def await_end(work: Workspace, run: Run, timeout_s: float) -> Exit | None:
    """How a run ended: vanished if its process is gone and wrote nothing; None if it still runs."""
    deadline = time.monotonic() + timeout_s
    gone_since: float | None = None
    while time.monotonic() < deadline:
        found = runs.read(work.places, run.name) or run
        if found.exit is not None:
            return found.exit
        if not runs.is_open(found):
            gone_since = gone_since or time.monotonic()
            if time.monotonic() - gone_since > OUTCOME_S:
                return Exit(Ending.VANISHED.value, -1, time.time())
        time.sleep(POLL_S)
    return None


@dataclass(frozen=True, slots=True)
class Rollback:
    """The plan of a rollback, to be confirmed."""

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
            lines.append(
                "  The pipeline is running: it will be drained before the other version starts."
            )
        else:
            lines.append("  The pipeline is not running: the other version will start immediately.")
        lines.append(
            "  Checkpoints are kept: the other version continues where the current one stopped."
        )
        return "\n".join(lines)


def plan_rollback(work: Workspace, name: str, version: str | None) -> Rollback:
    require_supervisor(work)
    pipeline = resolve_pipeline(work, name)
    wanted = desired.read(work.places, pipeline)
    if wanted is None:
        raise ControlError(
            f'"{pipeline}" has never been deployed, so there is no version to go back to.',
            fix=f"headrace up {pipeline}",
            slug="not-deployed",
        )
    target = _earlier(work, wanted, version)
    changed = _diff_versions(work, wanted.version, target)
    newest = runs.newest(work.places, pipeline)
    running = newest is not None and runs.is_open(newest)
    return Rollback(pipeline, wanted.version, target, running, changed)


def _earlier(work: Workspace, wanted: Desired, version: str | None) -> str:
    if version is None:
        if wanted.previous:
            return wanted.previous[-1]
        raise ControlError(
            f'"{wanted.pipeline}" has no earlier version.',
            why=f"It has been at version {wanted.version} since it was first deployed.",
            fix=f"List the versions: headrace versions {wanted.pipeline}",
            slug="no-earlier-version",
        )
    kept = [str(item["version"]) for item in deployed_code.list_versions(work.places)]
    matches = [item for item in kept if item.startswith(version)]
    if len(matches) == 1:
        return matches[0]
    problem = (
        "does not exist" if not matches else f"is ambiguous: it matches {len(matches)} versions"
    )
    raise ConfigError(
        f'Version "{version}" {problem}.',
        why=f"Existing versions: {', '.join(kept) or 'none'}.",
        fix=f"List the versions: headrace versions {wanted.pipeline}",
        slug="unknown-version",
    )


def _diff_versions(work: Workspace, old: str, new: str) -> tuple[str, ...]:
    """Files whose content differs between two versions."""
    sides = []
    for version in (old, new):
        root = work.places.code(version)
        files = (path for path in root.rglob("*") if path.is_file())
        sides.append({str(path.relative_to(root)): path.read_bytes() for path in files})
    left, right = sides
    return tuple(sorted(n for n in left.keys() | right.keys() if left.get(n) != right.get(n)))


def rollback(work: Workspace, plan: Rollback) -> str:
    asked = replace(request(work, Action.ROLLBACK, plan.pipeline), version=plan.target)
    got = ask(work, asked)
    return got.text or f"{plan.pipeline} is rolling back to {plan.target}; see headrace status"


def who() -> str:
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return "command line"
