"""Metered backend: with a limited cost, a reply that does not say how many tokens it used ends the run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import override

from wesichain.core import LlmRequest, LlmResponse, Usage
from wesichain.core.internal import cost_of
from wesichain.errors import LlmResponseError, ModelTransportError
from wesichain.policy.internal import Account
from wesichain.tools import ToolResult

from .backend import Backend, Caller, OnText
from .rules.reply_judge import is_response

_ONE_OF_EACH = Usage(1, 1)


class MeteredBackend(Backend):
    """The backend of a run whose cost is limited, or that of a run above it.

    Without the counts a reply would be free. No policy is asked: its retries would not be counted either.
    """

    __slots__ = ("_account", "_live", "_run")

    def __init__(self, live: Backend, account: Account) -> None:
        self._live = live
        self._account = account

    @override
    def attach(self, run: Any) -> None:
        self._run = run
        self._live.attach(run)

    @override
    async def ask(self, request: LlmRequest, *, on_text: OnText | None) -> LlmResponse:
        reply = await self._live.ask(request, on_text=on_text)
        if is_response(reply) and reply.finish_reason != "error" and not reply.usage.total_tokens:
            self._check_free(reply.model or request.model)
        return reply

    @override
    def call(self, prepared: Any, caller: Caller) -> Coroutine[Any, Any, ToolResult]:
        return self._live.call(prepared, caller)

    def _check_free(self, model: str) -> None:
        """Raise an error unless the model costs nothing."""
        if not cost_of(_ONE_OF_EACH, self._account.price_of(model)):
            return
        cause = LlmResponseError(
            f"the reply of {model!r} does not say how many tokens it used, and Budget(cost=...) limits "
            f"what the run may cost; let the server send its usage (streams too), limit steps= instead of "
            f"cost=, or give prices={{{model!r}: (0, 0)}} if it costs nothing"
        )
        raise ModelTransportError(str(cause), step_id=self._run.step) from cause
