"""Decisions: people's words on calls that wait, checked before a run goes on with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wesichain.agent.phases import Interrupted
from wesichain.core import Approve, ApproveWith, Decision, PendingCall, Provide, Refuse, ToolCall
from wesichain.errors import ConfigError

_REMEMBERED = 10_000  # tokens


class Decisions:
    """Checks decisions for one runtime, and knows which tokens were used."""

    __slots__ = ("_refusal_of", "_used")

    def __init__(self, refusal_of: Callable[[ToolCall], Exception | None]) -> None:
        """`refusal_of` says why a call with other arguments cannot be run."""
        self._refusal_of = refusal_of
        self._used: OrderedDict[str, None] = OrderedDict()

    def take(
        self, interrupted: Interrupted[Any], decisions: Mapping[str, Decision], now: float
    ) -> Sequence[str]:
        """Every waiting call has its decision, none is stale, none is used twice; the tokens are used now."""
        waiting = {item.token: item for item in interrupted.pending}
        unknown = [token for token in decisions if token not in waiting]
        if unknown:
            raise ConfigError(f"no call waits for the token {unknown[0]!r}; take tokens from outcome.pending")
        missing = [item.call.name for token, item in waiting.items() if token not in decisions]
        if missing:
            raise ConfigError(f"decide on every waiting call: {', '.join(missing)} has no decision yet")
        for token, item in waiting.items():
            if item.expires_at is not None and now > item.expires_at:
                raise ConfigError(f"the approval of {item.call.name!r} has expired; run the task again")
            if token in self._used:
                raise ConfigError(f"the approval of {item.call.name!r} was used already; a token works once")
            self._check(item, decisions[token])
        for token in waiting:
            self._used[token] = None
        while len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)
        return [*waiting]

    def give_back(self, tokens: Sequence[str]) -> None:
        """These could not be followed, and may be given again."""
        for token in tokens:
            self._used.pop(token, None)

    def _check(self, item: PendingCall, decision: Any) -> None:
        """A decision that cannot be followed is refused before it uses up its token."""
        call = item.call
        match decision:
            case Refuse():
                pass
            case Provide() if item.external:
                pass
            case Approve() if not item.external:
                pass
            case ApproveWith(args=args) if not item.external:
                if item.scope == ():  # the arguments of calls further down are checked by their own run
                    refusal = self._refusal_of(ToolCall(call.id, call.name, args))
                    if refusal is not None:
                        raise ConfigError(f"the approved arguments do not fit: {refusal}")
            case _:
                use = (
                    "Provide(value), Provide(error=...)" if item.external else "Approve(), ApproveWith(args)"
                )
                raise ConfigError(
                    f"{decision!r} is no decision on {call.name!r}; use {use} or Refuse(reason)"
                )
