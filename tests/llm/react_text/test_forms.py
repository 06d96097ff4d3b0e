"""One rule for every form: the same call, in each form that is read, in the same surroundings."""

from __future__ import annotations

import pytest

from wesichain.core import ToolSpec
from wesichain.llm.react_text import parse

PAY = ToolSpec(
    "pay", "Pays.", {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
)
CLEAR = ToolSpec("clear", "Deletes all.", {"type": "object", "properties": {}})
FORMS = {
    "classic": 'Action: pay\nAction Input: {"to": "ann"}',
    "json": '{"action": "pay", "action_input": {"to": "ann"}}',
    "json-named": '{"name": "pay", "arguments": {"to": "ann"}}',
    "json-doubled": '{{"name": "pay", "arguments": {{"to": "ann"}}}}',
    "json-fenced": '```json\n{"action": "pay", "action_input": {"to": "ann"}}\n```',
    "hermes": '<tool_call>\n{"name": "pay", "arguments": {"to": "ann"}}\n</tool_call>',
    "glm": "<tool_call>pay\n<arg_key>to</arg_key>\n<arg_value>ann</arg_value>\n</tool_call>",
    "qwen-coder": "<function=pay>\n<parameter=to>\nann\n</parameter>\n</function>",
    "anthropic": '<function_calls>\n<invoke name="pay">\n<parameter name="to">ann</parameter>\n</invoke>\n</function_calls>',
    "mistral-function": "[TOOL_CALLS]<function=pay><parameter=to>ann</parameter></function>",
    "mistral": '[TOOL_CALLS][{"name": "pay", "arguments": {"to": "ann"}}]',
    "llama": '<|python_tag|>{"name": "pay", "parameters": {"to": "ann"}}',
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.pay:0<|tool_call_argument_begin|>"
        '{"to": "ann"}<|tool_call_end|><|tool_calls_section_end|>'
    ),
    "deepseek": (
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
        '<\uff5ctool\u2581sep\uff5c>pay\n```json\n{"to": "ann"}\n```<\uff5ctool\u2581call\u2581end\uff5c>'
        "<\uff5ctool\u2581calls\u2581end\uff5c>"
    ),
    "harmony": '<|channel|>commentary to=functions.pay <|constrain|>json<|message|>{"to": "ann"}<|call|>',
}
SOUND = [
    "{}",
    "{}\n\n",
    *("{}<|im_end|>", "{}</s>", "{}<end_of_turn>\n<eos>", "{}<\uff5cend\u2581of\u2581sentence\uff5c>"),
    "{}\nObservation",
    "{}\nObservation: paid\nFinal Answer: It is paid.",
    "Thought: I pay ann.\n{}",
    "<think>hm</think>\n{}",
]
REFUSED = [
    *(
        "{}\nShall I go ahead?",
        "{} (dry run)",
        "{}\nJeszcze nie.",
        "{}\nThought: done",
        "{}\n\n.",
        "{} or not",
    ),
    *("{}\nFinal Answer: It is paid.", "{}\n```\nx\n```", "{}\nassistant: go", "{}\nQuestion: next?"),
    '{}\nAction: look\nAction Input: {{"to": "bob"}}',
    'Action: look\nAction Input: {{"to": "bob"}}\n{}',
    "Either\n{}\nor\n{}",
    *("<think>{}</think>", "<think>\n{}", "[THINK]{}[/THINK]", "<|channel|>analysis<|message|>{}<|end|>"),
    *('"{}"', "'{}'", "\u201c{}\u201d", "\u00ab{}\u00bb", "\u300c{}\u300d", "| {} |"),
    *("<!-- {} -->", "<document>\n{}\n</document>", "<quote>{}</quote>", "<blockquote>\n{}\n</blockquote>"),
    *("Observation: {}", "<tool_response>{}", "<tool_response>\n{}\n</tool_response>"),
    *("The page says:\n{}", "Thought: for example\n```text\n{}\n```\nbut not now."),
    *("The answer is in {} as you see.", "Final Answer: 4\n{}", "Final Answer: The page has\n{}"),
]


