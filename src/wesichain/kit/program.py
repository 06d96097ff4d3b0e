"""A program that a model wrote, as the model of a child run, whose calls are those of the program.

The program runs in an interpreter in a separate process, without files, network, clock and randomness, so
that equal results lead to equal calls. It is therefore run from its beginning for every reply, with the
results in the log of the run. No other state is kept.
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

_MAX_PRINTED = 10_000  # characters
_MAX_RESULT = 200_000  # characters of JSON
_MAX_DEPTH = 100  # of a value; the JSON that holds it has levels of its own
_GRACE = 5.0  # seconds beyond the limit before the interpreter's process is killed
_WORLD: Any = {"datetime": datetime.datetime(2000, 1, 1), "sleep": "zero", "random_start": {"seed": 0}}  # noqa: DTZ001  # a fixed time, in the time zone of the interpreter


class ProgramLimits(Value):
    """The limits of a program: calls, seconds of computing (without waiting for calls), and memory."""

    max_calls: int = 50
    seconds: float = 10.0
    memory_mb: int = 256


class CodeProgram(ToolCallingLlm):
    """The model of one run. Its replies are the calls of the program, and finally its result."""

    model = "run_code"
    traits = LlmTraits(parallel_calls=True, free_steps=True)

    def __init__(self, code: str, names: frozenset[str], limits: ProgramLimits) -> None:
        self._code = code
        self._names = names
        self._limits = limits
        self._run: Any = None

    def attach(self, run: Any) -> None:
        """Set the run of this program, whose log contains the results."""
        self._run = run

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await asyncio.to_thread(self._reply, self._results(request))

    def _results(self, request: LlmRequest) -> dict[int, Any]:
        """Return the results so far, in the form of the interpreter, by the numbers of their calls."""
        failed = {message.tool_call_id for message in request.messages if message.is_error}
        answered = {message.tool_call_id for message in request.messages if message.role is Role.TOOL}
        return {
            int(step.call_id.removeprefix("call-")): _interpreter_result(
                step.value, is_error=step.call_id in failed
            )
            for step in self._run.phase.steps
            if isinstance(step, Observation) and step.call_id is not None and step.call_id in answered
        }

    def _reply(self, results: Mapping[int, Any]) -> LlmResponse:
        """Run the program until it waits for calls without a result, or ends."""
        printed = _Printed()
        try:
            calls = self._advance(results, printed)
        except monty.MontyCrashedError as error:
            why = (
                "it took too long" if error.timed_out else "it used too much memory, or broke the interpreter"
            )
            return _last_reply(error=f"the program was stopped: {why}", printed=printed)
        except monty.MontyError as error:
            return _last_reply(error=_error_text(error), printed=printed)
        return calls

    def _advance(self, results: Mapping[int, Any], printed: _Printed) -> LlmResponse:
        limits, bounds = self._limits, self._limits.max_calls * 10 + 1_000
        allowed: Any = {
            "max_memory": limits.memory_mb * 1_000_000,
            "max_feed_duration_secs": limits.seconds,
            "max_suspensions": bounds,
        }
        pool = monty.Monty(min_processes=1, max_processes=1, request_timeout=limits.seconds + _GRACE)
        with pool, pool.checkout(limits=allowed, os_policy=_WORLD) as session:
            state: Any = session.feed_start(self._code, print_callback=printed)
            made_calls: dict[int, ToolCall] = {}
            while not isinstance(state, monty.MontyComplete):
                if isinstance(state, monty.NameLookupSnapshot):
                    state = state.resume(**self._name_value(state.variable_name))
                elif isinstance(state, monty.FunctionSnapshot):
                    state = self._continue_call(state, made_calls)
                    if len(made_calls) > limits.max_calls:
                        why = f"the program was stopped: it makes more than {limits.max_calls} calls"
                        return _last_reply(error=why, printed=printed)
                else:
                    # The interpreter lists them in any order; the calls are made in the order of the program.
                    waiting = sorted(number for number in state.pending_call_ids if number not in results)
                    if waiting:
                        calls = tuple(made_calls[number] for number in waiting)
                        return LlmResponse(tool_calls=calls, finish_reason="tool_calls")
                    state = state.resume({number: results[number] for number in state.pending_call_ids})
            unawaited = [call for number, call in made_calls.items() if number not in results]
            try:
                return _last_reply(value=plain(state.output), printed=printed, unawaited=unawaited)
            except (TypeError, CodecError) as error:
                return _last_reply(
                    error=f"the value of the last expression cannot be returned: {error}", printed=printed
                )

    def _name_value(self, name: str) -> dict[str, Any]:
        """Return the value of a name that the program does not define: that of a tool, or nothing."""
        if name not in self._names:
            return {}

        def stand_in() -> None: ...

        stand_in.__name__ = name
        return {"value": stand_in}

    def _continue_call(self, state: Any, made_calls: dict[int, ToolCall]) -> Any:
        """Continue after a call. A call of a tool becomes a call of the run; others raise in the program."""
        name = state.function_name
        if state.is_os_function:
            return state.resume_not_handled()
        if state.object_id is not None or name not in self._names:
            return state.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        if state.args:
            why = f"{name}() takes only keyword arguments: await {name}(name=value)"
            return state.resume({"exc_type": "TypeError", "message": why})
        try:
            args = plain(state.kwargs)
            dump_json(args)
        except (TypeError, CodecError) as error:
            return state.resume({"exc_type": "TypeError", "message": f"{name}(): {error}"})
        made_calls[state.call_id] = ToolCall(f"call-{state.call_id}", name, args)
        return state.resume({"future": ...})


class _Printed:
    """Collects the output of the program, up to a limit."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, stream: str, text: str) -> None:
        del stream
        self.text += text[: max(0, _MAX_PRINTED - len(self.text))]


