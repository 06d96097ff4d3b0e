"""The rules of the loop, each by itself: histories, tallies, decisions on calls, names of models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wesichain.agent import Advice, Approve, ApproveWith, Conversation, Decision, PendingCall, Provide, Refuse
from wesichain.agent.calls import call_approvals
from wesichain.agent.calls.call_approvals import UsedTokens, check_decision
from wesichain.agent.drive import PastRun
from wesichain.agent.memory.history import clean_history, is_over, messages_of, opening
from wesichain.agent.model_names import Models, resolve_model
from wesichain.agent.results.result import question_of
from wesichain.agent.rules.tally import Tally, short_result
from wesichain.core import Action, ErrorStep, FinalAnswer, Message, Observation, Role, Text, Thought, ToolCall
from wesichain.core.internal import Question
from wesichain.errors import ApprovalExpiredError, ConfigError, LlmError, LlmTransportError
from wesichain.policy import N, OnceWithToolCatalog
from wesichain.testing import ScriptedLlm

A, B = ToolCall("a", "f", {}), ToolCall("b", "f", {})
ASKED, OF_A, OF_B = (
    Message(Role.ASSISTANT, "", None, (A, B)),
    Message(Role.TOOL, "1", "a"),
    Message(Role.TOOL, "2", "b"),
)
USER, SYSTEM, SAID = (
    Message(Role.USER, "q"),
    Message(Role.SYSTEM, "s"),
    Message(Role.ASSISTANT, "words", None, (A,)),
)


def asked(*calls: ToolCall, text: str = "") -> Message:
    return Message(Role.ASSISTANT, text, None, calls)


# --- histories ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        pytest.param([USER, ASKED, OF_A, OF_B], [USER, ASKED, OF_A, OF_B], id="whole"),
        pytest.param([ASKED, OF_B, OF_A], [ASKED, OF_B, OF_A], id="in-another-order"),
        pytest.param([ASKED, OF_A, USER], [asked(A), OF_A, USER], id="a-call-without-a-result"),
        pytest.param([ASKED, USER, OF_A, OF_B], [USER], id="results-that-come-too-late"),
        pytest.param([SAID, USER], [asked(text="words"), USER], id="words-beside-a-lost-call"),
        pytest.param([OF_A, USER], [USER], id="a-result-without-a-call"),
        pytest.param([asked(A), OF_A, OF_A, OF_B], [asked(A), OF_A], id="a-result-twice-and-a-foreign-one"),
        pytest.param([asked(A, A), OF_A], [asked(A), OF_A], id="a-call-twice"),
    ],
)
def test_a_history_has_every_call_with_its_result(history: Any, kept: Any) -> None:
    assert clean_history(history) == kept


def test_a_history_is_made_of_messages() -> None:
    with pytest.raises(
        ConfigError, match=r"^history\[1\] is of type dict; a history is made of messages: Mess"
    ):
        clean_history([USER, {}])  # type: ignore[list-item]  # that is the point


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ((None, None, "", ()), []),
        (("be", None, "", (SYSTEM, USER)), ["be", "q"]),
        ((None, None, "", (SYSTEM, USER)), ["s", "q"]),
        (("be", None, "form", ()), ["be\n\nform"]),
        ((None, None, "form", ()), ["form"]),
        (("be", Advice("do"), "", ()), ["be\n\ndo"]),
        ((None, Advice("do"), "form", (USER,)), ["do\n\nform", "q"]),
    ],
)
def test_what_stands_before_the_task(given: Any, texts: list[str]) -> None:
    assert [message.text for message in opening(*given)] == texts


@pytest.mark.parametrize(
    ("steps", "messages"),
    [
        ([], []),
        ([Thought("t"), Action(A), Observation(1, "a")], [asked(A, text="t"), OF_A]),
        ([Action(A), Action(B), Observation(1, "a"), Observation(2, "b")], [ASKED, OF_A, OF_B]),
        ([Thought("t"), Thought("u")], [asked(text="t"), asked(text="u")]),
        ([Thought("t"), Observation("wrong")], [asked(text="t"), Message(Role.USER, "wrong")]),
        ([Thought("t"), FinalAnswer("x"), Thought("u")], [asked(text="t"), asked(text="x"), asked(text="u")]),
        ([Thought("t"), ErrorStep("x"), Action(A), Observation(1, "a")], [asked(text="t"), asked(A), OF_A]),
    ],
)
def test_a_scratchpad_as_messages(steps: Any, messages: Any) -> None:
    assert messages_of(steps) == messages


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([], False), ([Thought("t")], False), ([FinalAnswer("x")], True), ([ErrorStep("x")], True), ([FinalAnswer("x"), Thought("t")], False)],
)  # fmt: skip
def test_a_scratchpad_is_over_with_an_answer_or_an_error(steps: Any, expected: bool) -> None:
    assert is_over(steps) is expected


def test_a_conversation_can_be_cleared() -> None:
    memory = Conversation()
    memory.add(USER)
    memory.clear()
    assert memory.messages == memory.window() == ()


# --- tallies --------------------------------------------------------------------------------------


def test_a_fault_is_counted_under_each_of_its_classes_and_those_of_its_cause() -> None:
    tally, error = Tally(), ConfigError("x")
    error.__cause__ = LlmTransportError("y")
    assert tally.times(ConfigError) == tally.times_in_row(ConfigError) == 0
    tally.count_fault(error)
    tally.row = None  # a good step
    tally.count_fault(LlmTransportError("z"))
    assert [tally.times(kind) for kind in (ConfigError, LlmError, LlmTransportError, Exception)] == [
        1,
        2,
        2,
        2,
    ]
    assert [tally.times_in_row(kind) for kind in (ConfigError, LlmError)] == [0, 1]


def test_names_of_classes_are_kept_and_no_more_than_so_many() -> None:
    for number in range(600):
        tally, made = Tally(), type(f"Error{number}", (Exception,), {})
        tally.count_fault(made())
        assert tally.times(made) == tally.times(Exception) == 1


@pytest.mark.parametrize(("strategy", "allowed"), [(OnceWithToolCatalog(), 1), (N(1), 1), (N(3), 3)])
def test_a_strategy_reprompts_so_often_for_a_class_of_error(strategy: Any, allowed: int) -> None:
    tally = Tally()
    assert [tally.may_reprompt(ConfigError("x"), strategy) for _ in range(5)] == [True] * allowed + [
        False
    ] * (5 - allowed)
    assert tally.may_reprompt(LlmError("x"), strategy), "of another class, it is the first"


@pytest.mark.parametrize(
    ("limit", "excluded"), [(None, [False] * 4), (1, [True] + [False] * 3), (3, [False, False, True, False])]
)
def test_a_tool_is_excluded_by_the_failure_that_reaches_the_limit(limit: Any, excluded: list[bool]) -> None:
    tally = Tally()
    assert [tally.count_tool_failure("t", limit=limit) for _ in range(4)] == excluded
    assert tally.excluded == (("t",) if limit else ())


def test_of_a_long_result_the_length_and_a_checksum_are_kept() -> None:
    assert short_result("x" * 500) == "x" * 500
    assert short_result("x" * 501) == "501 2428159279"
    assert short_result("x" * 500 + "\ud800").startswith("501 ")


# --- decisions ------------------------------------------------------------------------------------

WAITS = PendingCall(A, "t1", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
ASKS = Question("How many?", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
FOLLOWED: list[tuple[PendingCall, Decision]] = [
    (WAITS, Approve()),
    (WAITS, ApproveWith({"n": 1})),
    (WAITS, Refuse("no")),
    (PendingCall(A, "t", external=True), Provide(1)),
    (PendingCall(A, "t", external=True), Refuse()),
    (PendingCall(A, "t", external=True, question=ASKS), Provide({"n": 1})),
    (PendingCall(A, "t", external=True, question=ASKS), Provide(error="gone")),
    (PendingCall(A, "t"), ApproveWith({"n": "stored without a schema"})),
    (PendingCall(A, "t", expires_at=10.0), Approve()),
]


@pytest.mark.parametrize(("item", "decision"), FOLLOWED)
def test_a_decision_that_can_be_followed(item: PendingCall, decision: Decision) -> None:
    check_decision(item, decision, None, now=10.0, remedy="")


@pytest.mark.parametrize(
    ("item", "decision", "why"),
    [
        (WAITS, Provide(1), "is no decision on 'f'; use Approve(), ApproveWith(args) or Refuse(reason)"),
        (WAITS, "yes", "'yes' is no decision on 'f'; use Approve(), ApproveWith(args) or Refuse(reason)"),
        (PendingCall(A, "t", external=True), Approve(), "is no decision on 'f'; use Provide(value), Provide(error=...) or Refuse(reason)"),
        (PendingCall(A, "t", external=True), ApproveWith({}), "Provide(error=...) or Refuse(reason)"),
        (WAITS, ApproveWith({"n": "x"}), 'the approved arguments do not fit: n: expected an integer, got "x"'),
        (PendingCall(A, "t", external=True, question=ASKS), Provide(5), "the answer to 'f' is not what it asks for: not an object"),
        (
            PendingCall(A, "t", external=True, question=ASKS),
            Provide({}),
            "the answer to 'f' is not what it asks for: n: is required and was not given",
        ),
        (PendingCall(A, "t", expires_at=9.9), Approve(), "the approval of 'f' has expired; run it again"),
    ],
)  # fmt: skip
def test_a_decision_that_cannot_be_followed_is_refused(item: PendingCall, decision: Any, why: str) -> None:
    with pytest.raises((ConfigError, ApprovalExpiredError)) as refused:
        check_decision(item, decision, None, now=10.0, remedy="run it again")
    assert str(refused.value).endswith(why)


def test_the_program_decides_whether_arguments_fit_its_own_call_and_the_schema_for_one_below() -> None:
    refused = ConfigError("by the program")
    with pytest.raises(ConfigError, match="do not fit: by the program"):
        check_decision(WAITS, ApproveWith({"n": 1}), lambda call: refused, now=0.0, remedy="")
    below = PendingCall(A, "t1", scope=("above",), parameters=WAITS.parameters)
    check_decision(below, ApproveWith({"n": 1}), lambda call: refused, now=0.0, remedy="")


def used(tokens: UsedTokens, item: PendingCall, decisions: Any, error: Exception | None = None) -> None:
    with tokens.used(SimpleNamespace(pending=(item,)), decisions, 0.0, lambda call: None):  # type: ignore[arg-type]
        if error is not None:
            raise error


def test_a_token_is_used_once_unless_it_could_not_be_followed() -> None:
    tokens = UsedTokens()
    with pytest.raises(ConfigError, match="no call waits for the token 'x'; take tokens from outcome"):
        used(tokens, WAITS, {"x": Approve(), "t1": Approve()})
    with pytest.raises(ConfigError, match=r"there is no decision yet on 'f' \(call a, token t1\)"):
        used(tokens, WAITS, {})
    with pytest.raises(ConfigError, match="by mistake"):
        used(tokens, WAITS, {"t1": Approve()}, ConfigError("by mistake"))
    with pytest.raises(OSError, match="no"):
        used(tokens, WAITS, {"t1": Approve()}, OSError("no"))
    with pytest.raises(ConfigError, match="the approval of 'f' was used already; a token works once"):
        used(tokens, WAITS, {"t1": Approve()})


def test_the_newest_tokens_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_approvals, "_MOST_TOKENS", 2)
    tokens = UsedTokens()
    for name in "abc":
        used(tokens, PendingCall(A, name), {name: Approve()})
    used(tokens, PendingCall(A, "a"), {"a": Approve()})
    with pytest.raises(ConfigError, match="used already"):
        used(tokens, PendingCall(A, "c"), {"c": Approve()})


# --- runs that are over, and models ----------------------------------------------------------------


async def test_a_run_that_is_over_gives_its_outcome_back() -> None:
    outcome: Any = object()
    past: PastRun[str] = PastRun(outcome)
    past.stop("why")
    await past.leave("why")
    assert past.phase is past.outcome is outcome
    assert await past.step() is outcome
    assert await past.run_to_end() is outcome
    with pytest.raises(ConfigError, match="the run has ended and cannot be continued; see its outcome"):
        past.snapshot()


def test_one_name_makes_one_client_and_sixteen_are_kept() -> None:
    models: Models[object] = Models()
    made: list[str] = []

    def make(llm: Any) -> object:
        made.append(llm.model)
        return object()

    first = models.get("openai:m0", make)
    assert models.get("openai:m0", make) is first
    for number in range(1, 16):
        models.get(f"openai:m{number}", make)
    assert models.get("openai:m0", make) is first
    models.get("openai:m16", make)
    assert models.get("openai:m0", make) is not first
    assert made == [*(f"m{number}" for number in range(17)), "m0"]
    models.invalidate()
    assert models.known("openai:m0") == "openai:m0"
    assert models.get("openai:m0", make) is not first


def test_a_model_is_known_by_the_name_that_its_runs_have() -> None:
    models: Models[object] = Models()
    llm = ScriptedLlm([], model="mine")
    models.get(llm, lambda _: object())
    assert (models.known("mine"), models.known("groq:x"), models.known("")) == (llm, "groq:x", None)
    with pytest.raises(
        ConfigError, match="the run was given the model 'other', which is not known here; pass mo"
    ):
        models.known("other")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gpt-5", "^model 'gpt-5' names no provider; did you mean 'openai:gpt-5'. The forms are openai:NAME, "),
        ("groq/x", "did you mean 'groq:x'"),
        ("groq/", "did you mean 'groq:NAME'"),
        ("openai: ", "^model 'openai: ' has no name; the forms are openai:NAME, responses:NAME, azure:NAME"),
        ("", "^model '' has no name; the forms are openai:NAME"),
        ("acme:x", "^model 'acme:x': unknown provider 'acme'; the forms are openai:NAME"),
    ],
)  # fmt: skip
def test_a_name_of_another_form_is_refused_with_a_hint(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        resolve_model(name)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434/v1"),
        ("gpu:99/", "http://gpu:99/v1"),
        ("https://gpu", "https://gpu/v1"),
    ],
)
def test_where_ollama_is(monkeypatch: pytest.MonkeyPatch, host: str | None, url: str) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)
    made: Any = resolve_model("ollama:x")
    assert made._base_url == url


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (Message(Role.USER, (Text("q"), Text("more"))), Message(Role.USER, (Text("q"), Text("more")))),
        (Message(Role.USER, "another"), Message(Role.USER, "q\nmore")),  # as a hand-over has left it
        (Message(Role.ASSISTANT, "q\nmore"), Message(Role.USER, "q\nmore")),
    ],
)
def test_the_question_that_a_conversation_keeps(first: Message, expected: Message) -> None:
    outcome: Any = SimpleNamespace(
        messages=[SYSTEM, first], info=SimpleNamespace(first_new=1), user_input="q\nmore"
    )
    assert question_of(outcome) == expected