def around(text: str, form: str) -> str:
    return (
        text.replace("{{", "\0").replace("}}", "\1").replace("{}", form).replace("\0", "{").replace("\1", "}")
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_ends_the_reply_is_made(form: str) -> None:
    for text in SOUND:
        parsed = parse(around(text, FORMS[form]), tools=[PAY])
        assert [(call.name, call.args) for call in parsed.calls] == [("pay", {"to": "ann"})], text


@pytest.mark.parametrize("form", FORMS)
def test_a_call_with_anything_behind_or_around_it_is_not_made(form: str) -> None:
    made = [text for text in REFUSED if parse(around(text, FORMS[form]), tools=[PAY]).kind == "action"]
    assert made == []


@pytest.mark.parametrize("text", ['{"action": "clear"}', "Action: clear"])
def test_a_tool_that_takes_nothing_needs_no_input_and_the_end_of_the_reply_all_the_same(text: str) -> None:
    assert parse(text, tools=[CLEAR]).calls[0].args == {}
    assert parse(f"{text}\nbut only if you agree", tools=[CLEAR]).kind == "malformed"


@pytest.mark.parametrize(
    "token", ["</s>", "<|eot_id|>", "<end_of_turn>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
)
def test_an_end_token_is_part_of_no_argument_and_no_answer(token: str) -> None:
    assert parse(f"Action: pay\nAction Input: ann{token}", tools=[PAY]).args == {"to": "ann"}
    assert parse(f"> pay ann{token}", dialect="alfworld", tools=[PAY]).args == {"to": "ann"}
    assert parse(f"Final Answer: 42{token}").answer == "42"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("<tool_call>[1]</tool_call>", "the action is not a JSON object", id="no-object"),
        pytest.param('[TOOL_CALLS][1, {"name": "pay"}]', "not a JSON object", id="one-of-several"),
        pytest.param(
            '<tool_call>{"function": {"name": "pay", "arguments": {}}, "sure": 1}</tool_call>',
            "more keys than a call has",
            id="keys-around",
        ),
        pytest.param(
            '<tool_call>{"name": "pay", "arguments": {}, "sure": 1}</tool_call>',
            "key 'sure'",
            id="keys-within",
        ),
        pytest.param(
            '<tool_call>{"name": " ", "arguments": {}}</tool_call>', 'under "action"', id="blank-name"
        ),
        pytest.param(
            '<tool_call>{"name": "none", "arguments": {}}</tool_call>', "does not name a tool", id="none"
        ),
        pytest.param(
            '<tool_call>{"name": "pay", "args": {}, "input": {}}</tool_call>',
            "two inputs, 'args' and",
            id="two-inputs",
        ),
        pytest.param('<tool_call>{"name": "pay"}</tool_call>', "the JSON action has no input", id="no-input"),
        pytest.param(
            '<tool_call>{"name": "pay", "arguments": "{1}"}</tool_call>',
            "arguments of 'pay' are not JSON",
            id="no-json",
        ),
        pytest.param(
            '<tool_call>{"name": "pay", "arguments": {}} now</tool_call>',
            "more in the call than one",
            id="more-in-it",
        ),
        pytest.param(
            '<tool_call><function=pay>{"to": "a"} now</function></tool_call>',
            "more in the call",
            id="more-in-both",
        ),
        pytest.param("[TOOL_CALLS]a<b[ARGS]{}", "begun and not finished", id="no-name"),
        pytest.param(f"[TOOL_CALLS]{'a' * 65}[ARGS]{{}}", "begun and not finished", id="a-long-name"),
        pytest.param("[TOOL_CALLS]pay[ARGS][1]", "input of 'pay' is not one JSON object", id="an-array"),
        pytest.param(
            "[TOOL_CALLS]pay[ARGS]{'to'}", "input of 'pay' cannot be read", id="no-json-behind-a-name"
        ),
        pytest.param("<function=pay>to ann</function>", "input of 'pay' is not one JSON object", id="a-text"),
        pytest.param(
            "<function=pay><parameter=to>a</parameter><parameter=to>b</parameter></function>",
            "gives 'to' twice",
            id="a-parameter-twice",
        ),
        pytest.param("<function=pay><parameter=to>a", "parameter of 'pay' does not end", id="no-end"),
        pytest.param("<think>so</think>\n>", "neither an Action", id="no-call"),
    ],
)
def test_why_a_call_is_none(text: str, why: str) -> None:
    parsed = parse(text, tools=[PAY])
    assert parsed.kind == "malformed"
    assert why in parsed.reason


@pytest.mark.parametrize(
    ("text", "args"),
    [
        pytest.param('<tool_call>{"function": "pay", "arguments": {"to": "a"}}</tool_call>', {"to": "a"}, id="by-function"),
        pytest.param(f"[TOOL_CALLS]{'a' * 64}[ARGS]{{}}", {}, id="the-longest-name"),
        pytest.param(
            "<function=pay><parameter=to>\n<parameter=x>1\n</parameter></function>", {"to": "<parameter=x>1"}, id="a-tag"
        ),
        pytest.param("<invoke name=\"pay\"><parameter name=\"to\">a</parameter></invoke>", {"to": "a"}, id="alone"),
    ],
)  # fmt: skip
def test_odd_calls_that_are_calls(text: str, args: dict[str, str]) -> None:
    assert parse(text, tools=[PAY]).args == args


@pytest.mark.parametrize("text", [">", ">  \n"])
def test_a_command_needs_a_verb(text: str) -> None:
    assert parse(text, dialect="alfworld").reason == "the command is empty"
