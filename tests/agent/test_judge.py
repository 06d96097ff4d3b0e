"""What a reply is: an answer, calls, a pause, or malformed, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.agent.kit import add, call, echo
from wesichain.agent.rules import sentences
from wesichain.agent.rules.answers import output_form
from wesichain.agent.rules.reply_judge import Answer, CallPlan, Malformed, Pause, Rejected, judge_of
from wesichain.core import LlmResponse, ToolCall, ToolSpec
from wesichain.errors import ConfigError, InvalidModelActionError, ModelRefusedError, TruncatedReplyError
from wesichain.llm import LlmTraits
from wesichain.tools import ToolRegistry


class Sum(BaseModel):
    a: int


PLAIN = judge_of(ToolRegistry([add, echo]), output_form(str, LlmTraits()))
TYPED = judge_of(ToolRegistry([add]), output_form(Sum, LlmTraits()))
EMPTY = "the reply is empty: it has neither text nor a tool call; call a tool or give the answer"
ADD = call("add", {"a": 1, "b": 2}, id="c1")
FINAL = call("final_answer", {"a": 1}, id="f1")


def reply(*calls: Any, text: str = "", why: Any = "stop", **more: Any) -> Any:
    return LlmResponse(text, calls, finish_reason=why, **more)


def judged(judge: Any, given: Any, used: Any = (), excluded: Any = ()) -> Any:
    return judge.judge(given, step_id=4, used_ids=used, excluded=excluded)


@pytest.mark.parametrize(
    ("given", "output", "call_id"),
    [
        (reply(text="x"), "x", None),
        (reply(text="x", why="tool_calls"), "x", None),
        (reply(text="x", opaque={"refusal": ""}), "x", None),
        (reply(text="x", opaque={"refusal": "no"}), "x", None),
        (reply(FINAL), Sum(a=1), "f1"),
        (reply(ADD, call("final_answer", {}, id="f0"), FINAL), Sum(a=1), "f1"),
        (reply(text='{"a": 1}'), Sum(a=1), None),
    ],
)
def test_an_answer(given: Any, output: Any, call_id: str | None) -> None:
    judge = TYPED if isinstance(output, Sum) else PLAIN
    verdict = judged(judge, given)
    assert isinstance(verdict, Answer)
    assert (verdict.output, verdict.call_id) == (output, call_id)
    assert judge.judge_last_reply(given, step_id=4) == verdict


def test_a_pause_is_no_answer() -> None:
    assert judged(PLAIN, reply(text="so far", why="pause")) == Pause(reply(text="so far", why="pause"))


WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    (PLAIN, None, InvalidModelActionError, "the model returned NoneType, not an LlmResponse"),
    (PLAIN, LlmResponse(5), InvalidModelActionError, "the reply's content is int, not text"),  # type: ignore[arg-type]
    (
        PLAIN,
        LlmResponse("x", usage=5),  # type: ignore[arg-type]
        InvalidModelActionError,
        "the reply's usage is int, not Usage(input_tokens, output_tokens)",
    ),
    (PLAIN, reply(), InvalidModelActionError, EMPTY),
    (PLAIN, reply(text=" \n"), InvalidModelActionError, EMPTY),
    (PLAIN, reply(text="no", why="refusal"), ModelRefusedError, "the model refused: no"),
    (PLAIN, reply(why="refusal"), ModelRefusedError, "the model refused"),
    (PLAIN, reply(why="content_filter"), ModelRefusedError, "the provider's content filter withheld the reply"),
    (
        PLAIN,
        reply(text="x", why="content_filter"),
        ModelRefusedError,
        "the provider's content filter withheld the reply: x",
    ),
    (PLAIN, reply(opaque={"refusal": "never"}), ModelRefusedError, "the model refused: never"),
    (
        PLAIN,
        reply(text="x", why="length"),
        TruncatedReplyError,
        "the reply was cut off at the token limit before it was whole; answer more briefly",
    ),
    (
        PLAIN,
        reply(why="length"),
        TruncatedReplyError,
        "the reply was cut off at the token limit before any text or tool call; answer more briefly",
    ),
    (
        TYPED,
        reply(text="x"),
        InvalidModelActionError,
        "plain text is not an answer here; call the tool 'final_answer' with the answer",
    ),
    (
        TYPED,
        reply(text="{}"),
        InvalidModelActionError,
        "declared form: a: Field required, got {}; call the tool 'final_answer' with the answer",
    ),
    (
        TYPED,
        reply(call("final_answer", {}, id="f")),
        InvalidModelActionError,
        "the answer does not have the declared form: a: Field required, got {}",
    ),
    (
        TYPED,
        reply(call("final_answer", "{", id="f"), why="length"),
        TruncatedReplyError,
        "the answer was cut off at the token limit before it was whole; answer more briefly",
    ),
    (TYPED, reply(FINAL, why="refusal"), ModelRefusedError, "the model refused"),
    (TYPED, reply(FINAL, text="x", why="content_filter"), ModelRefusedError, "content filter withheld the reply: x"),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "given", "kind", "why"), WRONG)
def test_what_is_malformed(judge: Any, given: Any, kind: Any, why: str) -> None:
    verdict = judged(judge, given)
    assert isinstance(verdict, Malformed)
    errors: list[Any] = [verdict.error, judge.judge_last_reply(given, step_id=4)]
    for error in errors:
        assert type(error) is kind
        assert str(error).endswith(why)
        assert (error.step_id, error.raw_response) == (4, given if error.tool_name else error.raw_response)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (reply("junk", ADD), "the reply holds str 'junk' where a ToolCall should be"),
        (reply(ToolCall(5, "add", {})), "the name and the id of a tool call are text, not 'add' and 5"),  # type: ignore[arg-type]
        (reply(ToolCall("c", "", {})), "a tool call has no name"),
        (reply(ToolCall("c", "", {}), reasoning="it cannot be read"), "it cannot be read"),
    ],
)
def test_what_is_no_call(given: Any, why: str) -> None:
    verdict = judged(PLAIN, given)
    assert isinstance(verdict, Malformed)
    assert str(verdict.error) == why
    assert verdict.reply.tool_calls == ()


def test_what_is_no_call_is_passed_over_beside_the_last_answer() -> None:
    last = TYPED.judge_last_reply(reply("junk", FINAL), step_id=4)
    assert isinstance(last, Answer)
    assert (last.output, last.call_id) == (Sum(a=1), "f1")


@pytest.mark.parametrize(
    ("calls", "used", "ids"),
    [
        ([ADD], (), ["c1"]),
        ([ADD], ("c1",), ["call_4_0"]),
        ([ADD, ADD], (), ["c1", "call_4_1"]),
        ([ToolCall("", "add", ADD.args)], (), ["call_4_0"]),
        ([ADD], ("c1", "call_4_0"), ["call_4_0_x"]),
        ([ToolCall("call_4_1", "add", ADD.args), ADD, ADD], ("call_4_1",), ["call_4_0", "c1", "call_4_2"]),
    ],
)
def test_ids_that_are_taken_or_missing_are_made_anew(calls: Any, used: Any, ids: list[str]) -> None:
    verdict = judged(PLAIN, reply(*calls), used)
    assert isinstance(verdict, CallPlan)
    assert [one.id for one in verdict.reply.tool_calls] == ids
    assert not verdict.is_flawed


CUT = "the arguments of 'add' were cut off at the token limit: be briefer. "


@pytest.mark.parametrize(
    ("calls", "why", "excluded", "rejected"),
    [
        ([ADD], "stop", (), {}),
        ([call("nope", id="n"), ADD], "stop", (), {0: 'there is no tool "nope"; the tools are add or echo'}),
        ([ADD, call("add", "{", id="b")], "length", (), {1: CUT}),
        ([ADD, call("add", {}, id="b")], "length", (), {1: "the arguments for 'add' are not valid"}),
        ([ADD, call("echo", {"text": "x"}, id="b")], "stop", ("add",), {0: "tool 'add' is not available any more in this run; other tools: echo"}),
        ([ADD], "stop", ("add", "echo"), {0: "tool 'add' is not available any more in this run; other tools: none"}),
    ],
)  # fmt: skip
def test_calls_that_can_be_run_and_those_that_cannot(
    calls: Any, why: Any, excluded: Any, rejected: Any
) -> None:
    verdict = judged(PLAIN, reply(*calls, why=why), excluded=excluded)
    assert isinstance(verdict, CallPlan)
    assert verdict.is_flawed is bool(rejected)
    found = {n: str(one.error) for n, one in enumerate(verdict.calls) if isinstance(one, Rejected)}
    assert found.keys() == rejected.keys()
    assert all(found[n].startswith(rejected[n]) for n in rejected)
    assert [one.call.id for one in verdict.calls] == [one.id for one in calls]


def test_a_check_that_refuses_makes_its_own_call_wrong() -> None:
    answer = judged(TYPED, reply(ADD, FINAL))
    wrong = TYPED.refused(answer, ValueError("too small"), step_id=4)
    assert [None if one is None else str(one) for one in wrong.errors] == [None, "too small"]
    assert (str(wrong.error), wrong.error.tool_name) == ("too small", "final_answer")
    words = TYPED.refused(judged(TYPED, reply(text='{"a": 1}')), ValueError("too small"), step_id=4)
    assert (words.errors, words.error.tool_name) == ([], None)


def test_a_tool_may_not_have_the_name_of_a_final_one() -> None:
    with pytest.raises(ConfigError, match="a tool is named 'add', which output_type needs; rename it"):
        judge_of(
            ToolRegistry([add]), type(TYPED.output)(final_tools=(ToolSpec("add", "", {"type": "object"}),))
        )


# --- sentences --------------------------------------------------------------------------------------

LONG = "x" * 4001
BOUNDED = f"{'x' * 4000} ... [cut: 4001 characters]"
AGAIN = "Do not ask for it again; find another way or answer."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sentences.tool_error("x"), "[TOOL ERROR] x"),
        (sentences.tool_error(LONG), f"[TOOL ERROR] {BOUNDED}"),
        (sentences.tool_error(LONG[1:]), f"[TOOL ERROR] {LONG[1:]}"),
        (sentences.invalid_call(LONG), f"[INVALID CALL] {BOUNDED}"),
        (sentences.not_run(LONG), f"[NOT RUN] {BOUNDED}"),
        (sentences.refused("x"), f"[REFUSED] The call was not approved: x. {AGAIN}"),
        (sentences.refused(""), f"[REFUSED] The call was not approved. {AGAIN}"),
        (sentences.excluded("t", 3, ["a", "b"]), " Tool 't' has failed 3 times and is no longer available. Other tools: a, b."),
        (sentences.excluded("t", 3, []), " Tool 't' has failed 3 times and is no longer available. Other tools: none; answer with what you know."),
        (sentences.catalog([]), "\nThere are no tools: answer in plain text."),
        (sentences.catalog([ToolSpec("t", "Do.", {"type": "object"})]), '\nThe tools are:\n- t: Do. Arguments: {"type":"object"}'),
    ],
)  # fmt: skip
def test_what_a_model_is_told(text: str, expected: str) -> None:
    assert text == expected
