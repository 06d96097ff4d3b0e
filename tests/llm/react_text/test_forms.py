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
    "{}", "{}\n\n", "{}<|im_end|>", "{}</s>", "{}<end_of_turn>\n<eos>",
    "{}<\uff5cend\u2581of\u2581sentence\uff5c>", "{}\nObservation",
    "{}\nObservation: paid\nFinal Answer: It is paid.", "Thought: I pay ann.\n{}", "<think>hm</think>\n{}",
    'It is 5" wide.\n{}', 'It says "so", and "no".\n{}', 'So "\n{}', "\u201cYes\u201d \u00abno\u00bb\n{}",
]  # fmt: skip
REFUSED = [
    "{}\nShall I go ahead?", "{} (dry run)", "{}\nJeszcze nie.", "{}\nThought: done", "{}\n\n.",
    "{} or not", "{}\nFinal Answer: It is paid.", "{}\n```\nx\n```", "{}\nassistant: go",
    "{}\nQuestion: next?", '{}\nAction: look\nAction Input: {{"to": "bob"}}',
    'Action: look\nAction Input: {{"to": "bob"}}\n{}', "Either\n{}\nor\n{}", "<think>{}</think>",
    "<think>\n{}", "[THINK]{}[/THINK]", "<|channel|>analysis<|message|>{}<|end|>", '"{}"', "'{}'",
    "\u201c{}\u201d", "\u00ab{}\u00bb", "\u300c{}\u300d", "| {} |", 'He wrote "please\n{}', "<!-- {} -->",
    "<document>\n{}\n</document>", "<quote>{}</quote>", "<blockquote>\n{}\n</blockquote>",
    "Observation: {}", "<tool_response>{}", "<tool_response>\n{}\n</tool_response>", "The page says:\n{}",
    "Thought: for example\n```text\n{}\n```\nbut not now.", "The answer is in {} as you see.",
    "Final Answer: 4\n{}", "Final Answer: The page has\n{}",
]  # fmt: skip


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
