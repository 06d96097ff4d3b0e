"""Bullets: the entries of a playbook, each a piece of advice with its evidence, its origin and its tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import Any, ClassVar, Self, TypeAlias, cast

from typing_extensions import override

from wesichain.core import Strategy, ToolSpec
from wesichain.core.internal import Value, dump_json, field, force_setattr, is_array, is_object
from wesichain.errors import CodecError

from .evidence import EvidenceTally
from .stages import OLD_RULINGS, RULINGS, SECTIONS, STAGES, VISIBLE, Ruling, Section, Stage
from .wording import LESSONS, Lesson, mask, prompt_text

_ROUNDING = 0.01  # the largest difference between a given rate and that of the counts
DATA_MODEL = "1.3.0"  # major: fields changed; minor: optional fields added or no longer written


class Provenance(Value, omit_defaults=True):
    """Where a bullet comes from.

    `author` says who worded it: "operator" (a person, or the application's code), "reflector" (made from
    the names of tools) or "model" (a model, checked by the guard). The words of a task or of a tool's output
    are never shown to another run.
    """

    author: str = "operator"
    task: str = ""
    reflection: str = ""
    model: str = ""


class _BulletDetails(Strategy, kw_only=True, omit_defaults=True):
    """The keyword-only fields of a bullet."""

    # the text that is shown
    text: str = field(default="", init=False)
    section: Section = "Strategies"
    tool_sequence: tuple[str, ...] = ()
    helpful_count: int = 0
    harmful_count: int = 0
    tags: tuple[str, ...] = ()
    stage: Stage = "shadow"
    ruling: Ruling = "none"
    created_at: float = 0.0
    last_updated: float = 0.0
    example_task: str = ""
    lesson: Lesson = ""
    parameter: str = ""
    sources: tuple[str, ...] = ()
    # NAME=HASH of each tool's schema
    fingerprints: tuple[str, ...] = ()
    # +HASH or -HASH of a word that its tasks must, or must not, contain
    condition: str = ""
    # runs that followed it, in the format of `conditions`
    cases: tuple[str, ...] = ()
    tally: EvidenceTally = EvidenceTally()
    provenance: Provenance = Provenance()


class PlaybookBullet(_BulletDetails):
    """One piece of advice. `content` never changes once it is recorded; the counters only grow.

    The default id is a hash of the content, the tools and the example. The playbook sets `stage`, from the
    evidence and the `ruling` of an owner or operator. `text` is shown to runs; `example_task` is only used to
    find the bullet. `lesson` is the kind of rule that a model worded, `parameter` the parameter that it is
    about, and `sources` are hashes of the runs that taught it.
    """

    __always__: ClassVar[tuple[str, ...]] = ("id", "content")
    __unwritten__: ClassVar[tuple[str, ...]] = ("text",)
    __aside__: ClassVar[tuple[str, ...]] = ("text",)

    id: str = ""
    content: str = ""

    def __post_init__(self) -> None:
        if not has_text(self.content):
            raise ValueError("a bullet needs content: say in one sentence what to do, and when")
        for name in ("id", "example_task", "parameter", "condition"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a text; got {getattr(self, name)!r}")  # noqa: TRY004  # as every other
        force_setattr(self, "section", _SPELLINGS.get(str(self.section).casefold(), self.section))
        _one_of("section", self.section, SECTIONS)
        _one_of("stage", self.stage, STAGES)
        _one_of("ruling", self.ruling, RULINGS)
        _one_of("lesson", self.lesson, LESSONS)
        for name in ("helpful_count", "harmful_count"):
            if not is_count(getattr(self, name)):
                raise ValueError(f"{name} is a count, 0 or more; got {getattr(self, name)!r}")
        for name in ("created_at", "last_updated"):
            if not is_number(getattr(self, name)):
                raise ValueError(f"{name} is a time in seconds since the epoch; got {getattr(self, name)!r}")
        for name in ("tags", "tool_sequence", "fingerprints", "cases", "sources"):
            force_setattr(self, name, _names(name, getattr(self, name)))
        text = prompt_text(
            self.content,
            section=self.section,
            tools=self.tool_sequence,
            author=self.provenance.author,
            lesson=self.lesson,
        )
        force_setattr(self, "text", text)
        force_setattr(self, "id", self.id or self._content_id())

    def _content_id(self) -> str:
        about = [self.section, self.content, list(self.tool_sequence)]
        found = [part for part in (mask(self.example_task), self.condition) if part]
        parts = dump_json([*about, *found])
        return sha256(parts.encode()).hexdigest()[:16]

    @property
    def success_rate(self) -> float:
        """The share of runs that followed the sequence and succeeded; 0 without any run."""
        return _rate(self)

    @property
    def is_visible(self) -> bool:
        return self.stage in VISIBLE

    @property
    def is_owned(self) -> bool:
        """Whether it is an owner's sentence, which stays visible whatever its counts."""
        return self.ruling == "owner"

    @property
    def has_tool_sequence(self) -> bool:
        return bool(self.tool_sequence)

    @property
    def tool_count(self) -> int:
        return len(self.tool_sequence)

    @property
    def intent(self) -> str:
        """The masked text that similarity is computed from: the example task, else the content."""
        return mask(self.example_task or self.content)

    @property
    def words(self) -> tuple[str, ...]:
        """Every stored text of the bullet, except the names of tools."""
        origin = self.provenance
        return self.id, self.content, self.example_task, *self.tags, origin.task, origin.reflection

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read a bullet from JSON data; one with a tool sequence is a `ToolCallingStrategy`.

        Missing fields take their defaults, so that bullets of older versions can be read. Unknown fields come
        from a later minor version and are ignored.
        """
        kind = ToolCallingStrategy if plain.get("tool_sequence") else PlaybookBullet
        values = _known(kind, plain)
        counts = (values.get("helpful_count", 0), values.get("harmful_count", 0))
        if contradicts(values.get("tool_success_rate"), *counts):
            del values["tool_success_rate"]  # versions before 1.2 did not update the rate
        if "ruling" in values:
            values["ruling"] = OLD_RULINGS.get(str(values["ruling"]), values["ruling"])
        if "provenance" in values:
            values["provenance"] = Provenance(
                **_known(Provenance, values["provenance"], lambda value: isinstance(value, str))
            )
        if "tally" in values:
            values["tally"] = EvidenceTally(**_known(EvidenceTally, values["tally"], is_number))
        try:
            return cast("Self", kind(**values))
        except (TypeError, ValueError) as error:
            raise CodecError(f"a bullet that cannot be read: {error}") from None


class ToolCallingStrategy(PlaybookBullet, kw_only=True):
    """A bullet about a sequence of tools.

    `tool_success_rate` and `avg_iterations` are means over the runs that followed the sequence.
    """

    tool_success_rate: float | None = None
    avg_iterations: float = 0.0

    @override
    def __post_init__(self) -> None:
        PlaybookBullet.__post_init__(self)
        if not self.tool_sequence:
            raise ValueError("a ToolCallingStrategy needs a tool_sequence of at least one tool")
        rate = self.tool_success_rate
        if rate is not None and not (is_number(rate) and 0 <= rate <= 1):
            raise ValueError(f"tool_success_rate is between 0 and 1; got {rate!r}")
        if contradicts(rate, self.helpful_count, self.harmful_count):
            raise ValueError(
                f"tool_success_rate is {rate!r}, and {self.helpful_count} successes with "
                f"{self.harmful_count} failures are {_rate(self):.3f}: give the rate of the counts, or none"
            )
        if not (is_number(self.avg_iterations) and self.avg_iterations >= 0):
            raise ValueError(f"avg_iterations is 0 or more; got {self.avg_iterations!r}")

    @property
    @override
    def success_rate(self) -> float:
        """`tool_success_rate` if it is given, else the rate of the counters."""
        return _rate(self) if self.tool_success_rate is None else self.tool_success_rate


def bullet_about(tools: Sequence[str], content: str, **fields: Any) -> PlaybookBullet:
    """Make a bullet with these fields: a `ToolCallingStrategy` if there are tools."""
    kind = ToolCallingStrategy if tools else PlaybookBullet
    return kind(content=content, tool_sequence=tuple(tools), **fields)


def is_learned_warning(bullet: PlaybookBullet) -> bool:
    """Whether it is a learned warning. These are not shown: they did not improve runs."""
    return bullet.section == "Pitfalls" and bullet.provenance.author != "operator"


def contradicts(rate: object, helpful: object, harmful: object) -> bool:
    """Whether a success rate differs from that of the counts; False without counts."""
    if not (is_number(rate) and is_count(helpful) and is_count(harmful)):
        return False
    good, seen = cast("int", helpful), cast("int", helpful) + cast("int", harmful)
    return seen > 0 and abs(cast("float", rate) - good / seen) > _ROUNDING


def has_text(text: object) -> bool:
    """Whether it is a text that is not blank."""
    return isinstance(text, str) and bool(text.strip())


def collapse(sequence: Sequence[str]) -> tuple[str, ...]:
    """A sequence of tools without immediate repeats."""
    return tuple(tool for place, tool in enumerate(sequence) if place == 0 or sequence[place - 1] != tool)


def is_followed(sequence: Sequence[str], calls: Sequence[str]) -> bool:
    """Whether the calls contain the sequence in order; False for an empty sequence."""
    rest = iter(calls)
    return bool(sequence) and all(tool in rest for tool in collapse(sequence))


def _rate(bullet: PlaybookBullet) -> float:
    seen = bullet.helpful_count + bullet.harmful_count
    return bullet.helpful_count / seen if seen else 0.0


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}; got {value!r}")


def _names(name: str, value: object) -> tuple[str, ...]:
    items: Sequence[object] = cast("Sequence[object]", value) if isinstance(value, tuple | list) else ("",)
    if not all(isinstance(item, str) and item for item in items):
        raise ValueError(f"{name} is a sequence of names; got {value!r}")
    return cast("tuple[str, ...]", tuple(items))


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _known(
    kind: type[Any], plain: object, is_valid: Callable[[object], bool] = lambda _: True
) -> dict[str, Any]:
    """The fields of a stored value that this version knows."""
    if not is_object(plain):
        raise CodecError(f"a bullet that cannot be read: {plain!r} is not an object")
    known = {name: plain[name] for name in _FIELDS[kind] if name in plain}
    for name, value in known.items():
        if not is_valid(value):
            raise CodecError(f"a bullet that cannot be read: {name} is {value!r}")
    return known


_SPELLINGS = {section.casefold(): section for section in SECTIONS} | {
    "strategy": "Strategies",
    "pitfall": "Pitfalls",
    "observation": "Observations",
}
_FIELDS = {
    kind: tuple(item.name for item in fields(kind) if item.name not in kind.__unwritten__)
    for kind in (PlaybookBullet, ToolCallingStrategy, Provenance, EvidenceTally)
}


Fingerprints: TypeAlias = Mapping[str, str]  # by the tool's name


def fingerprint_of(tool: ToolSpec) -> str:
    """A hash of a tool's name and parameter schema."""
    return sha256(dump_json([tool.name, _sorted(tool.parameters)]).encode()).hexdigest()[:12]


def fingerprints_of(tools: Sequence[ToolSpec]) -> dict[str, str]:
    return {tool.name: fingerprint_of(tool) for tool in tools}


def changed_tools(bullet: PlaybookBullet, tools: Fingerprints) -> list[str]:
    """The tools of the bullet whose schema has changed since it was learned."""
    known = {mark.rpartition("=")[0]: mark.rpartition("=")[2] for mark in bullet.fingerprints}
    return [name for name, mark in known.items() if name in tools and tools[name] != mark]


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if is_array(value) else value
