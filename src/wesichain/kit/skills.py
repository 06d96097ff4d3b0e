"""Skills: folders of instructions that a model reads when it needs them, in the format of agentskills.io."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict, override

from wesichain.agent import Capability
from wesichain.core.internal import Value
from wesichain.errors import ConfigError, ToolError
from wesichain.tools import RunContext, tool

from .files import FolderFiles
from .front_matter import split_front_matter

_FILE = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1_024
_PAGE = 20_000  # characters
_LISTED = 200

_INSTRUCTIONS = (
    "You have skills: written instructions for certain tasks. If a task fits the description of a skill, "
    "read the skill once with read_skill, then do what its text says. Its other files are read by their "
    "paths. Scripts can be read, but not run."
)


class Skill(Value):
    """One skill: its name, its description, and its folder below the root."""

    name: str
    description: str
    folder: str
    root: FolderFiles

    def path(self, file: str) -> str:
        return f"{self.folder}/{file}" if self.folder else file

    def files(self) -> list[str]:
        start = f"{self.folder}/" if self.folder else ""
        paths = [path.removeprefix(start) for path in self.root.sizes() if path.startswith(start)]
        return [path for path in paths if path != _FILE]


class SkillPage(TypedDict):
    """A part of a skill's file. `next` is where the next page starts; `files` are the skill's other files."""

    text: str
    next: int | None
    files: list[str]


class Skills(Capability):
    """The skills in these folders: a skill is a folder with a file SKILL.md, at any depth.

    The instructions contain the name and the description of each skill; the model reads its text and its
    files with `read_skill`. Descriptions are cut at 1,024 characters, the most that the format allows. Files
    are never run, and no path or link leads outside the folders. A SKILL.md that cannot be read is a
    `ConfigError`.
    """

    def __init__(self, *folders: str | os.PathLike[str]) -> None:
        if not folders:
            raise ConfigError("Skills needs at least one folder of skills: Skills('skills')")
        self.skills: dict[str, Skill] = {}
        for folder in folders:
            for skill in _skills_in(folder):
                if skill.name in self.skills:
                    raise ConfigError(f"two skills are named {skill.name!r}; rename one of them")
                self.skills[skill.name] = skill
        # Small models also fill in parameters that they do not need, here with files that do not exist.
        roots = {skill.root for skill in self.skills.values()}
        read: Any = self._read_skill if any(map(_has_other_pages, roots)) else self._read_instructions
        self.tools = (tool(read, name="read_skill", effect="pure"),)

    @override
    def instructions(self, ctx: RunContext[Any]) -> str | None:
        if not self.skills:
            return None
        known = (f"- {skill.name}: {skill.description}" for skill in self.skills.values())
        return "\n".join((_INSTRUCTIONS, *known))

    def _read_instructions(self, name: str) -> str:
        """Read the instructions of a skill.

        Args:
            name: The skill.
        """
        return self._read_skill(name)["text"]

    def _read_skill(self, name: str, file: str = _FILE, start: int = 0) -> SkillPage:
        """Read the instructions of a skill, or one of its files.

        Args:
            name: The skill.
            file: Leave it out to read the instructions. For a file that they name: its path.
            start: The character to start at.
        """
        skill = self.skills.get(name)
        if skill is None:
            raise ToolError(f"there is no skill {name!r}; the skills are: {', '.join(self.skills)}")
        text = _read_file(skill, file)
        if file == _FILE:
            _, text = split_front_matter(text, file)
        if not 0 <= start <= len(text):
            raise ToolError(f"{file!r} has {len(text)} characters; start at 0 to {len(text)}")
        end = start + _PAGE
        following = end if end < len(text) else None
        return {"text": text[start:end], "next": following, "files": skill.files()[:_LISTED]}


def _has_other_pages(root: FolderFiles) -> bool:
    """Whether there are other files than SKILL.md, or one that is longer than a page."""
    return any(not path.endswith(_FILE) or size > _PAGE for path, size in root.sizes().items())


def _read_file(skill: Skill, file: str) -> str:
    """Return the text of a file of a skill."""
    try:
        return skill.root.read(skill.path(file))
    except ToolError:
        others = ", ".join(skill.files()[:_LISTED]) or "none"
        raise ToolError(
            f"the skill {skill.name!r} has no text {file!r}; call read_skill with the name alone for its "
            f"instructions. Its other files: {others}"
        ) from None


def _skills_in(folder: str | os.PathLike[str]) -> Iterator[Skill]:
    if not Path(folder).is_dir():
        raise ConfigError(f"the folder of skills {os.fspath(folder)!r} does not exist")
    root = FolderFiles(folder)
    linked = [path for path in root.linked() if _is_skill(path)]
    if linked:
        raise ConfigError(
            f"{Path(folder).name}/{linked[0]}: the file has another name elsewhere (a hard link), and is not "
            f"read; copy the folder"
        )
    for path in root.sizes():
        if _is_skill(path):
            below = path.removesuffix(_FILE).rstrip("/")
            yield _skill(root, path, below, f"{Path(folder).name}/{path}")


def _is_skill(path: str) -> bool:
    return path == _FILE or path.endswith(f"/{_FILE}")


def _skill(root: FolderFiles, path: str, folder: str, where: str) -> Skill:
    try:
        fields, _ = split_front_matter(root.read(path), where, ("name", "description"))
    except ToolError as error:
        raise ConfigError(f"{where}: {error}") from error
    name, description = fields.get("name", ""), " ".join(fields.get("description", "").split())
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ConfigError(f"{where}: the name {name!r} is not 1 to 64 lower-case letters, digits and hyphens")
    if not description or not description.isprintable():
        raise ConfigError(f"{where}: the description is missing, or has characters that are not printable")
    if len(description) > _LONGEST_DESCRIPTION:
        description = f"{description[: _LONGEST_DESCRIPTION - 1]}…"
    return Skill(name, description, folder, root)
