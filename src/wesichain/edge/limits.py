"""Limits: the bounds of an app, for each request and for all of them."""

from __future__ import annotations

from wesichain.core.internal import Value
from wesichain.errors import ConfigError


class Limits(Value):
    """The bounds of an app. Times are in seconds.

    `body`: the bytes of a request's body, `chat_body` those of a chat, which sends its messages and pictures
    again each time; they must arrive in `body_seconds`, the head of a request in `head_seconds` (`wesichain
    api`). `connections`: requests at once; `runs`: plain runs
    at once; more are answered with 503. `client_connections`: requests at once from one address; more are
    answered with 429. `run_seconds`: the longest plain run. `write_seconds`: a reader that reads nothing for
    so long is disconnected. `tail`: the events of a plain run that are kept; `keep_seconds`: how long they
    are kept after the run has ended, `wait_seconds` while it waits for a decision; `keep_runs`: the plain
    runs that are kept besides the running ones, and `keep_bytes`: the bytes of their events. Above that, runs
    of the caller with the most of them go, the oldest first. `conversation_tokens`: a run sees the newest
    messages of its conversation that fit.
    """

    body: int = 1_048_576
    chat_body: int = 16 * 1_048_576
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    connections: int = 2_000
    client_connections: int = 64
    runs: int = 1_000
    run_seconds: float = 3_600.0
    write_seconds: float = 60.0
    tail: int = 20_000
    keep_seconds: float = 300.0
    wait_seconds: float = 86_400.0
    keep_runs: int = 10_000
    keep_bytes: int = 256 * 1_048_576
    conversation_tokens: int = 100_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"Limits({name}={getattr(self, name)!r}) must be above zero")
