"""Limits: how much one client, or all of them together, may ask of the service."""

from __future__ import annotations

from wesichain.core.internal import Value
from wesichain.errors import ConfigError


class Limits(Value):
    """The bounds of an app. Times are in seconds.

    `body`: bytes of a request's body, which has `body_seconds` to arrive. `connections`: requests at once;
    `runs`: plain runs at once; both answer 503 beyond it. `run_seconds` ends a plain run. `write_seconds`: a
    reader that takes nothing for so long is disconnected. `tail`: events of a plain run that are kept;
    `keep_seconds`: how long they are kept once the run has ended, `wait_seconds` while it waits for a
    decision; `keep_runs`: plain runs that are kept beyond those that are running, the oldest go first.
    `conversation_tokens`: a run sees the newest messages of its conversation that fit.
    """

    body: int = 1_048_576
    body_seconds: float = 30.0
    connections: int = 2_000
    runs: int = 1_000
    run_seconds: float = 3_600.0
    write_seconds: float = 60.0
    tail: int = 20_000
    keep_seconds: float = 300.0
    wait_seconds: float = 86_400.0
    keep_runs: int = 10_000
    conversation_tokens: int = 100_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"Limits({name}={getattr(self, name)!r}) must be above zero")
