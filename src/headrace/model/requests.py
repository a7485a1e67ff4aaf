"""A request to the supervisor: a small file in `.headrace/requests/`. Its reply is another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.model.runs import Jsonable


class Action(StrEnum):
    DEPLOY = "deploy"  # run this version (drain and switch if another runs)
    START = "start"
    STOP = "stop"  # drain
    CUT = "cut"  # stop at once, without waiting for a batch boundary
    RESTART = "restart"
    ROLLBACK = "rollback"  # to `version`, or to the previous one
    RESTORE = "restore"  # the version that `run` replaced
    ACKNOWLEDGE = "acknowledge"  # the alert with this number
    SILENCE = "silence"  # `silence` says which alerts, until when and why
    END_SILENCE = "end_silence"  # `silence` has its id
    DOWN = "down"  # drain all and end the supervisor; the desired state stays


ABOUT_ALERTS = (Action.ACKNOWLEDGE, Action.SILENCE, Action.END_SILENCE)


@dataclass(frozen=True, slots=True)
class Request(Jsonable):
    id: str
    what: str  # Action
    by: str
    at: float
    pipeline: str = ""
    version: str = ""
    profile: str = "dev"
    file: str = ""
    script: bool = False
    args: tuple[str, ...] = ()
    dev: bool = False
    replaces: bool = False  # a deploy by `run` may replace a deployed pipeline
    session: str = ""  # the request id of the `run` that sends this at its end
    accepted_gaps: tuple[Mapping[str, Any], ...] | None = None  # of a start: Gap.to_json()
    alert: int = 0
    silence: Mapping[str, Any] | None = None
    note: str = ""  # for the audit


@dataclass(frozen=True, slots=True)
class Reply(Jsonable):
    """`.headrace/answers/ID.json`."""

    id: str
    ok: bool
    text: str = ""
    error: Mapping[str, Any] | None = None  # errors.Error.as_dict()
