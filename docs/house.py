"""Writes the drawing and the tables of docs/decisions/0012: the rooms before and after, and what is new.

Run: python docs/house.py              (a test compares what it writes with the figures)
     python docs/house.py --measure    first measures the tree as it is; needs git and the revision before
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "wesichain"
FIGURES = HERE / "decisions" / "0012-house.json"
WORDS = tomllib.loads((HERE / "decisions" / "0012-house.toml").read_text("utf-8"))
DRAWING = HERE / "decisions" / "0012-house.svg"
PAGE = HERE / "decisions" / "0012-the-house.md"
FILES = HERE / "decisions" / "0012-files.md"
BEFORE = "76ba8f7"
BEGIN, END = "<!-- written by docs/house.py -->\n", "<!-- to here -->\n"
FLOORS = (
    ("errors",),
    ("core",),
    ("store",),
    ("tools", "policy", "llm", "trace", "context"),
    ("middleware",),
    ("agent",),
    ("graph", "learning", "kit", "durable", "evals"),
    ("testing",),
    ("edge",),
    ("web",),
    ("cli",),
)
ROOMS = [room for floor in reversed(FLOORS) for room in floor]


def room_of(path: str) -> str:
    """The room that a file is in; those beside the rooms are of the front door."""
    first = path.partition("/")[0].removesuffix(".py")
    return first if "/" in path or first == "errors" else "front door"


def measured(source: Path) -> dict[str, Any]:
    """The lines of every file, and which room imports which."""
    files: dict[str, int] = {}
    arrows: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        name, text = path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")
        files[name] = text.count("\n")
        here = room_of(name)
        arrows.setdefault(here, set()).update(there for there in _imported(text) if there != here)
    known = {room_of(name) for name in files}
    return {"files": files, "arrows": {room: sorted(found & known) for room, found in sorted(arrows.items())}}


def _imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name.split(".")[1] for name in names if name.startswith("wesichain."))


def measure() -> None:
    """Measure the tree as it is. The tree before is read from git once, and kept."""
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {"before": _earlier()}
    changed = _git("diff", "-M45%", "--name-status", BEFORE, "--", "src/wesichain/*.py").decode().splitlines()
    rows = [line.replace("src/wesichain/", "").split("\t") for line in changed]
    figures["after"] = measured(SOURCE)
    figures["renamed"] = {row[2]: row[1] for row in rows if row[0].startswith("R")}
    FIGURES.write_text(json.dumps(figures, indent=0, sort_keys=True) + "\n", "utf-8")


def _earlier() -> dict[str, Any]:
    from io import BytesIO
    from tarfile import open as open_tar
    from tempfile import TemporaryDirectory

    packed = _git("archive", BEFORE, "src/wesichain")
    with TemporaryDirectory() as folder, open_tar(fileobj=BytesIO(packed)) as tree:
        tree.extractall(folder, filter="data")
        return measured(Path(folder) / "src" / "wesichain")


def _git(*words: str) -> bytes:
    command = ["git", *words]
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, check=True).stdout  # noqa: S603  # our own


# --- what is new -------------------------------------------------------------------------------------


def sizes(side: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """For each room how many files it has, and how many lines."""
    found: dict[str, tuple[int, int]] = {}
    for name, lines in side["files"].items():
        files, total = found.get(room_of(name), (0, 0))
        found[room_of(name)] = files + 1, total + lines
    return found


def new_files(figures: Mapping[str, Any]) -> dict[str, int]:
    """The files of today that were neither there before nor are one of those under another name."""
    before, renamed = figures["before"]["files"], figures["renamed"]
    after: dict[str, int] = figures["after"]["files"]
    return {name: lines for name, lines in after.items() if name not in before and name not in renamed}


def grouped(figures: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The new files of each room by what they brought; under "" those that no group names."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in sorted(new_files(figures)):
        room = room_of(name)
        found.setdefault(room, {}).setdefault(_group(room, name.removeprefix(f"{room}/")), []).append(name)
    return found


def _group(room: str, name: str) -> str:
    for why, forms in WORDS.get(room, {}).get("new", {}).items():
        if any(fnmatch(name, form) for form in forms):
            return str(why)
    return ""


def rooms_table(figures: Mapping[str, Any]) -> str:
    """Each room before and after, and what it holds now that it did not hold then."""
    before, after, fresh = sizes(figures["before"]), sizes(figures["after"]), new_files(figures)
    lines = [
        "| room | files | lines | files now | lines now | in new files | what it holds, and did not then |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for room in [*ROOMS, "front door"]:
        if room not in before and room not in after:  # it is to come
            continue
        old, now = before.get(room, (0, 0)), after.get(room, (0, 0))
        new = sum(count for name, count in fresh.items() if room_of(name) == room)
        shown = f"`{room}`" if room != "front door" else room
        lines.append(
            f"| {shown} | {old[0]} | {old[1]:,} | {now[0]} | {now[1]:,} | {new:,} | {WORDS[room]['holds']} |"
        )
    old, now = (tuple(map(sum, zip(*side.values(), strict=True))) for side in (before, after))
    lines.append(
        f"| all | {old[0]} | {old[1]:,} | {now[0]} | {now[1]:,} | {sum(fresh.values()):,} "
        f"({len(fresh)} files) | |"
    )
    return "\n".join([*lines, "", balance(figures)]) + "\n"


def balance(figures: Mapping[str, Any]) -> str:
    """Where the lines came from, and went."""
    before, after, renamed = figures["before"]["files"], figures["after"]["files"], figures["renamed"]
    fresh = new_files(figures)
    gone = [lines for name, lines in before.items() if name not in after and name not in renamed.values()]
    more = sum(after.values()) - sum(before.values())
    grown = more - sum(fresh.values()) + sum(gone)
    return (
        f"Of the {more:,} lines more, {sum(fresh.values()):,} stand in {len(fresh)} new files, {grown:,} "
        f"were added to files that were there, and {sum(gone):,} went with {len(gone)} files."
    )


def files_page(figures: Mapping[str, Any]) -> str:
    """Every new file with its lines, by what it brought."""
    after = figures["after"]["files"]
    head = (
        "# New files since the house was drawn first, by what they brought\n\n"
        "Companion of [decision 12](0012-the-house.md), written by `docs/house.py`: the files that revision\n"
        f"{BEFORE} had neither under their name nor, as far as git recognises them, under another. Numbers\n"
        "are lines.\n"
    )
    parts = [head]
    groups = grouped(figures)
    for room in [*ROOMS, "front door"]:
        if room not in groups:
            continue
        parts.append(f"\n## {room}\n\n")
        for why, names in groups[room].items():
            told = ", ".join(f"`{name.removeprefix(f'{room}/')}` {after[name]}" for name in names)
            parts.append(f"- {why or 'not grouped'} ({sum(after[name] for name in names):,}): {told}\n")
    return "".join(parts)


# --- the drawing -------------------------------------------------------------------------------------

_WIDTH, _FLOOR, _BOX, _TOP = 620, 74, 40, 56
_SCALE = 440 / 28_000  # points for a line: the widest floor of today fills the house


def drawing(figures: Mapping[str, Any]) -> str:
    """The two houses side by side: a box a room, as wide as its lines; an arrow where one imports another."""
    height = _TOP + _FLOOR * len(FLOORS) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {height}"',
        ' font-family="sans-serif" font-size="11">\n',
        f'<rect width="{2 * _WIDTH}" height="{height}" fill="#ffffff"/>\n',
    ]
    for left, word in ((0, "before"), (_WIDTH, "after")):
        parts += _house(figures[word], left, word)
    told = "files and lines of each room; a line leads to what is imported, and always downstairs"
    parts.append(f'<text x="{_WIDTH}" y="{height - 8}" text-anchor="middle">{told}</text>\n')
    return "".join([*parts, "</svg>\n"])


def _house(side: Mapping[str, Any], left: int, word: str) -> Iterator[str]:
    rooms = sizes(side)
    files, lines = (sum(column) for column in zip(*rooms.values(), strict=True))
    yield (
        f'<text x="{left + 20}" y="30" font-size="17" font-weight="bold">{word}</text>'
        f'<text x="{left + 90}" y="30">{files} files, {lines:,} lines</text>\n'
    )
    places = _places(rooms, left)
    for room, (x, y, width) in places.items():
        for below in side["arrows"].get(room, ()):
            if below in places:
                other, deep, across = places[below]
                ends = f'x1="{x + width / 2:.1f}" y1="{y + _BOX}" x2="{other + across / 2:.1f}" y2="{deep}"'
                yield f'<line {ends} stroke="#7a8ca5" stroke-opacity="0.45"/>\n'
    for room, (x, y, width) in places.items():
        count, length = rooms[room]
        box = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}"'
        middle = f'x="{x + width / 2:.1f}" text-anchor="middle"'
        yield (
            f'<rect {box} rx="4" fill="#e8eef7" stroke="#35507a"/>'
            f'<text {middle} y="{y + 17}" font-weight="bold">{room}</text>'
            f'<text {middle} y="{y + 31}" font-size="9">{count} · {length:,}</text>\n'
        )


def _places(rooms: Mapping[str, tuple[int, int]], left: int) -> dict[str, tuple[float, int, float]]:
    """Where each room is: its left edge, its upper edge, its width."""
    found: dict[str, tuple[float, int, float]] = {}
    for level, floor in enumerate(reversed(FLOORS)):
        there = [room for room in floor if room in rooms]
        widths = [max(80.0, rooms[room][1] * _SCALE) for room in there]
        x = left + (_WIDTH - sum(widths) - 14 * (len(widths) - 1)) / 2
        for room, width in zip(there, widths, strict=True):
            found[room] = x, _TOP + level * _FLOOR, width
            x += width + 14
    return found


def render(figures: Mapping[str, Any]) -> dict[Path, str]:
    """What each file says by these figures."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    return {
        DRAWING: drawing(figures),
        FILES: files_page(figures),
        PAGE: f"{head}{BEGIN}\n{rooms_table(figures)}\n{END}{tail}",
    }


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        measure()
    for path, text in render(json.loads(FIGURES.read_text("utf-8"))).items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")
