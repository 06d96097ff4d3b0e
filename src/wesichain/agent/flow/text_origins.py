"""Text origins: what a run has read so far, and from whom: a fold over its messages and steps.

Nothing of it is stored. A run that is resumed, replayed or durable has the same messages and steps, and so
the same origins. Each step is read once: the cost of a step is linear in the text that it adds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wesichain.agent.phases import AnyPhase
from wesichain.agent.trail import Observed, TrailItem
from wesichain.core import Action, JsonValue, LlmResponse, Message, Observation, Role, Thought, ToolCall
from wesichain.core.internal import Value, is_array, is_object, parse_json, text_of
from wesichain.errors import CodecError
from wesichain.tools import Outside, Secret

from .flow import READ_SEALED, Flow
from .labelled_tools import LabelledTools, ResultLabels
from .words import Segment, Words, as_text, is_short, loose_tokens, plain_text, value_tokens

_HANDLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_.-]*_\d+")
_PERSON = "a person's words"


class SealedText(Value):
    """An outside text that the model knows by its handle only. `is_field`: it is one field of a result."""

    value: JsonValue
    tool: str
    is_field: bool


def handles_in(value: Any, sealed: Mapping[str, SealedText]) -> Iterator[str]:
    """The handles in a value."""
    if isinstance(value, str) and "$" in value:
        yield from (found for found in _HANDLE.findall(value) if found in sealed)


def filled(value: Any, sealed: Mapping[str, SealedText]) -> Any:
    """A value with the sealed texts in place of their handles."""
    if is_object(value):
        return {name: filled(item, sealed) for name, item in value.items()}
    if is_array(value):
        return [filled(item, sealed) for item in value]
    found = [*handles_in(value, sealed)]
    if not found:
        return value
    return _HANDLE.sub(lambda one: text_of(sealed[one[0]].value) if one[0] in sealed else one[0], value)


class TextOrigins:
    """The texts of one run: of people, of trusted results, and of strangers. `above`: of the run above it."""

    _agent: str
    has_seen: bool  # whether a model has seen outside text
    _order: int

    def __init__(self, flow: Flow, tools: LabelledTools, above: TextOrigins | None = None) -> None:
        self.flow = flow
        self._tools = tools
        self.above = above
        self._start()

    def _start(self) -> None:
        above = self.above
        self.people, self.results, self.outside = Words(), Words(), Words(loose_tokens)
        self.has_seen = above is not None and above.has_seen
        self.secrets: list[str] = [] if above is None else [*above.secrets]
        self.sealed: dict[str, SealedText] = {} if above is None else {**above.sealed}
        self._order = 0 if above is None else above._order
        self._calls: dict[str, tuple[ToolCall, bool]] = {}  # with whether its arguments were trusted
        self._done = -1  # the number of items that were read
        self._agent = ""

    # --- reading the run -----------------------------------------------------------------------------

    def read(self, phase: AnyPhase) -> None:
        """Read what the run has added since the last time. After a handoff, all is read again."""
        trail, info = phase.trail, phase.info
        if self._done >= 0 and info.agent != self._agent:
            self._start()
        if self._done < 0:
            self._agent, self._done = info.agent, 0
            self._read_history(trail.messages[: info.first_new + 1], info.first_new)
        if self._done < trail.item_count:
            for item in trail.log.items[self._done : trail.item_count]:
                self._read_item(item)
            self._done = trail.item_count

    def _read_history(self, messages: Sequence[Message], task_at: int) -> None:
        """Read the instructions, the messages before the task, and the task.

        The answers of earlier runs may repeat outside text, which their tools read. The task of a run below
        is written by the model of the run above.
        """
        for place, message in enumerate(messages):
            match message.role:
                case Role.SYSTEM:
                    self.people.add([message.text], self._segment("the instructions", [message.text]))
                case Role.USER:
                    if self.above is None or place != task_at or not self.has_seen:
                        self.people.add([message.text], self._segment(_PERSON, [message.text]))
                case Role.ASSISTANT:
                    if self._tools.read_outside:
                        self._add_outside("an earlier answer", [message.text])
                    self._note(message.tool_calls)
                case Role.TOOL:
                    self._read_result(message.tool_call_id or "", _parsed(message.text), was_shown=True)

    def _read_item(self, item: TrailItem) -> None:
        match item:
            case LlmResponse(content=text, tool_calls=calls, reasoning=reasoning):
                self._read_words(text or reasoning)
                self._note(calls)
            case Thought(text=text):
                self._read_words(text)
            case Action(call=call):
                self._note((call,))
            case (
                Observed(call_id=str() as call_id, value=value)
                | Observation(call_id=str() as call_id, value=value)
            ):
                self._read_result(call_id, value)
            case _:
                pass

    def _read_words(self, text: str) -> None:
        """Read words of the model. Before it has seen outside text, they follow from trusted text alone."""
        if text and not self.has_seen:
            self.people.add([text], self._segment("the model, before outside text", [text]))

    def _note(self, calls: Sequence[ToolCall]) -> None:
        """Keep the calls of a reply, with whether their arguments can be trusted. A handle is sealed text."""
        for call in calls:
            values = [*scalars(call.args)]
            is_trusted = not any(True for one in values for _ in handles_in(one, self.sealed))
            if self.has_seen:  # a flag holds no text
                texts = (one for one in values if not isinstance(one, bool))
                is_trusted = is_trusted and all(map(self.is_trusted, texts))
            elif is_trusted:
                self.people.add([*map(as_text, values)], self._segment("the model, before outside text"))
            self._calls[call.id] = call, is_trusted

    def _read_result(self, call_id: str, value: JsonValue, *, was_shown: bool = False) -> None:
        call, is_trusted = self._calls.get(call_id, (ToolCall(call_id, "", {}), False))
        labels = self.labels(call, is_trusted, value)
        if self.flow.seal and call.name != READ_SEALED and not was_shown:
            value, handles = self.seal(call.name, labels, value, len(self.sealed))
            self.sealed |= handles
            labels = ResultLabels(outside=False)
            if handles and isinstance(value, str):
                return  # all of it is sealed
        inside: list[str] = []
        outside: list[str] = []
        for part, found in labels.fields.parts(value):
            text = as_text(part)
            if Secret in found:
                self.secrets.append(text)
            (outside if labels.outside or Outside in found else inside).append(text)
        source = f"the result of {call.name} (call {call.id})"
        if inside:
            self.results.add(inside, self._segment(source, inside))
        if outside:
            self._add_outside(source, outside)

    def labels_of(self, call: ToolCall) -> ResultLabels:
        """The labels of the result of a call of the last reply."""
        return self.labels(*self._calls.get(call.id, (call, False)))

    def labels(self, call: ToolCall, is_trusted: bool, value: JsonValue = None) -> ResultLabels:
        """The labels of the result of a call: it is trusted only where its arguments were."""
        labels = self._tools.labels(call.name)
        if call.name == READ_SEALED:
            return ResultLabels(outside=not self._is_choice(call, value))
        return labels if is_trusted else ResultLabels(True, labels.fields)

    def _is_choice(self, call: ToolCall, answer: JsonValue) -> bool:
        """Whether an answer about sealed text could only be one of few, or is all that is in one field."""
        args: Any = call.args if isinstance(call.args, dict) else {}
        kind, held = args.get("as_type"), self.sealed.get(str(args.get("handle")))
        if kind == "bool" or isinstance(kind, list):
            return True
        return held is not None and held.is_field and _signs(held.value) == _signs(answer)

    def seal(
        self, tool: str, labels: ResultLabels, value: JsonValue, count: int
    ) -> tuple[JsonValue, dict[str, SealedText]]:
        """A result with handles in place of outside text, and the texts. `count`: the handles before it."""
        handles: dict[str, SealedText] = {}

        def hide(given: Any, *, is_field: bool) -> str:
            handle = f"${tool}_{count + len(handles) + 1}"
            handles[handle] = SealedText(given, tool, is_field)
            return f"{handle} (sealed text, {len(text_of(given))} characters)"

        def walk(given: Any, fields: Any) -> Any:
            if Outside in fields.own:
                return hide(given, is_field=not isinstance(given, dict | list)) if _has_text(given) else given
            if is_object(given):
                return {name: walk(item, fields.at(name)) for name, item in given.items()}
            return [walk(item, fields.at("*")) for item in given] if is_array(given) else given

        if labels.outside:
            return (hide(value, is_field=False) if _has_text(value) else value), handles
        return (walk(value, labels.fields) if labels.fields.has(Outside) else value), handles

    def _add_outside(self, source: str, texts: Sequence[str]) -> None:
        found = self.outside.add([*map(plain_text, texts)], self._segment(source, texts))
        self.has_seen = self.has_seen or found

    def _segment(self, source: str, texts: Sequence[str] = ()) -> Segment:
        self._order += 1
        return Segment(self._order, source, texts)

    # --- asking about a value ------------------------------------------------------------------------

    def line(self) -> Iterator[TextOrigins]:
        """This run, and those above it."""
        one: TextOrigins | None = self
        while one is not None:
            yield one
            one = one.above

    def is_trusted(self, value: Any) -> bool:
        """Whether a value stands, as a whole token, in a person's words or in a trusted result.

        A short value that also stands in outside text does not count, nor does a result with a value that was
        seen in outside text before it.
        """
        tokens = value_tokens(value)
        if not tokens:
            return as_text(value).strip() == ""
        short = is_short(tokens)
        if not short and any(one.people.first(tokens) for one in self.line()):
            return True
        seen = self.source(value)
        if short and (seen is not None or any(one.people.first(tokens) for one in self.line())):
            return seen is None
        found = (one.results.first(tokens) for one in self.line())
        return any(one is not None and (seen is None or one.order < seen.order) for one in found)

    def source(self, value: Any) -> Segment | None:
        """The first outside text that contains a value, in any form that reads like it."""
        phrase = loose_tokens(as_text(value))
        found = [one for run in self.line() if (one := run.outside.first(phrase)) is not None]
        return min(found, key=lambda one: one.order, default=None)

    def quoted(self, phrases: Sequence[Sequence[str]]) -> Segment | None:
        """An outside text that contains all phrases."""
        first, *rest = phrases
        for run in self.line():
            for segment in run.outside.find(first):
                if all(segment in run.outside.find(phrase) for phrase in rest):
                    return segment
        return None


def scalars(value: Any) -> Iterator[Any]:
    """The texts, numbers and flags in a value, also the keys of its objects, below the first level."""
    if is_object(value):
        for item in value.values():
            yield from _items(item)
    else:
        yield from _items(value)


def _items(value: Any) -> Iterator[Any]:
    if is_object(value):
        for name, item in value.items():
            yield name
            yield from _items(item)
    elif is_array(value):
        for item in value:
            yield from _items(item)
    elif value is not None:
        yield value


def _signs(value: Any) -> str:
    """The letters and digits of a value: a date is the same with a blank and with a T."""
    return "".join(one for one in as_text(value).lower() if one.isalnum() and one != "t")


def _has_text(value: Any) -> bool:
    return value not in (None, "", [], {})


def _parsed(text: str) -> JsonValue:
    """A result as it stands in a message: JSON, or text."""
    if text[:1] in ("{", "["):
        try:
            parsed: JsonValue = parse_json(text)
        except CodecError:
            return text
        return parsed
    return text