def plain(value: Any, *, depth: int = 0) -> Any:
    """Convert a value of the interpreter to a JSON value. Raises TypeError if it is none."""
    if depth > _MAX_DEPTH:
        raise TypeError(f"the value nests deeper than {_MAX_DEPTH} levels")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        entries: Mapping[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]  # any mapping
        return {_key(name): plain(item, depth=depth + 1) for name, item in entries.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [plain(item, depth=depth + 1) for item in cast("Iterable[Any]", value)]
        return sorted(items, key=dump_json) if isinstance(value, set | frozenset) else items
    raise TypeError(f"{type(value).__name__} is not a JSON value; use texts, numbers, lists and dicts")


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"the key {name!r} of a dict is not a text")


def _interpreter_result(value: JsonValue, *, is_error: bool) -> dict[str, Any]:
    return {"exc_type": "RuntimeError", "message": str(value)} if is_error else {"return_value": value}


def _last_reply(
    *, printed: _Printed, value: Any = None, error: str = "", unawaited: Sequence[ToolCall] = ()
) -> LlmResponse:
    """The last reply: the result of run_code, or its error, as JSON text.

    `unawaited` are the calls that were not awaited.
    """
    reply: dict[str, Any] = {"error": error} if error else {"value": value}
    if unawaited:
        calls = ", ".join(dict.fromkeys(f"{call.name}()" for call in unawaited))
        reply["note"] = f"not made, because it was not awaited: {calls}. Write await before every call."
    text = dump_json(reply)
    if len(text) > _MAX_RESULT:
        text = dump_json({"error": f"the result has {len(text)} characters; return at most {_MAX_RESULT}"})
    if printed.text:
        text = f'{{"printed":{dump_json(printed.text)},{text[1:]}'
    return LlmResponse(text)


def _error_text(error: Any) -> str:
    display = getattr(error, "display", None)
    return str(display() if display is not None else error)[:_MAX_PRINTED]
