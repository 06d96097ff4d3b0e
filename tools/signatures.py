"""Signatures of classes and functions as text: parameters, types, defaults, and their descriptions."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
from doors import public_names

# TypedDicts of keywords, and the classes that have their defaults and descriptions.
SETTINGS = {
    "LoopKeywords": "wesichain.agent:AgentOptions",
    "AgentKeywords": "wesichain.agent:AgentOptions",
    "RunKeywords": "wesichain.agent:RunOptions",
    "ConversationKeywords": "wesichain.agent:RunOptions",
    "ToolOptions": "wesichain.tools:Tool",
    "FunctionOptions": "wesichain.tools:Tool",
    "HttpSettings": "wesichain.llm.transport.model:HttpSettings",
}
UNSET = inspect.Parameter.empty
LONGEST_ALIAS = 120  # characters


@dataclasses.dataclass(frozen=True)
class Option:
    """A parameter: its name, its name in a signature, type, default, and description."""

    name: str
    shown: str
    type: str
    default: str
    about: str


def is_documented(value: object) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value)


def doc_of(value: object) -> str:
    """The docstring, unless it is inherited or generated."""
    if not is_documented(value):
        return ""
    text = inspect.cleandoc(value.__doc__ or "")
    name = getattr(value, "__name__", "")
    return "" if text.startswith(f"{name}(") else text


def paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def sentences(text: str) -> list[str]:
    found = []
    for paragraph in paragraphs(text):
        found += re.split(r"(?<=\.) (?=[`A-Z(])|(?<=;) (?=`\w+`:)", paragraph)
    return found


def about(name: str, text: str) -> str:
    """The sentences of a docstring that mention a parameter."""
    found = [one for one in sentences(text) if f"`{name}`" in one or f"`{name}=" in one]
    return " ".join(re.sub(rf"^`{name}`: (.)", lambda first: first[1].upper(), one) for one in found)


def type_text(annotation: object, owner: object = None) -> str:
    """A type as source text; private aliases are expanded."""
    if annotation is UNSET:
        return ""
    if not isinstance(annotation, str):
        return without_modules(inspect.formatannotation(annotation))
    names = globals_of(owner)
    return re.sub(r"\b[A-Za-z_]\w*\b(?!\[)", lambda word: written_out(word[0], names), annotation)


def without_modules(text: str) -> str:
    return re.sub(r"\b(?:typing|collections\.abc|typing_extensions|wesichain(?:\.\w+)+)\.", "", text)


def globals_of(owner: object) -> Mapping[str, object]:
    """The namespace of the annotations of a class or a function."""
    function = inspect.unwrap(owner) if inspect.isroutine(owner) else owner
    return vars(sys.modules[function.__module__]) if is_documented(owner) else {}


def written_out(name: str, names: Mapping[str, object]) -> str:
    """Expand a private alias; return any other name unchanged."""
    alias = names.get(name)
    if name in public_names() or inspect.isclass(alias) or not get_args(alias):
        return name
    text = without_modules(inspect.formatannotation(alias))
    return name if len(text) > LONGEST_ALIAS or "~" in text or "ForwardRef" in text else text


def value_text(value: object) -> str:
    """A default as source text; of a dataclass, only the fields that differ from their defaults."""
    if inspect.isclass(value) or inspect.isroutine(value):
        return getattr(value, "__name__", "...")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            (field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value)
        ]
        given = [f"{name}={now!r}" for name, now, usual in fields if now != usual and now not in ({}, ())]
        return f"{type(value).__name__}({', '.join(given)})"
    text = repr(value)
    return text if len(text) <= 80 and "<" not in text else "..."


def default_text(owner: object, name: str, default: object) -> str:
    if default is UNSET:
        return ""
    if inspect.isclass(owner) and dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            if field.name == name and field.default_factory is not dataclasses.MISSING:
                return value_text(field.default_factory())
    return value_text(default)


def settings_of(name: str) -> tuple[Mapping[str, object], object] | None:
    """The keywords of a TypedDict, and the class that has their defaults and descriptions."""
    if name not in SETTINGS:
        return None
    importlib.import_module("wesichain.agent.keywords")  # not imported at run time
    door, _, owner = SETTINGS[name].partition(":")
    holder = getattr(importlib.import_module(door), owner)
    for module in [*sys.modules.values()]:
        found = vars(module).get(name)
        if hasattr(found, "__total__") and (module.__name__ or "").startswith("wesichain"):
            return all_hints(found), holder
    return None


def all_hints(typed_dict: Any) -> dict[str, object]:
    return {name: getattr(hint, "__forward_arg__", hint) for name, hint in typed_dict.__annotations__.items()}


def signature_of(value: object) -> inspect.Signature | None:
    if isinstance(value, msgspec.StructMeta):
        return struct_signature(value)
    try:
        return inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def struct_signature(cls: msgspec.StructMeta) -> inspect.Signature:
    """The signature of a struct with its annotations as source text; msgspec resolves them."""
    kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    declared = dataclasses.fields(cls)  # type: ignore[arg-type]  # our values and states
    fields = [f for f in declared if not f.name.startswith("_") and f.default is not msgspec.UNSET]
    return inspect.Signature(
        [
            inspect.Parameter(f.name, kinds[f.kw_only], default=default_of_field(f), annotation=f.type)
            for f in sorted(fields, key=lambda field: field.kw_only)
        ]
    )


def default_of_field(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def options_of(value: object, words: str) -> Iterator[Option]:
    """The parameters of a class or a function, including those of TypedDicts."""
    signature, elsewhere = signature_of(value), words_elsewhere(value)
    for name, parameter in signature.parameters.items() if signature else ():
        if name in ("self", "cls"):
            continue
        kind = type_text(parameter.annotation, value)
        settings = declared_in(kind)
        if settings is None:
            star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
            default = default_text(value, name, parameter.default)
            yield Option(name, star + name, kind, default, about(name, words) or about(name, elsewhere))
            continue
        hints, holder = settings
        for option, hint in hints.items():
            default = default_text(holder, option, default_of(holder, option))
            text = about(option, words) or about(option, doc_of(holder))
            yield Option(option, option, type_text(hint), default, text)


def declared_in(annotation: str) -> tuple[Mapping[str, object], object] | None:
    """The keywords of `Unpack[...]`, and the class that has their defaults and descriptions."""
    declared = re.fullmatch(r"Unpack\[(\w+)(?:\[.*\])?\]", annotation)
    return settings_of(declared[1]) if declared else None


def words_elsewhere(value: object) -> str:
    """The docstring that describes the keywords of `Unpack[...]` in a signature."""
    function: Any = value.__init__ if inspect.isclass(value) else value
    hints = getattr(inspect.unwrap(function), "__annotations__", {})
    for annotation in hints.values():
        settings = declared_in(annotation) if isinstance(annotation, str) else None
        if settings is not None:
            return doc_of(settings[1])
    return ""


def default_of(holder: object, name: str) -> object:
    if inspect.isclass(holder) and dataclasses.is_dataclass(holder):
        for field in dataclasses.fields(holder):
            if field.name == name:
                return field.default
        return None
    return getattr(holder, name, None)


def heading(name: str, value: object) -> str:
    """A signature on one line, or one parameter per line."""
    signature = signature_of(value)
    if signature is None:
        return name
    parts = []
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
                parts.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        kind = type_text(parameter.annotation, value)
        default = default_text(value, parameter.name, parameter.default)
        text = star + parameter.name + (f": {kind}" if kind else "")
        parts.append(text + ((" = " if kind else "=") + default if default else ""))
        if parameter.kind is parameter.POSITIONAL_ONLY and not any(
            p.kind is p.POSITIONAL_ONLY
            for p in [*signature.parameters.values()][[*signature.parameters].index(parameter.name) + 1 :]
        ):
            parts.append("/")
    result = type_text(signature.return_annotation, value)
    gives = "" if inspect.isclass(value) or not result else f" -> {result}"
    awaits = "async " if inspect.iscoroutinefunction(value) else ""
    line = f"{awaits}{name}({', '.join(parts)}){gives}"
    if len(line) <= 100:
        return line
    return f"{awaits}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){gives}"
