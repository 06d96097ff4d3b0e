"""A program that a model wrote, as the model of a run: what it calls are the calls of that run.

The program runs in an interpreter of its own process, without files, network, clock and chance: the same
results lead it to the same calls. It is therefore run from its beginning for every reply, and given the
results that the log of the run has. Nothing of it is kept beside that log.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from typing_extensions import override

from wesichain.core import JsonValue, LlmRequest, LlmResponse, Observation, Role, ToolCall, ToolCallingLlm
from wesichain.core.internal import LlmTraits, Value, dump_json
from wesichain.errors import CodecError, MissingDependencyError

try:
    import pydantic_monty as monty
except ImportError as error:
    raise MissingDependencyError("code mode", package="pydantic-monty", extra="kit") from error

_PRINTED = 10_000  # characters
_RESULT = 200_000  # characters of JSON
_GRACE = 5.0  # seconds beyond the limit before the interpreter's process is killed
_WORLD: Any = {"datetime": datetime.datetime(2000, 1, 1), "sleep": "zero", "random_start": {"seed": 0}}  # noqa: DTZ001  # frozen, in the interpreter's own zone


class ProgramLimits(Value):
    """The bounds of a program: calls, seconds that it computes (not those that it waits), and memory."""

    max_calls: int = 50
    seconds: float = 10.0
    memory_mb: int = 256


class CodeProgram(ToolCallingLlm):
    """Answers for one run: with the calls that the program waits for, and in the end with its result."""

    model = "run_code"
    traits = LlmTraits(parallel_calls=True, free_steps=True)

    def __init__(self, code: str, names: frozenset[str], limits: ProgramLimits) -> None:
        self._code = code
        self._names = names
        self._limits = limits
        self._run: Any = None

    def attach(self, run: Any) -> None:
        """Take the run that this program answers for: its log has the results."""
        self._run = run

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await asyncio.to_thread(self._reply, self._settled(request))

    def _settled(self, request: LlmRequest) -> dict[int, Any]:
        """The results so far, by the numbers of their calls, as the interpreter takes them."""
        failed = {message.tool_call_id for message in request.messages if message.is_error}
        answered = {message.tool_call_id for message in request.messages if message.role is Role.TOOL}
        return {
            int(step.call_id.removeprefix("call-")): _answer(step.value, is_error=step.call_id in failed)
            for step in self._run.phase.steps
            if isinstance(step, Observation) and step.call_id is not None and step.call_id in answered
        }

    def _reply(self, settled: Mapping[int, Any]) -> LlmResponse:
        """Run the program until it waits for calls that are not settled, or ends."""
        printed = _Printed()
        try:
            calls = self._advance(settled, printed)
        except monty.MontyCrashedError as error:
            why = (
                "it took too long" if error.timed_out else "it used too much memory, or broke the interpreter"
            )
            return _ended(error=f"the program was stopped: {why}", printed=printed)
        except monty.MontyError as error:
            return _ended(error=_described(error), printed=printed)
        return calls

    def _advance(self, settled: Mapping[int, Any], printed: _Printed) -> LlmResponse:
        limits, bounds = self._limits, self._limits.max_calls * 10 + 1_000
        allowed: Any = {
            "max_memory": limits.memory_mb * 1_000_000,
            "max_feed_duration_secs": limits.seconds,
            "max_suspensions": bounds,
        }
        pool = monty.Monty(min_processes=1, max_processes=1, request_timeout=limits.seconds + _GRACE)
        with pool, pool.checkout(limits=allowed, os_policy=_WORLD) as session:
            at: Any = session.feed_start(self._code, print_callback=printed)
            asked: dict[int, ToolCall] = {}
            while not isinstance(at, monty.MontyComplete):
                if isinstance(at, monty.NameLookupSnapshot):
                    at = at.resume(**self._named(at.variable_name))
                elif isinstance(at, monty.FunctionSnapshot):
                    at = self._asked(at, asked)
                    if len(asked) > limits.max_calls:
                        why = f"the program was stopped: it makes more than {limits.max_calls} calls"
                        return _ended(error=why, printed=printed)
                else:
                    # The interpreter names them in any order; here they are asked for in that of the program.
                    waiting = sorted(number for number in at.pending_call_ids if number not in settled)
                    if waiting:
                        calls = tuple(asked[number] for number in waiting)
                        return LlmResponse(tool_calls=calls, finish_reason="tool_calls")
                    at = at.resume({number: settled[number] for number in at.pending_call_ids})
            left = [call for number, call in asked.items() if number not in settled]
            try:
                return _ended(value=plain(at.output), printed=printed, left=left)
            except (TypeError, CodecError) as error:
                return _ended(
                    error=f"the value of the last expression is no result: {error}", printed=printed
                )

    def _named(self, name: str) -> dict[str, Any]:
        """The value of a name that the program does not define: a tool that it takes for a value, or none."""
        if name not in self._names:
            return {}

        def stand_in() -> None: ...

        stand_in.__name__ = name
        return {"value": stand_in}

    def _asked(self, at: Any, asked: dict[int, ToolCall]) -> Any:
        """Go on from a call: a tool's is a call of the run that waits; any other is refused here."""
        name = at.function_name
        if at.is_os_function:
            return at.resume_not_handled()
        if at.object_id is not None or name not in self._names:
            return at.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        if at.args:
            why = f"{name}() takes keyword arguments alone: await {name}(name=value)"
            return at.resume({"exc_type": "TypeError", "message": why})
        try:
            args = plain(at.kwargs)
            dump_json(args)
        except (TypeError, CodecError) as error:
            return at.resume({"exc_type": "TypeError", "message": f"{name}(): {error}"})
        asked[at.call_id] = ToolCall(f"call-{at.call_id}", name, args)
        return at.resume({"future": ...})


class _Printed:
    """Takes what the program prints, up to a limit."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, stream: str, text: str) -> None:
        del stream
        self.text += text[: max(0, _PRINTED - len(self.text))]


def plain(value: Any) -> Any:
    """A value of the interpreter as a JSON value; raises TypeError for what is none."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        entries: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]  # any mapping
        return {_key(name): plain(item) for name, item in entries.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [plain(item) for item in cast("Iterable[Any]", value)]
        return sorted(items, key=dump_json) if isinstance(value, set | frozenset) else items
    raise TypeError(f"{type(value).__name__} is not a JSON value; use texts, numbers, lists and dicts")


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"the key {name!r} of a dict is not a text")


def _answer(value: JsonValue, *, is_error: bool) -> dict[str, Any]:
    return {"exc_type": "RuntimeError", "message": str(value)} if is_error else {"return_value": value}


def _ended(
    *, printed: _Printed, value: Any = None, error: str = "", left: Sequence[ToolCall] = ()
) -> LlmResponse:
    """The last reply: what run_code returns, or why it fails, as JSON text.

    `left` are the calls that were not awaited.
    """
    ended: dict[str, Any] = {"error": error} if error else {"value": value}
    if left:
        calls = ", ".join(dict.fromkeys(f"{call.name}()" for call in left))
        ended["note"] = f"not made, because it was not awaited: {calls}. Write await before every call."
    text = dump_json(ended)
    if len(text) > _RESULT:
        text = dump_json({"error": f"the result has {len(text)} characters; return at most {_RESULT}"})
    if printed.text:
        text = f'{{"printed":{dump_json(printed.text)},{text[1:]}'
    return LlmResponse(text)


def _described(error: Any) -> str:
    display = getattr(error, "display", None)
    return str(display() if display is not None else error)[:_PRINTED]
