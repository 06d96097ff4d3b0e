"""Skills: what is told of them, what is read, and what is not."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.kit.talking import call, tools_of
from wesichain.errors import ConfigError, ToolExecutionError
from wesichain.kit import Skills
from wesichain.kit.front_matter import split_front_matter
from wesichain.tools import RunContext

HEAD = "---\nname: {name}\ndescription: {description}\n---\n"


def _skill(
    root: Path, name: str, description: str = "Does it.", body: str = "Do it.", folder: str = ""
) -> Path:
    made = root / (folder or name)
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text(HEAD.format(name=name, description=description) + body)
    return made


@pytest.mark.parametrize(
    ("body", "files", "parameters"),
    [
        pytest.param("Do it.", (), {"name"}, id="instructions-alone"),
        pytest.param("Do it.", ("more.md",), {"name", "file", "start"}, id="another-file"),
        pytest.param("Do it. " * 3_000, (), {"name", "file", "start"}, id="several-pages"),
    ],
)
def test_the_tool_has_the_parameters_that_are_needed(
    tmp_path: Path, body: str, files: tuple[str, ...], parameters: set[str]
) -> None:
    made = _skill(tmp_path, "forms", body=body)
    for name in files:
        (made / name).write_text("more")
    (read,) = Skills(tmp_path).tools
    assert {*read.spec.parameters["properties"]} == parameters


async def test_instructions_alone_are_returned_as_text(tmp_path: Path) -> None:
    _skill(tmp_path, "forms", body="Do it.")
    told = Skills(tmp_path).instructions(RunContext())
    assert told is not None
    assert told.endswith("\n- forms: Does it.")
    assert await call(tools_of(Skills(tmp_path)), "read_skill", name="forms") == "Do it."


@pytest.mark.parametrize(
    ("head", "name", "description"),
    [
        pytest.param("name: a\ndescription: One: two", "a", "One: two", id="a-colon-in-the-text"),
        pytest.param('name: "a"\ndescription: "Say \\"x\\"."', "a", 'Say "x".', id="double-quotes"),
        pytest.param("name: 'a'\ndescription: 'It''s'", "a", "It's", id="single-quotes"),
        pytest.param("name: a\ndescription: >-\n  One\n  two.\nlicense: MIT", "a", "One two.", id="folded"),
        pytest.param("name: a\ndescription: |\n  One\n  two.", "a", "One two.", id="literal"),
        pytest.param("name: a\ndescription: One\n  two\n  three", "a", "One two three", id="indented-lines"),
        pytest.param("# why\nname: a # it\n\ndescription: One", "a", "One", id="comments"),
        pytest.param("metadata:\n  version: 1\n  x:\n    - y\nname: a\ndescription: One", "a", "One", id="a-map"),
        pytest.param("allowed-tools:\n- Read\n- Bash\nname: a\ndescription: One", "a", "One", id="a-list"),
        pytest.param("name: a\ndescription:\n  One\n  two", "a", "One two", id="on-the-next-line"),
        pytest.param("name: a\ndescription: >  # why\n  One\n\n  two", "a", "One two", id="folded-comment"),
        pytest.param('name: a\ndescription: "One\\\n  \\ two\\n\\\n  three"', "a", "One two three", id="escaped-ends"),
        pytest.param('name: a\ndescription: "One\n  two"  # why', "a", "One two", id="quoted-lines"),
        pytest.param("name: a\ndescription: 'One\n  it''s'", "a", "One it's", id="single-quoted-lines"),
        pytest.param('name: a\ndescription: "\\u00e9\\x41\\U0001f600\\/\\t."', "a", "éA😀/ .", id="escapes"),
        pytest.param('name: a\nother: "open\nlist: [a, b\ndescription: One', "a", "One", id="odd-fields-unread"),
        pytest.param(f"name: a\ndescription: {'c' * 1025}", "a", "c" * 1023 + "…", id="too-long-is-cut"),
    ],
)  # fmt: skip
def test_front_matter_is_read(tmp_path: Path, head: str, name: str, description: str) -> None:
    (tmp_path / "a").mkdir()
    text = f"---\n{head}\n---\nbody"
    for form in (text, text.replace("\n", "\r\n"), f"\ufeff{text}"):
        (tmp_path / "a" / "SKILL.md").write_bytes(form.encode())
        (skill,) = Skills(tmp_path).skills.values()
        assert (skill.name, skill.description) == (name, description)


def _public_skills() -> list[Path]:
    """The skills of a public collection, such as a clone of anthropics/skills, in `$WESICHAIN_SKILLS`."""
    folder = os.environ.get("WESICHAIN_SKILLS")
    return sorted(path.parent for path in Path(folder).rglob("SKILL.md")) if folder else []


@pytest.mark.skipif(not _public_skills(), reason="WESICHAIN_SKILLS names no folder with public skills")
async def test_public_skills_load() -> None:
    for folder in _public_skills():
        loaded = Skills(folder)
        (skill,) = loaded.skills.values()
        page = await call(tools_of(loaded), "read_skill", name=skill.name)
        assert page["text"], folder
        for file in page["files"][:5]:
            with suppress(ToolExecutionError):  # not text
                await call(tools_of(loaded), "read_skill", name=skill.name, file=file)


async def test_a_file_is_read_in_pages(tmp_path: Path) -> None:
    made = _skill(tmp_path, "forms", body="see the table")
    for length in (20_000, 20_001):
        (made / "table.txt").write_text("a" * (length - 1) + "z")
        read = partial(call, tools_of(Skills(tmp_path)), "read_skill", name="forms", file="table.txt")
        page = await read()
        assert (len(page["text"]), page["next"]) == (20_000, None if length == 20_000 else 20_000)
        assert (await read(start=length - 1))["text"] == "z"


async def test_instructions_come_with_the_names_of_other_files_and_errors_with_what_there_is(
    tmp_path: Path,
) -> None:
    made = _skill(tmp_path, "forms", body="see the table")
    _skill(tmp_path, "sums")
    (made / "table.txt").write_text("a")
    read = partial(call, tools_of(Skills(tmp_path)), "read_skill")
    assert await read(name="forms") == {"text": "see the table", "next": None, "files": ["table.txt"]}
    assert (await read(name="forms", start=13))["text"] == ""
    for args, words in (
        ({"name": "form"}, "there is no skill 'form'; the skills are: forms, sums"),
        ({"name": "forms", "file": "tabel.txt"}, r"no text 'tabel\.txt'; .* Its other files: table\.txt"),
        ({"name": "sums", "file": "table.txt"}, "Its other files: none"),
        ({"name": "forms", "start": 14}, r"'SKILL\.md' has 13 characters; start at 0 to 13"),
        ({"name": "forms", "start": -1}, "start at 0 to 13"),
    ):
        with pytest.raises(ToolExecutionError, match=words):
            await read(**args)


@draws(20)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1), st.sampled_from("'\"|>")
)
def test_what_is_quoted_is_read_back(text: str, form: str) -> None:
    """Whatever a description says, one of the four forms that writers of YAML use brings it back."""
    written = {
        "'": "'" + text.replace("'", "''") + "'",
        '"': json.dumps(text),
        "|": f"|\n  {text}",
        ">": f">\n  {text}",
    }[form]
    fields, body = split_front_matter(f"---\ntext: {written}\n---\nbody", "here", ["text"])
    assert " ".join(fields["text"].split()) == " ".join(text.split())
    assert body == "body"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("no head", "front matter", id="no-head"),
        pytest.param("---\nname: a\ndescription: b\n", "front matter", id="no-end"),
        pytest.param("---\ndescription: b\n---\n", "the name ''", id="no-name"),
        pytest.param("---\nname: a\n---\n", "the description", id="no-description"),
        pytest.param("---\nname: A b\ndescription: c\n---\n", "the name 'A b'", id="a-wrong-name"),
        pytest.param("---\nname: ../a\ndescription: c\n---\n", "the name", id="a-path-for-a-name"),
        pytest.param(f"---\nname: {'a' * 65}\ndescription: c\n---\n", "the name", id="a-long-name"),
        pytest.param("---\nname: a\ndescription: b\x1b[0m\n---\n", "not printable", id="escapes"),
        pytest.param("---\nname: a\nname: b\ndescription: c\n---\n", "twice", id="a-field-twice"),
        pytest.param('---\nname: "a\ndescription: c\n---\n', "cannot be read", id="an-open-quotation"),
        pytest.param("---\nwhat is this\n---\n", "is not 'key: text'", id="no-field"),
        pytest.param("---\nname: a\ndescription: \xe9\n---\n", "not text", id="another-encoding"),
    ],
)
def test_a_skill_that_cannot_be_read_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=words) as caught:
        Skills(tmp_path)
    assert "bad/SKILL.md" in str(caught.value)


def test_folders_without_skills_and_names_twice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Skills(tmp_path / "none")
    with pytest.raises(ConfigError, match="needs at least one folder"):
        Skills()
    _skill(tmp_path / "one", "a")
    _skill(tmp_path / "two", "a", folder="b")
    with pytest.raises(ConfigError, match="two skills are named 'a'"):
        Skills(tmp_path / "one", tmp_path / "two")
    assert [*Skills(tmp_path / "one" / "a").skills] == ["a"]


@pytest.mark.parametrize(
    "args",
    [
        {"name": "a", "file": "../secret"},
        {"name": "a", "file": "../b/SKILL.md"},
        {"name": "a", "file": "/etc/passwd"},
        {"name": "a", "file": "link"},
        {"name": "a", "file": "folder/secret"},
        {"name": "a", "file": "hard"},
        {"name": "a", "file": "\uff0e\uff0e/secret"},
        {"name": "..", "file": "secret"},
        {"name": "linked"},
        {"name": ""},
    ],
)
async def test_nothing_outside_a_skill_is_read(tmp_path: Path, args: Any) -> None:
    root = tmp_path / "skills"
    made = _skill(root, "a")
    _skill(root, "b")
    outside = _skill(tmp_path / "outside", "linked")
    (tmp_path / "secret").write_text("secret")
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "hard").hardlink_to(tmp_path / "secret")
    (made / "folder").symlink_to(tmp_path)
    (root / "linked").symlink_to(outside)
    with pytest.raises(Exception, match="skill"):
        await call(tools_of(Skills(root)), "read_skill", **args)


def test_a_skill_with_another_name_elsewhere_is_refused_and_not_left_out(tmp_path: Path) -> None:
    """Installers make packages of hard links, and a skill that is not there would be missed by nobody."""
    made = _skill(tmp_path / "cache", "a")
    _skill(tmp_path / "skills", "b")
    (tmp_path / "skills" / "a").mkdir()
    (tmp_path / "skills" / "a" / "SKILL.md").hardlink_to(made / "SKILL.md")
    with pytest.raises(ConfigError, match=r"skills/a/SKILL.md: the file has another name.*copy the folder"):
        Skills(tmp_path / "skills")
