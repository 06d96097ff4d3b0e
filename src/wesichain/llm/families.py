"""Families of models: how the template of each one marks reasoning, the end of a turn, and calls.

One row a family, made from the chat templates that the models are published with; `source` names one of them. The
row of a model is its trait `family`, or is found by the name of the model or by a text of its template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from wesichain.core.internal import LlmTraits
from wesichain.errors import ConfigError


class Family(NamedTuple):
    """One family. `opens_thinking`: the template ends the prompt with the opening mark of reasoning.

    `thinking` are the opening and closing marks, `ends` the tokens that end a reply, `controls` the beginnings of
    the tokens that text from outside must not contain, and `calls` is the form in which calls are written.
    `names` is found in the names of its models, ignoring case.
    """

    name: str
    names: str
    thinking: tuple[tuple[str, str], ...]
    ends: tuple[str, ...]
    controls: tuple[str, ...]
    calls: str
    source: str
    opens_thinking: bool = False


_THINK = (("<think>", "</think>"),)
_CHATML = ("<|im_end|>", "<|endoftext|>")
_DEEPSEEK = "<\uff5cend\u2581of\u2581sentence\uff5c>"
_DEEPSEEK_THINKS = (
    *_THINK,
    ("<\uff5cbegin\u2581of\u2581thinking\uff5c>", "<\uff5cend\u2581of\u2581thinking\uff5c>"),
    ("<|begin\u2581of\u2581thinking|>", "<|end\u2581of\u2581thinking|>"),
)
_MISTRAL = ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]")
_MISTRAL_CALLS = (
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[CALL_ID]",
    "[ARGS]",
)

# The first row whose `names` is found counts.
_ROWS = (
    Family("qwen-thinking", r"qwq|qwen3[\w.-]*thinking", _THINK, _CHATML, ("<|",), "hermes",
           "Qwen/Qwen3-30B-A3B-Thinking-2507: chat_template", opens_thinking=True),
    Family("qwen-coder", r"qwen3?[\w.-]*coder", (), _CHATML, ("<|",), "function", "Qwen/Qwen3-Coder-30B-A3B-Instruct: chat_template"),
    Family("deepseek-r1", r"deepseek[\w.-]*r1", _DEEPSEEK_THINKS, (_DEEPSEEK,), ("<\uff5c", "<|"), "deepseek",
           "deepseek-ai/DeepSeek-R1: tokenizer_config.json", opens_thinking=True),
    Family("deepseek", r"deepseek", _DEEPSEEK_THINKS, (_DEEPSEEK,), ("<\uff5c", "<|"), "deepseek", "deepseek-ai/DeepSeek-V3.1: chat_template"),
    Family("qwen", r"qwen|hermes|smollm|nemotron", _THINK, _CHATML, ("<|",), "hermes", "Qwen/Qwen3-8B: tokenizer_config.json"),
    Family("glm", r"glm", _THINK, ("<|user|>", "<|observation|>", "<|endoftext|>"), ("<|", "[gMASK]", "<sop>"), "glm",
           "zai-org/GLM-4.5: chat_template.jinja"),
    Family("kimi", r"kimi", (("\u25c1think\u25b7", "\u25c1/think\u25b7"), *_THINK), ("<|im_end|>", "[EOS]"), ("<|", "[EOS]", "[BOS]"), "kimi",
           "moonshotai/Kimi-K2-Thinking, Kimi-VL-A3B-Thinking: chat_template"),
    Family("minimax", r"minimax", _THINK, ("[e~[",), ("]~b]", "]~!b[", "[e~["), "invoke",
           "MiniMaxAI/MiniMax-M2: chat_template.jinja", opens_thinking=True),
    Family("mistral", r"mi[sx]tral|magistral|devstral|ministral|codestral", (("[THINK]", "[/THINK]"),), ("</s>",),
           (*_MISTRAL, *_MISTRAL_CALLS), "mistral", "mistralai/Magistral-Small-2509: chat_template.jinja"),
    Family("llama", r"llama", (), ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), ("<|",), "llama",
           "meta-llama/Llama-3.1-8B-Instruct: tokenizer_config.json"),
    Family("harmony", r"gpt-?oss", (), ("<|return|>", "<|call|>"), ("<|",), "harmony", "openai/gpt-oss-20b: chat_template.jinja"),
    Family("gemma-4", r"gemma-?4", (("<|channel>thought", "<channel|>"),), ("<turn|>", "<eos>"), ("<|", "<turn|>", "<channel|>", "<eos>", "<bos>"),
           "", "google/gemma-4: chat_template.jinja"),
    Family("gemma", r"gemma", (("<unused94>thought", "<unused95>"),), ("<end_of_turn>", "<eos>"),
           ("<start_of_turn>", "<end_of_turn>", "<eos>", "<bos>"), "", "google/gemma-3-4b-it, medgemma-27b-it: chat_template.json"),
    Family("cohere", r"command|aya|cohere", (("<|START_THINKING|>", "<|END_THINKING|>"),), ("<|END_OF_TURN_TOKEN|>",), ("<|",), "",
           "CohereLabs/c4ai-command-r7b-12-2024: tokenizer_config.json"),
    Family("seed", r"seed-?oss", (("<seed:think>", "</seed:think>"),), ("<seed:eos>",), ("<seed:", "</seed:"), "function",
           "ByteDance-Seed/Seed-OSS-36B-Instruct: chat_template.jinja"),
    Family("granite", r"granite", _THINK, ("<|end_of_text|>",), ("<|",), "llama", "ibm-granite/granite-3.3-8b-instruct: chat_template"),
    Family("phi", r"phi-?[34]", _THINK, ("<|end|>", "<|im_end|>", "<|endoftext|>"), ("<|",), "", "microsoft/Phi-4-reasoning: tokenizer_config.json"),
    Family("openthinker", r"openthinker", (("<|begin_of_thought|>", "<|end_of_thought|>"),), _CHATML, ("<|",), "",
           "open-thoughts/OpenThinker-7B: system prompt of the data"),
    Family("nova", r"nova", (("<thinking>", "</thinking>"),), (), (), "", "Amazon Nova: replies of Converse with tools"),
)  # fmt: skip
FAMILIES: Mapping[str, Family] = {row.name: row for row in _ROWS}
UNKNOWN = Family("", "", _THINK, (), (), "", "the most common mark")


def family_of(model: str, traits: LlmTraits | None = None) -> Family:
    """The row of a model: by its trait, or else by its name; `UNKNOWN` if there is none."""
    if traits is not None and traits.family:
        if traits.family not in FAMILIES:
            raise ConfigError(f"unknown family {traits.family!r}; use one of {', '.join(FAMILIES)}")
        return FAMILIES[traits.family]
    return next((row for row in _ROWS if re.search(row.names, model, re.IGNORECASE)), UNKNOWN)


def family_of_prompt(prompt: str) -> Family:
    """The row of the model whose template wrote this prompt, by the end tokens in it."""
    at, found = max(((prompt.rfind(end), row) for row in _ROWS for end in row.ends), key=lambda pair: pair[0])
    return found if at >= 0 else UNKNOWN


def opens_thinking(prompt: str) -> bool:
    """Whether a prompt ends with the opening mark of reasoning, of any family."""
    end = prompt.rstrip()
    opens, _ = marks_of(every_thinking())
    return any(mark.end() == len(end) for mark in opens.finditer(end, max(0, len(end) - 80)))


def without_controls(text: str, family: Family) -> str:
    """Text from outside, in which no token of the family's template begins."""
    rows: Iterable[Family] = [family] if family.controls else _ROWS
    for token in {token for row in rows for token in row.controls}:
        if token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


@cache
def every_thinking() -> tuple[tuple[str, str], ...]:
    """The marks of all families, each pair once."""
    return tuple(dict.fromkeys(pair for row in (UNKNOWN, *_ROWS) for pair in row.thinking))


def marks_of(pairs: Iterable[tuple[str, str]]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of the opening and the closing marks. Elements may have attributes, blanks and any case."""
    opens, closes = zip(*map(_pair, pairs), strict=True) if (pairs := tuple(pairs)) else ((), ())
    none = r"(?!)"
    return re.compile("|".join(opens) or none, re.IGNORECASE), re.compile(
        "|".join(closes) or none, re.IGNORECASE
    )


_GAP = r"[\s\u00ad\u180e\u200b-\u200f\u2060\ufeff]*+"
_ELEMENT = re.compile(r"<([\w:]+)>")


def _pair(marks: tuple[str, str]) -> tuple[str, str]:
    opened, closed = marks
    if (element := _ELEMENT.fullmatch(opened)) and closed.startswith("</"):
        name = re.escape(element[1])
        return rf"<{name}(?:\s[^<>/\n]{{0,60}})?+>", rf"<{_GAP}/{_GAP}{name}{_GAP}>"
    return re.escape(opened), re.escape(closed)
