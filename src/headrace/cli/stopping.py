"""`stop`: ask for it, wait for the end, and say which it was."""

from __future__ import annotations

from headrace.cli import spinner
from headrace.errors import ControlError
from headrace.model.requests import What
from headrace.model.runs import Ending
from headrace.project import asking, endings, runs
from headrace.project.workspace import Workspace, known_pipeline


def stop(work: Workspace, name: str, *, cut: bool = False) -> tuple[str, int]:
    """Words and an exit code. Waits for the end, to say which it was: clean, or cut (code 1)."""
    asking.need_supervisor(work)
    pipeline = known_pipeline(work, name)
    before = runs.newest(work.places, pipeline)
    was_open = before is not None and runs.is_open(before)
    got = asking.ask(work, asking.request(work, What.CUT if cut else What.STOP, pipeline))
    if before is None or not was_open:
        return got.text or f"{pipeline} is stopped; it was not running.", 0
    limits = asking.drain_limits(work, pipeline)
    waits = f"waits for the running batches, up to {limits.timeout_s:g} s"
    with spinner.shown(f"{pipeline}: {waits}"):
        ended = asking.await_end(work, before, limits.timeout_s + 2 * limits.kill_s + 10)
    if ended is None:
        raise ControlError(
            f'"{pipeline}" was asked to stop and has not ended.',
            where=str(work.places.log(before.name)),
            fix=f"headrace status {pipeline}; headrace stop {pipeline} --cut does not wait",
            slug="stop-timeout",
        )
    is_asked = cut and ended.ending == Ending.CUT
    return endings.report(pipeline, ended), 0 if is_asked else endings.stop_code(ended)
