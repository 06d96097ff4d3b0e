"""Decisions of people on waiting calls: checked before they are followed, and used once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from wesichain.agent.phases import Interrupted
from wesichain.core import JsonValue, ToolCall
from wesichain.core.internal import Approve, ApproveWith, Decision, PendingCall, Provide, RefusalOf, Refuse
from wesichain.errors import ApprovalExpiredError, ConfigError

from .call_approvals import check_answer

_REMEMBERED = 10_000


class UsedTokens:
    """The tokens that were used already: a decision is followed once."""

    def __init__(self) -> None:
        self._used: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def used(
        self,
        interrupted: Interrupted[Any],
        decisions: Mapping[str, Decision],
        now: float,
        refusal_of: RefusalOf,
    ) -> Generator[None]:
        """Every waiting call has its decision, none is stale, none is used twice; the tokens are used now.

        What could not be followed inside, in a run below or by mistake, may be decided again.
        """
        waiting = {item.token: item for item in interrupted.pending}
        unknown = [token for token in decisions if token not in waiting]
        if unknown:
            raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
        missing = [
            f"{item.call.name!r} (call {item.call.id}, token {token})"
            for token, item in waiting.items()
            if token not in decisions
        ]
        if missing:
            raise ConfigError(
                f"decide on every waiting call: there is no decision yet on {', '.join(missing)}"
            )
        for token, item in waiting.items():
            if token in self._used:
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
            check_decision(item, decisions[token], refusal_of, now=now, remedy="run the task again")
        for token in waiting:
            self._used[token] = None
        while len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)
        try:
            yield
        except ConfigError:
            for token in waiting:
                self._used.pop(token, None)
            raise


def check_decision(
    item: PendingCall,
    decision: Any,
    refusal_of: RefusalOf | None,
    *,
    now: float,
    remedy: str,
) -> None:
    """A decision that cannot be followed is refused before it uses up its token.

    `refusal_of` is None where the program is not here; `remedy`: how to go on with a call whose approval has
    expired.
    """
    call = item.call
    if item.expires_at is not None and now > item.expires_at:
        raise ApprovalExpiredError(f"the approval of {call.name!r} has expired; {remedy}")
    match decision:
        case Refuse():
            pass
        case Provide() if item.external:
            check_answer(item, decision)
        case Approve() if not item.external:
            pass
        case ApproveWith(args=args) if not item.external:
            # The program of a run below is not here; its question has the schema.
            if refusal_of is None or item.scope:
                refusal: object = misfit(item, args)
            else:
                refusal = refusal_of(ToolCall(call.id, call.name, args))
            if refusal is not None:
                raise ConfigError(f"the approved arguments do not fit: {refusal}")
        case _:
            use = "Provide(value), Provide(error=...)" if item.external else "Approve(), ApproveWith(args)"
            raise ConfigError(f"{decision!r} is no decision on {call.name!r}; use {use} or Refuse(reason)")


def misfit(item: PendingCall, args: JsonValue) -> str | None:
    """Why arguments do not fit the schema of a waiting call; None where they do, or it was stored without."""
    if item.parameters is None:
        return None
    from wesichain.tools import validate_json  # loaded with the first arguments that a person gives

    return "; ".join(validate_json(item.parameters, args)) or None
