"""The prompt: tools, format, question and scratchpad, in a template whose holes are checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, assert_never

from wesichain.core import (
    Action,
    ErrorStep,
    FinalAnswer,
    Message,
    Observation,
    PromptTemplate,
    ReActStep,
    Role,
    Thought,
    ToolSpec,
)
from wesichain.core.internal import Value
from wesichain.errors import ConfigError
from wesichain.llm.calls import spaced_json

from .dialects import Dialect, find_dialect
from .signature import describe, describe_schema
from .structure import quote
from .text_transcript import TextQuestion, TranscriptStep, steps_of

_HEAD = """\
{instructions}Answer the question as well as you can. You can use these tools:

{tools}

Use exactly this format:

Question: the question that you must answer
"""
_TAIL = """

Begin!

{history}Question: {question}
{scratchpad}"""
_NEEDED = ("tools", "tool_names", "question", "scratchpad")
_ALLOWED = (*_NEEDED, "instructions", "history", "answer")
_CUE = "Thought:"


def render_prompt(
    tools: Sequence[ToolSpec],
    question: str,
    steps: Iterable[ReActStep],
    history: Sequence[Message] = (),
    *,
    template: PromptTemplate | None = None,
    dialect: str | Dialect = "react",
) -> str:
    """The prompt for the next step of a run; it ends where the model continues.

    A line of the question, the history or an observation that could pass for one of the format's
    (`Final Answer: ...`) is marked with a bar, so that only the model can say such a thing.
    """
    prompt = Prompt.of(template, dialect=dialect)
    return prompt.render(tools, question, scratchpad=prompt.scratchpad(steps), history=history)


class Prompt(Value):
    """A template and the dialect that it teaches.

    The template has the holes tools, tool_names, question and scratchpad. It may have instructions,
    history and answer (what the answer must be); what it has no hole for is put above it.
    """

    template: PromptTemplate
    dialect: Dialect

    @classmethod
    def of(cls, template: PromptTemplate | str | None, *, dialect: str | Dialect) -> Prompt:
        dialect = find_dialect(dialect)
        if not dialect.form:
            raise ConfigError(f"the dialect {dialect.name!r} can be read but not asked for")
        if template is None:
            template = _HEAD + dialect.form + _TAIL
        return cls(template if isinstance(template, PromptTemplate) else PromptTemplate(template), dialect)

    def __post_init__(self) -> None:
        holes = self.template.variables
        if missing := [name for name in _NEEDED if name not in holes]:
            raise ConfigError(f"the template lacks {', '.join(f'{{{name}}}' for name in missing)}")
        if unknown := [name for name in holes if name not in _ALLOWED]:
            raise ConfigError(
                f"the template has holes that nothing fills: {', '.join(unknown)}; "
                f"there are {', '.join(_ALLOWED)}"
            )

    def render(
        self,
        tools: Sequence[ToolSpec],
        question: str,
        *,
        scratchpad: str,
        history: Sequence[Message] = (),
        instructions: str = "",
        output_schema: Mapping[str, Any] | None = None,
    ) -> str:
        answer = "the final answer to the question"
        if output_schema is not None:
            answer = f"the final answer as JSON of this form: {describe_schema(output_schema)}"
        earlier = "\n".join(line for _, line in self.lines(steps_of(history)))
        values = {
            "tools": "\n".join(map(describe, tools)) or "(there are none: give the final answer)",
            "tool_names": ", ".join(tool.name for tool in tools),
            "question": quote(question),
            "scratchpad": scratchpad,
            "instructions": f"{instructions}\n\n" if instructions else "",
            "history": f"{earlier}\n\n" if earlier else "",
            "answer": answer,
        }
        holes = self.template.variables
        above = [values[name] for name in ("instructions", "history") if name not in holes]
        if output_schema is not None and "answer" not in holes:
            above.append(f"Give {answer}\n\n")
        return "".join(above) + self.template.render(**{name: values[name] for name in holes})

    def scratchpad(self, steps: Iterable[TranscriptStep]) -> str:
        """The steps as text, with the word at which the model goes on."""
        return "\n".join([*(line for _, line in self.lines(steps)), _CUE])

    def turns(self, steps: Iterable[TranscriptStep]) -> Iterator[Message]:
        """The steps as turns of a chat: what the model said, and what it was told."""
        for role, said in groupby(self.lines(steps), itemgetter(0)):
            yield Message(role, "\n".join(line for _, line in said))

    def lines(self, steps: Iterable[TranscriptStep]) -> Iterator[tuple[Role, str]]:
        """Each step as the model would have written it, or as it is told to the model."""
        thinking = False
        for step in steps:
            match step:
                case TextQuestion(text=text):
                    yield Role.USER, f"Question: {quote(text)}"
                case Thought(text=text):
                    yield (
                        Role.ASSISTANT,
                        text if text.lower().startswith("thought:") else f"{_CUE} {text}".rstrip(),
                    )
                case Action(call=call):
                    if not thinking:
                        yield Role.ASSISTANT, _CUE
                    yield Role.ASSISTANT, self.dialect.action(call.name, call.args)
                case Observation(value=value):
                    text = value if isinstance(value, str) else spaced_json(value)
                    yield Role.USER, f"Observation: {quote(text)}"
                case FinalAnswer(text=text):
                    yield Role.ASSISTANT, self.dialect.final(text)
                case ErrorStep(message=message):
                    yield Role.USER, f"Observation: {quote(message)}"
                case _:
                    assert_never(step)
            thinking = isinstance(step, Thought)
