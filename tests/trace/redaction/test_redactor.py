"""The laws of redaction: deterministic, idempotent, blind to nothing that a rule knows."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.trace.runs import SPEC, events, json_values, run
from wesichain.core import (
    Event,
    Image,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
    to_json,
)
from wesichain.core.events import Decided
from wesichain.core.internal import ApproveWith, PendingCall, Refuse
from wesichain.trace import Redactor, redact

CANARY = "canary-3f9a7c21d8"
KEY = "sk-canary0123456789abcdef"
REDACTOR = Redactor(environ={"CANARY_TOKEN": CANARY})

# Pieces that rules are made of, glued in any order: what a rule does to one may wake another.
pieces = st.sampled_from(
    [
        CANARY, KEY, "password", "token", "api_key", "secret", "auth", "key", "API key", "--token",
        "Authorization", "=", ":", ": ", " ", "\n", '"', "'", "\\", "&", ",", "(", ")", "[", "]", "{", "}",
        "-", "_", ".", "@", "://", "Bearer ", "bearer", "AKIAIOSFODNN7EXAMPLE", "ghp_abcdefghijklmnopqrst",
        "xoxb-12345678", "eyJabcdefghij.abcdefghij", "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----", "sk-", "hunter2", "abc", "1", "https://u:p@h/", "[redacted:",
        "[redacted:secret]", "[redacted:environment]", "[redacted:encoded]", " is ", " was ", "mysql -p", "-u bob:",
        "%3D", "%22", "&quot;", "&#34;", "\\u0022", "\\n", " == ", " => ", " := ", "value", "name", "$", "${A}", "f\"{a}\"",
        "sk_live_1234567890abcd", "glpat-", "hf_", ":5432:a:b:c", "sig=abcdefghijklmnop", "Cookie: a=b; c=d", "auth", "_key",
        "\u200b", "\u2060", "YWRtaW46aHVudGVyMg==", "SG.abcdefghij.abcdefghij", "npm_abcdefghijklmnop", "\u0130", "\u212a", "é",
    ]
)  # fmt: skip
tangles = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=40)


@draws(20)
@given(tangles)
def test_a_redacted_text_is_left_as_it_is(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once


@draws(20)
@given(tangles)
def test_equal_texts_give_equal_results_whatever_was_seen_before(text: str) -> None:
    assert REDACTOR.text(text) == Redactor(environ={"CANARY_TOKEN": CANARY}).text(text)


@draws(20)
@given(tangles)
def test_what_is_known_does_not_come_through(text: str) -> None:
    assert CANARY not in REDACTOR.text(text)


@draws(20)
@given(tangles, st.dictionaries(st.sampled_from(["A_KEY", "B_TOKEN", "C_SECRET"]), tangles, max_size=3))
def test_any_environment(text: str, environ: dict[str, str]) -> None:
    redactor = Redactor(environ=environ)
    once = redactor.text(text)
    assert redactor.text(once) == once


@draws(20)
@given(
    st.lists(
        st.sampled_from(
            [
                "password={}", "secret='{}'", '"token": "{}"', '\\"api_key\\": \\"{}\\"',
                "Authorization: Bearer {}", "Authorization: Basic {}", "x-api-key: {}",
                "https://bob:{}@host/x", "--token {}", "Cookie: sid={}", "('cookie', '{}')",
                "auth=('bob', '{}')", "?access_token={}&a=1", "client_secret: {}", "word", "a=b",
            ]
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([" ", "\n", ", ", "; ", ") (", " and ", "\t", "'", '"', "\\n", "{", "}"]),
)  # fmt: skip
def test_no_rule_keeps_another_from_its_find(forms: list[str], between: str) -> None:
    text = between.join(form.replace("{}", f"canary{number}x") for number, form in enumerate(forms))
    assert "canary" not in REDACTOR.text(text)


UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e"


@draws(20)
@given(
    st.sampled_from(
        [CANARY, KEY, "password=canaryx123", "curl -u bob:canaryx123", "the token is canaryx123"]
    ),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(UNSEEN)), max_size=8),
)
def test_unseen_letters_save_no_secret(secret: str, inserted: list[tuple[int, str]]) -> None:
    text = secret
    for spot, letter in inserted:
        text = text[: min(spot, len(text))] + letter + text[min(spot, len(text)) :]
    cleaned = "".join(letter for letter in REDACTOR.text(f"see {text} ok") if letter not in UNSEEN)
    assert "canary" not in cleaned
    assert REDACTOR.text(cleaned) == cleaned


@draws(20)
@given(st.sampled_from([CANARY, KEY, "password=canaryx123", f"x {KEY} y", "bob:canaryx123"]), st.booleans())
def test_base64_saves_no_secret(secret: str, url_safe: bool) -> None:
    encode = urlsafe_b64encode if url_safe else b64encode
    said = encode(secret.encode()).decode()
    for form in (said, said.rstrip("=")):
        label = "environment" if secret == CANARY else "encoded"
        assert REDACTOR.text(f"blob: {form} end") == f"blob: [redacted:{label}] end"


secret_values: st.SearchStrategy[Any] = st.recursive(
    tangles | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tangles, inner, max_size=3),
    max_leaves=8,
)


@draws(20)
@given(secret_values)
def test_redacted_data_is_left_as_it_is(value: Any) -> None:
    once = REDACTOR.value(value)
    assert REDACTOR.value(once) == once
    assert CANARY not in to_json(once)


@draws(20)
@given(json_values)
def test_data_without_a_secret_is_the_same_object(value: Any) -> None:
    cleaned = REDACTOR.value(value)
    assert cleaned == value
    assert cleaned is value


@draws(20)
@given(events())
def test_any_event_without_a_secret_is_the_same_object(event: Event) -> None:
    assert REDACTOR.event(event) is event


@draws(20)
@given(secret_values, tangles)
def test_an_event_is_clean_and_stays_so(value: Any, text: str) -> None:
    for event in _events_with(text, value):
        once = REDACTOR.event(event)
        assert REDACTOR.event(once) == once
        assert CANARY not in to_json(once)
        assert (once.run_id, once.step_id, once.seq, once.at) == (
            event.run_id,
            event.step_id,
            event.seq,
            event.at,
        )


def _events_with(text: str, value: Any) -> list[Event]:
    call = ToolCall("c1", text, value)
    head = ("run", 1, 2, 3.0)
    return [
        RunStarted(*head, text, text, (ToolSpec("t", text, {"type": "object", "default": value}),)),
        RunStarted(*head, "q", "m", (), True, (Decided("t", text, ApproveWith(value)),)),
        RunStarted(*head, "q", "m", (), True, (Decided("t", text, Refuse(text)),)),
        StepStarted(*head, (Message(Role.ASSISTANT, text, "c1", (call,), text, value),)),
        TextDelta(*head, text),
        ModelResponded(*head, LlmResponse(text, (call,), Usage(), "stop", text, value), 1.0),
        ToolDispatched(*head, call),
        ToolCompleted(*head, "c1", text, value, 1.0),
        StepFailed(*head, text, text, text, "c1", text),
        RunCompleted(*head, value, Usage()),
        RunFailed(*head, text, text, Usage()),
        RunInterrupted(*head, text, Usage(), (PendingCall(call, "approval-token"),)),
    ]


@pytest.mark.parametrize("secret", [CANARY, KEY, f"https://bob:{CANARY}@host"])
def test_a_secret_anywhere_in_an_event(secret: str) -> None:
    text = f"before {secret} after"
    for event in _events_with(text, {"a": [{text: text}]}):
        shown = to_json(REDACTOR.event(event))
        assert secret not in shown
        assert "before " in shown
        assert " after" in shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"password": "x"}, {"password": "[redacted:secret]"}, id="text under a secret name"),
        pytest.param(
            {"pin_token": 1234}, {"pin_token": "[redacted:secret]"}, id="a number under a secret name"
        ),
        pytest.param({"token": None, "auth": True}, {"token": None, "auth": True}, id="null and true stay"),
        pytest.param({"secret": ""}, {"secret": ""}, id="nothing to hide"),
        pytest.param(
            {"secrets": ["a", ["b"]]}, {"secrets": ["[redacted:secret]", ["[redacted:secret]"]]}, id="lists"
        ),
        pytest.param({"token": {"type": "string"}}, {"token": {"type": "string"}}, id="a schema of a token"),
        pytest.param([["x-api-key", "a"]], [["x-api-key", "[redacted:secret]"]], id="headers as pairs"),
        pytest.param(
            {KEY: 1, KEY + "0": 2}, {"[redacted:openai-key]": 1, "[redacted:openai-key]'": 2}, id="keys"
        ),
        pytest.param({"max_tokens": 5}, {"max_tokens": 5}, id="a count"),
        pytest.param("a", "a", id="a text"),
        pytest.param(7, 7, id="a number"),
    ],
)
def test_data(value: Any, expected: Any) -> None:
    assert REDACTOR.value(value) == expected


def test_the_token_of_an_approval_and_ids_of_calls_stay() -> None:
    call = ToolCall("sk-call0123456789", "t", {})
    event = RunInterrupted("r", 1, 2, 3.0, "waits", Usage(), (PendingCall(call, "sk-token0123456789"),))
    assert REDACTOR.event(event) is event


def test_a_hook_for_more() -> None:
    redactor = Redactor(lambda text: text.replace("Jane", "[redacted:person]"), environ={})
    assert redactor.text("ask Jane") == "ask [redacted:person]"
    assert redactor.value({"Jane": ["Jane"]}) == {"[redacted:person]": ["[redacted:person]"]}


def test_rules_that_never_agree_give_nothing_away() -> None:
    flip = Redactor(lambda text: text[::-1], environ={})
    assert flip.text("ab") == "[redacted:text]"


def test_data_that_nests_too_deeply_gives_nothing_away() -> None:
    deep: Any = CANARY
    for _ in range(100_000):
        deep = [deep]
    assert REDACTOR.value(deep) == "[redacted:text]"
    cleaned = REDACTOR.event(ToolCompleted("r", 1, 2, 3.0, "c", "t", deep, 1.0))
    assert cleaned.value == "[redacted:text]"
    while isinstance(deep, list):  # freed one by one: the interpreter would recurse
        deep = deep.pop()


def test_data_that_is_not_json_does_no_harm() -> None:
    odd: Any = {1: CANARY, "b": (CANARY, b"x", {3})}
    assert REDACTOR.value(odd) == {1: "[redacted:environment]", "b": ("[redacted:environment]", b"x", {3})}


def test_redact_takes_text_data_and_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", CANARY)
    started = run()[0]
    assert isinstance(started, RunStarted)
    assert redact(f"a {CANARY}") == "a [redacted:environment]"
    assert redact({"a": CANARY}) == {"a": "[redacted:environment]"}
    assert redact(replace(started, user_input=CANARY)).user_input == "[redacted:environment]"
    assert redact(started) is started
    assert redact(5) == 5
    assert started.tools == (SPEC,)


def _ordinary(text: str, value: Any) -> list[Event]:
    """Events of an ordinary run, of every kind that is looked at quickly."""
    call = ToolCall("c1", text, value)
    head = ("run", 1, 2, 3.0)
    return [
        RunStarted(*head, text, text, (ToolSpec(text, text, {"type": "object", text: value}),)),
        StepStarted(*head, (Message(Role.USER, text), Message(Role.ASSISTANT, text, "c1", (call,), text, value))),
        ModelResponded(*head, LlmResponse(text, (call,), Usage(), "stop", text, value), 1.0),
        ModelResponded(*head, LlmResponse(), 1.0),
        ToolDispatched(*head, call),
        ToolCompleted(*head, "c1", text, value, 1.0),
        ToolCompleted(*head, "c1", text, 5, 1.0),
        RunCompleted(*head, value, Usage()),
    ]  # fmt: skip


PLAIN: Any = {"a": [1, 2.5, True, None, "b", {"c": "d"}], "e": "f"}


def test_an_ordinary_run_is_looked_at_quickly_alone() -> None:
    redactor = Redactor(environ={})
    for _ in range(2):  # what is known, too
        assert redactor.suspects(_ordinary("a sentence", PLAIN)) == []


@pytest.mark.parametrize("field", range(13))
def test_the_quick_look_misses_no_field(field: int) -> None:
    """A secret in one field alone."""
    texts: list[Any] = ["a"] * 13
    texts[field] = KEY
    call = ToolCall("c1", texts[0], {"x": [texts[1]]})
    head = ("run", 1, 2, 3.0)
    spec = ToolSpec(texts[2], texts[3], {"type": "object", "x": texts[4]})
    message = Message(Role.ASSISTANT, texts[5], "c1", (call,), texts[6], {"x": texts[7]})
    looked: list[Event] = [
        RunStarted(*head, texts[8], texts[9], (spec,)),
        StepStarted(*head, (Message(Role.USER, "a"), message)),
        ModelResponded(
            *head, LlmResponse(texts[5], (call,), Usage(), "stop", texts[6], {"x": texts[7]}), 1.0
        ),
        ToolDispatched(*head, call),
        ToolCompleted(*head, "c1", texts[10], [texts[11]], 1.0),
        RunCompleted(*head, {texts[12]: 1}, Usage()),
    ]
    expected = {0: [1, 2, 3], 1: [1, 2, 3], 2: [0], 3: [0], 4: [0], 5: [1, 2], 6: [1, 2], 7: [1, 2]}
    expected |= {8: [0], 9: [0], 10: [4], 11: [4], 12: [5]}
    assert Redactor(environ={}).suspects(looked) == expected[field]


@pytest.mark.parametrize(
    "value",
    [{"password": "x"}, ["x-api-key", "a"], [["x-api-key", "a"]], {"a": {"token": 5}}, {1: "a"}, (1,), {"a": {1}}],
)  # fmt: skip
def test_the_quick_look_leaves_what_is_not_plain_to_the_slow_one(value: Any) -> None:
    assert Redactor(environ={}).suspects([RunCompleted("r", 1, 2, 3.0, value, Usage())]) == [0]


def test_parts_decisions_and_other_events_are_left_to_the_slow_look() -> None:
    head = ("run", 1, 2, 3.0)
    part = Image(url="https://example.org/a.png")
    assert Redactor(environ={}).suspects(
        [
            RunStarted(*head, "q", "m", (), True, (Decided("t", "a", Refuse("no")),)),
            RunStarted(*head, "q", "m", (), parts=(part,)),
            StepStarted(*head, (Message(Role.USER, (part,)),)),
            ModelResponded(*head, LlmResponse(parts=(part,)), 1.0),
            ModelResponded(*head, LlmResponse(omitted=("a",)), 1.0),
            ToolCompleted(*head, "c", "t", "v", 1.0, (part,)),
            TextDelta(*head, "a"),
        ]
    ) == [*range(7)]


def test_what_was_seen_is_remembered_and_no_more_than_a_thousand_of_it() -> None:
    seen: list[str] = []

    def see(text: str) -> str:
        seen.append(text)
        return text

    redactor = Redactor(see, environ={})
    for number in range(1024):
        redactor.text(f"text {number}")
    redactor.text("text 0")
    assert seen.count("text 0") == 1
    redactor.text("one more")  # and all is forgotten
    redactor.text("text 0")
    assert seen.count("text 0") == 2
    long = "x" * 1025
    redactor.text(long), redactor.text(long)
    assert seen.count(long) == 2, "long texts are not kept"
    redactor.text(long[1:]), redactor.text(long[1:])
    assert seen.count(long[1:]) == 1


def test_names_that_were_seen_are_remembered_and_no_more_than_a_thousand_of_them() -> None:
    redactor = Redactor(environ={})
    redactor.suspects([RunCompleted("r", 1, 2, 3.0, {f"n{number}": 1}, Usage()) for number in range(1024)])
    assert len(redactor._names) == 1024
    redactor.suspects([RunCompleted("r", 1, 2, 3.0, {"one more": 1}, Usage())])
    assert redactor._names == {"one more"}


def test_an_address_that_is_a_secret_from_end_to_end_is_a_text() -> None:
    event = RunStarted("r", 1, 2, 3.0, "q", "m", (), parts=(Image(url=f"https://{CANARY}"),))
    hidden = Redactor(environ={"A_SECRET": f"https://{CANARY}"}).event(event)
    assert hidden.parts == (Text("[[redacted:secret]]"),)


def test_a_key_that_is_set_later_is_known_after_a_refresh() -> None:
    environ: dict[str, str] = {}
    redactor = Redactor(environ=environ)
    call = ToolCall("c", "t", CANARY)
    event = ToolDispatched("r", 1, 2, 3.0, call)
    assert redactor.event(event) is event
    environ["NEW_TOKEN"] = CANARY
    redactor.refresh()
    assert redactor.event(event).call.args == "[redacted:environment]"
    assert redactor.text(CANARY) == "[redacted:environment]"
