"""Write docs/reference.md and docs/reference/: all public names, with signatures and parameters.

Run: python tools/reference.py    (a test compares the pages with the code)
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from doors import DOORS, offered
from signatures import (
    UNSET,
    about,
    all_hints,
    doc_of,
    heading,
    is_documented,
    options_of,
    paragraphs,
    sentences,
    type_text,
    value_text,
)

HERE = Path(__file__).resolve().parents[1] / "docs"
INDEX = HERE / "reference.md"


def page_of(door: str) -> Path:
    return HERE / "reference" / f"{door.removeprefix('wesichain.').replace('.', '-')}.md"


def home_of(name: str, value: object) -> str:
    """The module in whose page a name is described: the one closest to its definition."""
    written = getattr(value, "__module__", "") or ""
    doors = [door for door in DOORS[1:] if name in offered(door)]
    near = [door for door in doors if written == door or written.startswith(f"{door}.")]
    return max(near, key=len) if near else (doors or ["wesichain"])[0]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    return f"`{cell(text)}`" if text else ""


def described(value: object, words: str, *, is_whole: bool = True) -> list[str]:
    """The docstring, with its sentences on parameters in a table."""
    options = [*options_of(value, words)]
    parts = paragraphs(words)
    in_table = {one for one in sentences(words) if any(about(option.name, one) for option in options)}
    lines = [parts[0]] if parts else []
    if options and (is_whole or any(one.about for one in options)):
        lines += ["", "| parameter | type | default | |", "|---|---|---|---|"]
        lines += [
            f"| {code(one.shown)} | {code(one.type)} | {code(one.default)} | {cell(one.about)} |"
            for one in options
        ]
    for part in parts[1:]:
        rest = " ".join(one for one in sentences(part) if one not in in_table)
        lines += ["", rest] if rest else []
    return lines


def members_of(value: type) -> Iterator[tuple[str, object, object]]:
    """The public methods and properties of a class that are defined in this project."""
    for name in sorted(dir(value)):
        if name.startswith("_"):
            continue
        raw = inspect.getattr_static(value, name)
        function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if inspect.isroutine(function) and (getattr(function, "__module__", "") or "").startswith(
            "wesichain"
        ):
            yield name, raw, function


def member_lines(owner: str, value: type) -> list[str]:
    lines: list[str] = []
    for name, raw, function in members_of(value):
        words = doc_of(function)
        if isinstance(raw, property):
            gives = type_text(inspect.signature(function).return_annotation, function)
            first = paragraphs(words)[:1]
            lines += ["", f"**`{owner}.{name}`**: {code(gives)}" + (f". {first[0]}" if first else "")]
        else:
            shown = heading(f"{owner}.{name}", function)
            lines += ["", "```text", shown, "```", "", *described(function, words, is_whole=False)]
    return lines


def entry(name: str, value: object) -> list[str]:
    lines = ["", f"### {name}"]
    if isinstance(value, type) and issubclass(value, enum.Enum):
        lines += ["", *paragraphs(doc_of(value))]
        return [*lines, "", *(f"- `{one.name}` = `{one.value!r}`" for one in value)]
    if not is_documented(value):
        return [*lines, "", value_line(name, value)]
    if hasattr(value, "__total__"):
        kinds = [f"- `{key}: {type_text(hint)}`" for key, hint in all_hints(value).items()]
        return [*lines, "", *paragraphs(doc_of(value)), "", *kinds]
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    own_init = isinstance(value, type) and "__init__" in vars(value)
    protocol = isinstance(value, type) and getattr(value, "_is_protocol", False)
    words = doc_of(value)
    if isinstance(value, type) and value.__init__.__doc__ and own_init and not is_error:
        words = "\n\n".join([words, inspect.cleandoc(value.__init__.__doc__)])
    if is_error:
        bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        lines += ["", *paragraphs(words)[:1], "", f"A {bases}."]
        return lines
    if protocol:
        lines += ["", *described(UNSET, words)]
    else:
        lines += ["", "```text", heading(name, value), "```", "", *described(value, words)]
    return lines + (member_lines(name, value) if isinstance(value, type) else [])


def value_line(name: str, value: object) -> str:
    """The line for an alias, a constant, or an object."""
    is_plain = isinstance(value, str | int | float | dict | frozenset)
    text = value_text(value) if is_plain else type_text(value)
    if text != "..." and len(text) <= 400 and "<" not in text:
        return f"`{name} = {cell(text)}`"
    kind = type(value)
    about = first_line(kind) if kind.__module__.startswith("wesichain") else ""
    return f"An object of the type `{kind.__name__}`. {about}".strip()


@cache
def anchors(names: tuple[str, ...]) -> Mapping[str, str]:
    """The anchor of each heading; names that differ only in case get a number."""
    found: dict[str, str] = {}
    for name in names:
        slug, number = name.lower(), 0
        while slug in found.values():
            number += 1
            slug = f"{name.lower()}_{number}"
        found[name] = slug
    return found


def first_line(value: object) -> str:
    return (paragraphs(doc_of(value)) or [""])[0]


def index_line(door: str, name: str, value: object) -> str:
    text = first_line(value)
    return f"- {link_to(name, value, door)}" + (f": {text}" if text else "")


def link_to(name: str, value: object, door: str) -> str:
    home = home_of(name, value)
    if home == "wesichain":
        return f"`{name}`"
    anchor = anchors(offered(home))[name]
    folder = "" if door else "reference/"
    return f"[`{name}`]({folder}{page_of(home).name}#{anchor})"


def render_door(door: str) -> str:
    module = importlib.import_module(door)
    parts = [f"# {door}", "", *paragraphs(module.__doc__ or "")[:1]]
    parts += ["", "Written from the code by `python tools/reference.py`."]
    for name in offered(door):
        value = getattr(module, name)
        home = home_of(name, value)
        if home == door:
            parts += entry(name, value)
        else:
            parts += [
                "",
                f"### {name}",
                "",
                f"See {link_to(name, value, door)} at `{home}`. {first_line(value)}".strip(),
            ]
    return tidy(parts)


def render_index() -> str:
    parts = [
        "# Reference",
        "",
        "Every public name, by the door that it is imported from: signature, parameters with types and",
        "defaults, and what the code says of it. What is not listed is private. Written from the code by",
        "`python tools/reference.py`.",
    ]
    for door in DOORS:
        module = importlib.import_module(door)
        parts += ["", f"## {door}", "", (paragraphs(module.__doc__ or "") or [""])[0]]
        parts += ["", f"[The page of `{door}`](reference/{page_of(door).name})."]
        parts += ["", *(index_line("", name, getattr(module, name)) for name in offered(door))]
    return tidy(parts)


def tidy(parts: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def render() -> dict[Path, str]:
    """Every page of the reference, by its path."""
    return {INDEX: render_index()} | {page_of(door): render_door(door) for door in DOORS}


if __name__ == "__main__":
    (HERE / "reference").mkdir(exist_ok=True)
    pages = render()
    for stale in {*(HERE / "reference").glob("*.md")} - {*pages}:
        stale.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    print(f"wrote {len(pages)} pages")
