"""The folder of approvals: interrupted runs that wait for decisions, and the decisions.

<hash of the run id>.run.json         the interrupted run, until it is taken out
<hash of the run id>.program.txt      how its program is opened again, if that is known
<hash of the token>.decision.json     a decision, which is kept so that no token works twice
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

from wesichain.agent import Decision, Interrupted
from wesichain.agent.internal import check_decision
from wesichain.core import from_json, to_json
from wesichain.core.internal import Clock, PendingCall, SystemClock, Value
from wesichain.errors import CodecError, ConfigError
from wesichain.platform.files import open_file, replace, sync
from wesichain.platform.names import hashed_name

_log = logging.getLogger("wesichain")

TokenStatus: TypeAlias = Literal["waiting", "decided", "expired", "unknown"]


class WaitingCall(Value):
    """A call that waits for a decision, with its run."""

    run_id: str
    task: str
    pending: PendingCall


class _Decided(Value):
    """A stored decision."""

    token: str
    at: float
    decision: Decision


class ApprovalFolder:
    """Interrupted runs, shared by the processes that run them and those that decide on their calls.

    Files have mode 0600, a new folder 0700. They contain the run with its secrets, because it is resumed from
    them. A token accepts one decision, the first. `program` (`stored_program`, which may be set later) is a
    text that is stored beside each run that is put into this folder: from it, its program is opened again.
    """

    def __init__(
        self, path: str | PathLike[str], *, clock: Clock | None = None, program: str | None = None
    ) -> None:
        self.path = Path(path).absolute()
        self._clock = clock or SystemClock()
        self._unreadable: set[Path] = set()  # reported
        self.stored_program = program

    def put(self, outcome: Interrupted[Any]) -> None:
        """Store an interrupted run until it is taken out; a later interruption replaces it."""
        if not outcome.pending:
            raise ConfigError(f"the run {outcome.run_id!r} needs no decision: it has no pending calls")
        if all(self._decision_file(item.token).exists() for item in outcome.pending):
            names = ", ".join(item.call.name for item in outcome.pending)
            raise ConfigError(f"the approval of {names} was decided already; a token works once")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = self._program_file(outcome.run_id)
        if self.stored_program is None:
            program.unlink(missing_ok=True)
        else:
            replace(self._write_draft(self.stored_program), program)
        replace(self._write_draft(to_json(outcome)), self._run_file(outcome.run_id))

    def has(self, run_id: str) -> bool:
        """Whether the run is in the folder."""
        return self._run_file(run_id).exists()

    def program(self, run_id: str) -> str | None:
        """The text that was stored beside the run; None if there is none."""
        try:
            return self._program_file(run_id).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def pending(self) -> tuple[WaitingCall, ...]:
        """The calls that wait for a decision; those of the oldest run first."""
        return tuple(
            WaitingCall(outcome.run_id, outcome.user_input, item)
            for outcome in self._outcomes()
            for item in outcome.pending
            if self._status(item) == "waiting"
        )

    def token_status(self, token: str) -> TokenStatus:
        """The status of the token of a call."""
        item = self._find(token)
        if item is not None:
            return self._status(item)
        return "decided" if self._decision_file(token).exists() else "unknown"

    def decide(self, token: str, decision: Decision) -> None:
        """Decide on a waiting call, once and before it expires; `ConfigError` if that is not possible."""
        item = self._find(token)
        if item is None:
            raise ConfigError(f"no call waits for the token {token[:64]!r}")
        check_decision(item, decision, None, now=self._clock.time(), remedy="run the task again")
        draft = self._write_draft(to_json(_Decided(token, self._clock.time(), decision)))
        try:
            os.link(draft, self._decision_file(token))  # atomic, and never replaces another
        except FileExistsError:
            raise ConfigError(f"the approval of {item.call.name!r} was decided already") from None
        finally:
            draft.unlink()

    def decisions(self, run_id: str) -> Mapping[str, Decision]:
        """The decisions on the calls of a run, for `runtime.resume`."""
        decided: dict[str, Decision] = {}
        for item in self.outcome(run_id).pending:
            with suppress(FileNotFoundError):
                text = self._decision_file(item.token).read_bytes()
                decided[item.token] = from_json(_Decided, text).decision
        return decided

    def outcome(self, run_id: str) -> Interrupted[Any]:
        """The interrupted run, which stays in the folder."""
        try:
            return _read(self._run_file(run_id))
        except FileNotFoundError:
            raise _no_run(run_id) from None

    def claim(self, run_id: str, decisions: Mapping[str, Decision]) -> Interrupted[Any]:
        """Take a run out of the folder, to resume it with these decisions.

        Raises `ConfigError` if it was taken out, or if the folder has another decision on a call.
        """
        for token, decision in self.decisions(run_id).items():
            if decisions.get(token) != decision:
                raise ConfigError(f"a call of the run {run_id!r} was decided otherwise already")
        return self.take(run_id)

    def take(self, run_id: str) -> Interrupted[Any]:
        """Take a run out of the folder, to resume it. Only one process can take it."""
        mine = self._new_file()
        try:
            replace(self._run_file(run_id), mine)
        except FileNotFoundError:
            raise _no_run(run_id) from None
        try:
            outcome = _read(mine)
        except CodecError as error:
            replace(mine, self._run_file(run_id))
            raise _unreadable(self._run_file(run_id), error) from error
        mine.unlink()
        self._program_file(run_id).unlink(missing_ok=True)
        return outcome

    # --- inside ---

    def _outcomes(self) -> Iterator[Interrupted[Any]]:
        aged: list[tuple[int, Path]] = []
        for path in self.path.glob("*.run.json"):
            with suppress(FileNotFoundError):  # taken out meanwhile
                aged.append((path.stat().st_mtime_ns, path))
        for _, path in sorted(aged):
            with suppress(FileNotFoundError):  # taken out meanwhile
                try:
                    yield _read(path)
                except CodecError as error:
                    self._report(path, error)

    def _report(self, path: Path, error: CodecError) -> None:
        """Log, once, that a run cannot be read: its approval is not listed, and its file is kept."""
        if path not in self._unreadable:
            self._unreadable.add(path)
            _log.error("%s", _unreadable(path, error))

    def _find(self, token: str) -> PendingCall | None:
        waiting = (item for outcome in self._outcomes() for item in outcome.pending)
        return next((item for item in waiting if item.token == token), None)

    def _status(self, item: PendingCall) -> TokenStatus:
        if self._decision_file(item.token).exists():
            return "decided"
        is_late = item.expires_at is not None and self._clock.time() > item.expires_at
        return "expired" if is_late else "waiting"

    def _run_file(self, run_id: str) -> Path:
        return self.path / f"{hashed_name(run_id)}.run.json"

    def _program_file(self, run_id: str) -> Path:
        return self.path / f"{hashed_name(run_id)}.program.txt"

    def _decision_file(self, token: str) -> Path:
        return self.path / f"{hashed_name(token)}.decision.json"

    def _new_file(self) -> Path:
        return self.path / f"{secrets.token_hex(16)}.tmp"

    def _write_draft(self, text: str) -> Path:
        path = self._new_file()
        descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            sync(descriptor)
        return path


def _read(path: Path) -> Interrupted[Any]:
    return from_json(Interrupted[Any], path.read_bytes())


def _unreadable(path: Path, error: CodecError) -> ConfigError:
    return ConfigError(
        f"the waiting run in {path} cannot be read: {error}; decide on it with the version of the program "
        f"that stored it, or delete the file and run the task again"
    )


def _no_run(run_id: str) -> ConfigError:
    return ConfigError(f"no run {run_id!r} waits for an approval")
