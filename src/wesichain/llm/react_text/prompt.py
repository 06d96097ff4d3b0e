"""The prompt: tools, format, question and scratchpad in a template with checked placeholders."""

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
from .reader import quote
from .signature import describe, describe_schema
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
    """The prompt for the next step of a run; the model continues its end.

    A line of the question, the history or an observation that looks like a line of the format
    (`Final Answer: ...`) is prefixed with a bar, so that only the model can write such lines.
    """
    prompt = Prompt.of(template, dialect=dialect)
    return prompt.render(tools, question, scratchpad=prompt.scratchpad(steps), history=history)


class Prompt(Value):
    """A template and its dialect.

    The template has the placeholders tools, tool_names, question and scratchpad. It may have instructions,
    history and answer (the form of the answer); values without a placeholder are put above it.
    """

    template: PromptTemplate
    dialect: Dialect

    @classmethod
    def of(cls, template: PromptTemplate | str | None, *, dialect: str | Dialect) -> Prompt:
        dialect = find_dialect(dialect)
        if not dialect.form:
            raise ConfigError(f"the dialect {dialect.name!r} can be parsed, but not requested in a prompt")
        if template is None:
            template = _HEAD + dialect.form + _TAIL
        return cls(template if isinstance(template, PromptTemplate) else PromptTemplate(template), dialect)

    def __post_init__(self) -> None:
        variables = self.template.variables
        if missing := [name for name in _NEEDED if name not in variables]:
            raise ConfigError(f"the template lacks {', '.join(f'{{{name}}}' for name in missing)}")
        if unknown := [name for name in variables if name not in _ALLOWED]:
            raise ConfigError(
                f"the template has unknown placeholders: {', '.join(unknown)}; "
                f"the known ones are {', '.join(_ALLOWED)}"
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
        variables = self.template.variables
        above = [values[name] for name in ("instructions", "history") if name not in variables]
        if output_schema is not None and "answer" not in variables:
            above.append(f"Give {answer}\n\n")
        return "".join(above) + self.template.render(**{name: values[name] for name in variables})

    def scratchpad(self, steps: Iterable[TranscriptStep]) -> str:
        """The steps as text, and the word after which the model continues."""
        return "\n".join([*(line for _, line in self.lines(steps)), _CUE])

    def turns(self, steps: Iterable[TranscriptStep]) -> Iterator[Message]:
        """The steps as alternating messages of the assistant and the user."""
        for role, said in groupby(self.lines(steps), itemgetter(0)):
            yield Message(role, "\n".join(line for _, line in said))

    def lines(self, steps: Iterable[TranscriptStep]) -> Iterator[tuple[Role, str]]:
        """The text of each step, with the role that writes it."""
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
