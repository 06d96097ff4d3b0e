"""Limits of plans, skills and runs, each tried at its bound and one beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.talking import call, tools_of
from wesichain.core import Message, Role, ToolCall
from wesichain.errors import ConfigError
from wesichain.kit import Skills, Todo
from wesichain.kit.run_files import LongResults, RunFiles
from wesichain.tools import RunContext, ToolContext, ToolError


@pytest.mark.parametrize("count", [100, 101])
async def test_a_plan_has_a_hundred_items(count: int) -> None:
    items = [{"task": "t", "status": "done"}] * count
    if count > 100:
        with pytest.raises(Exception, match="keep it to 100"):
            await call(tools_of(Todo()), "write_plan", items=items)
    else:
        assert "100 items, 100 done" in await call(tools_of(Todo()), "write_plan", items=items)


def skill(folder: Path, name: str, description: str) -> Skills:
    (folder / "a").mkdir(exist_ok=True)
    (folder / "a" / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nDo it.")
    return Skills(folder)


def test_the_name_and_the_description_of_a_skill_are_bounded(tmp_path: Path) -> None:
    (made,) = skill(tmp_path, "n" * 64, "d" * 1_024).skills.values()
    assert (made.name, made.description) == ("n" * 64, "d" * 1_024)
    with pytest.raises(ConfigError, match="1 to 64"):
        skill(tmp_path, "n" * 65, "d")


def test_no_skill_has_no_instructions(tmp_path: Path) -> None:
    assert Skills(tmp_path).instructions(RunContext()) is None


class Link:
    def __init__(self, *messages: Message) -> None:
        self.messages = messages


def test_the_files_of_sixteen_runs_are_kept_and_those_of_others_made_anew() -> None:
    files = RunFiles()
    wrote = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("w", "write_file", {"path": "a", "text": "x"}),))
    log = (wrote, Message(Role.TOOL, "Done", "w"))
    runs: list[RunContext[Any]] = [RunContext(str(number), link=Link(*log)) for number in range(17)]
    for run in (*runs, *runs):
        assert files(run).read("a") == "x"
        with pytest.raises(ToolError, match="no file 'b'"):
            files(run).read("b")
    assert len(files._folders) == 16


def test_the_files_of_a_run_follow_what_is_new_in_its_log() -> None:
    files, wrote = RunFiles(), ToolCall("w", "write_file", {"path": "a", "text": "x"})
    log = (Message(Role.ASSISTANT, "", tool_calls=(wrote,)), Message(Role.TOOL, "Done", "w"))
    assert files(RunContext("r", link=Link(*log))).read("a") == "x"
    edited = ToolCall("e", "edit_file", {"path": "a", "old": "x", "new": "y"})
    more = (*log, Message(Role.ASSISTANT, "", tool_calls=(edited,)), Message(Role.TOOL, "Done", "e"))
    folder = files._folders["r",]
    assert files(RunContext("r", link=Link(*more))).read("a") == "y"
    assert files._folders["r",] is folder
    assert files(RunContext("r", link=Link(*log))).read("a") == "x"  # another log under the same id
    assert files._folders["r",] is not folder


def test_only_what_another_call_of_the_reply_changes_cannot_be_changed() -> None:
    calls = (
        ToolCall("1", "read_file", {"path": "a"}),
        ToolCall("2", "write_file", "no object"),
        ToolCall("3", "write_file", {"path": "b", "text": "x"}),
        ToolCall("4", "write_file", {"path": "a", "text": "x"}),
    )
    files, reply = RunFiles(), Message(Role.ASSISTANT, "", tool_calls=calls)
    last = files(ToolContext("r", call_id="4", link=Link(reply)))
    last.write("a", "x")
    with pytest.raises(ToolError, match="another call of the same reply changes 'b'"):
        last.write("b", "x")
    files(ToolContext("r", call_id="3", link=Link(reply))).write("b", "x")


@pytest.mark.parametrize("tokens", [100, 99, True])
def test_a_long_result_has_a_hundred_tokens_at_least(tokens: Any) -> None:
    if tokens == 100:
        assert LongResults(100, len).include("x" * 101, "t")
        assert not LongResults(100, len).include("x" * 100, "t")
        assert LongResults(100, len).beginning("x" * 200, "note") == "x" * 96 + "note"
    else:
        with pytest.raises(ConfigError, match="100 tokens or more"):
            LongResults(tokens)
