"""All errors that users can see, in one tree.

    Error                  exit 1   something failed
    ├── ConfigError        exit 2   headrace.toml or an option is wrong
    ├── DefinitionError    exit 2   a pipeline's file is wrong
    │   └── Problems       exit 2   all of them at once, as `check` finds them
    ├── SqlError           exit 2   a SQL query that cannot be run
    ├── ConnectorError     exit 2   the options of a source or sink are wrong
    ├── CheckpointError    exit 3   a checkpoint cannot be used: locked, foreign, damaged, lost
    ├── SetupError         exit 3   the machine is not ready: Java, port, disk, owner, lock
    ├── ControlError       exit 3   no supervisor is running, or it refuses a request
    ├── StoreError         exit 1   Headrace's own state cannot be read or written
    └── NotifyError        exit 1   a channel does not accept a notice

An error says what happened, why, where, and what to do; each has a stable `slug` with a heading in
docs/reference/errors.md. Only `failures/` decides what may be retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class Error(Exception):
    """The base class: `what` is a sentence with actual names and values; the rest is optional."""

    slug: ClassVar[str] = "error"
    exit_code: int = 1

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        where: str | None = None,
        fix: str | None = None,
        slug: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.where = where
        self.fix = fix
        self.code = slug or type(self).slug

    def as_dict(self) -> dict[str, str | None]:
        """The JSON form of an error, between processes and over HTTP."""
        return {
            "slug": self.code,
            "what": self.what,
            "why": self.why,
            "where": self.where,
            "fix": self.fix,
        }

    def __str__(self) -> str:
        details = (("why", self.why), ("where", self.where), ("fix", self.fix))
        return "\n".join([self.what, *(f"  {name}: {text}" for name, text in details if text)])


class ConfigError(Error):
    slug = "bad-setting"
    exit_code = 2


class DefinitionError(Error):
    slug = "bad-definition"
    exit_code = 2


class Problems(DefinitionError):  # noqa: N818 (it is several)
    """Several problems at once, of any kind; the worst exit code wins."""

    slug = "problems"

    def __init__(self, problems: Sequence[Error]) -> None:
        self.problems = tuple(one for problem in problems for one in each_of(problem))
        count = len(self.problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} found.")
        self.exit_code = max((problem.exit_code for problem in self.problems), default=2)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def each_of(error: Error) -> tuple[Error, ...]:
    return error.problems if isinstance(error, Problems) else (error,)


def together(problems: Sequence[Error]) -> Error:
    """The error to raise for these problems."""
    return problems[0] if len(problems) == 1 else Problems(problems)


class ConnectorError(Error):
    slug = "bad-connector"
    exit_code = 2


class SqlError(Error):
    slug = "sql-error"
    exit_code = 2


class CheckpointError(Error):
    slug = "bad-checkpoint"
    exit_code = 3


class SetupError(Error):
    slug = "setup"
    exit_code = 3


class ControlError(Error):
    slug = "control"
    exit_code = 3


class StoreError(Error):
    slug = "store"


class NotifyError(Error):
    slug = "notify"


def error_from_dict(body: Mapping[str, Any], kind: type[Error] = Error) -> Error:
    """Rebuild an error that another process sent as JSON."""
    rest = {name: body.get(name) for name in ("why", "where", "fix", "slug")}
    return kind(str(body.get("what") or "It failed without a message."), **rest)
