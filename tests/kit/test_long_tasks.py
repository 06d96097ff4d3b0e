"""Offload, Todo and deep_agent: what a long task needs, over many steps and in another process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from tests.kit.talking import scripted
from tests.warm import python
from wesichain import Agent, Budget, ObserveErrors, tool
from wesichain.agent import Completed, Interrupted, replay
from wesichain.context import Window, estimate_tokens
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Role,
    ToolCall,
    ToolCallingLlm,
    ToolDispatched,
    from_json,
    to_json,
)
from wesichain.core.events import ContextReduced
from wesichain.errors import ConfigError
from wesichain.kit import (
    FileLimits,
    Files,
    FolderFiles,
    MemoryFiles,
    Offload,
    RunFiles,
    Todo,
    Workspace,
    deep_agent,
    plan_in,
)
from wesichain.kit.run_files import result_path
from wesichain.testing import ScriptedLlm


def text_of_page(number: int) -> str:
    return f"page {number}: " + " ".join(f"{number}.{word}" for word in range(3_000))


@tool(effect="pure", blocking=False)
def fetch(number: int) -> str:
    """Fetch a page."""
    return text_of_page(number)[:20_000]


@tool(approval=True)
def publish(text: str) -> str:
    """Publish a text."""
    return "published"


@pytest.fixture(params=["folder", "memory", "run"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made: dict[str, Any] = {"folder": lambda: FolderFiles(tmp_path), "memory": MemoryFiles, "run": RunFiles}
    return made[request.param]()


class Reader(ToolCallingLlm):
    """Fetches page after page; then reads every one back from the file that its result named."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.most = 0  # tokens of a request
        self.paths: list[str] = []
        self.read_back: list[str] = []
        self._asked = 0
        self._start: int | None = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.most = max(self.most, sum(estimate_tokens(message.text) for message in request.messages))
        last = request.messages[-1]
        if last.role is Role.TOOL and "All of them are in the file" in last.text:
            self.paths.append(last.text.rsplit("'", 2)[1])
        elif last.role is Role.TOOL:
            page = from_json(dict[str, Any], last.text)
            self.read_back[-1] += page["text"]
            self._start = page["next"]
        self._asked += 1
        name, args = self._next()
        if name is None:
            return LlmResponse("done")
        return LlmResponse(tool_calls=(ToolCall(f"c{self._asked}", name, args),), finish_reason="tool_calls")

    def _next(self) -> tuple[str | None, dict[str, Any]]:
        if len(self.paths) < self.pages:
            return "fetch", {"number": len(self.paths)}
        if not self.read_back or self._start is None:
            if len(self.read_back) == self.pages:
                return None, {}
            self.read_back.append("")
            self._start = 0
        return "read_file", {"path": self.paths[len(self.read_back) - 1], "start": self._start}


class TestOffload:
    async def test_the_model_is_shown_the_beginning_the_size_and_the_path(self, files: Any) -> None:
        llm = Reader(2)
        agent = Agent(
            llm, tools=[fetch], capabilities=[Workspace(files), Offload(files, 500)], budget=Budget(steps=40)
        )
        outcome = await agent.outcome("read")
        assert isinstance(outcome, Completed)
        assert llm.read_back == [fetch(0), fetch(1)]
        shown = [event for event in outcome.events if isinstance(event, ContextReduced)]
        cuts = [message.text for event in shown for cut in event.cuts for message in cut.messages]
        assert [path for path in llm.paths if any(path in text for text in cuts)] == llm.paths
        assert all(estimate_tokens(text) <= 500 and text.startswith("page ") for text in cuts)
        assert len(cuts) == 2, "what is read from files is not offloaded again"
        assert (await replay(cast("Any", outcome), agent)).messages == outcome.messages

    async def test_short_results_failures_and_reads_stay(self) -> None:
        @tool(effect="pure")
        def fail() -> str:
            """Fail at length."""
            raise ValueError("no " * 3_000)

        files = MemoryFiles()
        files.write("long", "word " * 1_200)
        replies = [ToolCall("c1", "read_file", {"path": "long"}), ToolCall("c2", "fail", {}), "done"]
        agent, llm = scripted(
            replies, Workspace(files), Offload(files, 500), tools=[fail], policy=ObserveErrors()
        )
        outcome = await agent.outcome("go")
        assert not [event for event in outcome.events if isinstance(event, ContextReduced)]
        assert llm.requests[1].messages[-1].text.count("word") == 1_200
        assert llm.requests[2].messages[-1].text.count("no ") > 500
        assert list(files.sizes()) == ["long"]

    async def test_a_result_that_could_not_be_kept_is_not_reported_as_kept(self) -> None:
        files = MemoryFiles(limits=FileLimits(file_bytes=100))
        agent, llm = scripted(
            [ToolCall("c", "fetch", {"number": 1}), "done"],
            Workspace(files),
            Offload(files, 500),
            tools=[fetch],
        )
        outcome = await agent.outcome("go")
        shown = llm.requests[1].messages[-1].text
        assert isinstance(outcome, Completed)
        assert shown.startswith("page 1:")
        assert "could not be stored" in shown
        assert estimate_tokens(shown) <= 500

    @pytest.mark.parametrize("over", [0, -1, 99, 2.5, True, "many"])
    def test_a_wrong_size_is_refused(self, over: Any) -> None:
        with pytest.raises(ConfigError, match="over_tokens"):
            Offload(MemoryFiles(), over)

    def test_the_view_counts_as_it_is_told(self) -> None:
        view: Any = Offload(MemoryFiles(), 700, count_tokens=len).context[0]
        assert (view.count_tokens, view.inactive_below_tokens, view.name) == (len, 700, "Offload")

    async def test_fifty_steps_of_20_kb_results_in_32_000_tokens(self) -> None:
        llm = Reader(50)
        agent = deep_agent(llm, [fetch], budget=Budget(steps=1_000), context=[Window(32_000)])
        outcome = await agent.outcome("read all")
        assert isinstance(outcome, Completed), outcome
        assert llm.most <= 32_000
        assert len(llm.paths) == 50
        assert llm.read_back == [fetch(number) for number in range(50)]


class TestTodo:
    async def test_the_plan_is_in_the_events_and_read_back(self) -> None:
        items = [{"task": "look", "status": "done"}, {"task": "tell", "status": "pending"}]
        wrong = [{"task": "look", "status": "soon"}]
        replies = [
            ToolCall("c1", "write_plan", {"items": items}),
            ToolCall("c2", "write_plan", {"items": wrong}),
            ToolCall("c3", "read_plan", {}),
            "done",
        ]
        agent, llm = scripted(replies, Todo())
        outcome = await agent.outcome("go")
        written = [event for event in outcome.events if isinstance(event, ToolDispatched)]
        assert written[0].call.args == {"items": items}
        assert from_json(list[dict[str, str]], llm.requests[3].messages[-1].text) == items
        assert plan_in(outcome.messages) == items
        assert plan_in(()) == []


RESUME = """
import asyncio, sys
from tests.kit.test_long_tasks import fetch, publish
from wesichain.core import Role, ToolCall, from_json
from wesichain.core.internal import Approve
from wesichain.kit import deep_agent
from wesichain.agent import Interrupted
from wesichain.testing import ScriptedLlm

stored = from_json(Interrupted, sys.stdin.read())
replies = [
    [ToolCall("r1", "read_file", {"path": "a.md"}), ToolCall("r2", "list_files", {})],
    "done",
]
agent = deep_agent(ScriptedLlm(replies), [fetch, publish])
result = asyncio.run(agent.resume(stored, {stored.pending[0].token: Approve()}))
print([m.text for m in result.outcome.messages if m.role is Role.TOOL][-2:])
"""


class TestDeepAgent:
    async def test_a_run_has_a_workspace_of_its_own_that_goes_with_its_outcome(self) -> None:
        replies = [
            ToolCall("c1", "write_file", {"path": "a.md", "text": "one fish"}),
            ToolCall("c2", "edit_file", {"path": "a.md", "old": "one", "new": "two"}),
            ToolCall("c3", "fetch", {"number": 7}),
            ToolCall("c4", "publish", {"text": "it"}),
        ]
        outcome = await deep_agent(_script(replies), [fetch, publish]).outcome("go")
        assert isinstance(outcome, Interrupted)
        done = subprocess.run(
            [*python(), "-c", RESUME],
            input=to_json(outcome),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert '"text":"two fish"' in done.stdout
        assert "results/" in done.stdout

        other = deep_agent(_script([ToolCall("c1", "list_files", {}), "done"]), [fetch, publish])
        assert '"files":[]' in (await other.outcome("go")).messages[-2].text

    async def test_one_reply_changes_a_file_once(self) -> None:
        together = [
            ToolCall("c1", "write_file", {"path": "a", "text": "first"}),
            ToolCall("c2", "write_file", {"path": "./a", "text": "second"}),
            ToolCall("c3", "write_file", {"path": "b", "text": "third"}),
        ]
        reads = [ToolCall("r1", "read_file", {"path": "a"}), ToolCall("r2", "read_file", {"path": "b"})]
        outcome = await deep_agent(_script([together, reads, "done"])).outcome("go")
        texts = [message.text for message in outcome.messages if message.role is Role.TOOL]
        assert "same reply" in texts[1]
        assert '"text":"first"' in texts[3]
        assert '"text":"third"' in texts[4]

    async def test_calls_of_one_reply_do_not_spoil_each_other(self) -> None:
        """One has no path, one needs a folder where another writes a file, one edits a kept result."""
        path = result_path(fetch(7))
        replies = [
            ToolCall("c1", "fetch", {"number": 7}),
            [
                ToolCall("c2", "write_file", {"text": "nowhere"}),
                ToolCall("c3", "write_file", {"path": "a", "text": "x" * 30}),
                ToolCall("c4", "write_file", {"path": "a/b", "text": "y" * 30}),
                ToolCall("c5", "edit_file", {"path": path, "old": fetch(7)[:60], "new": "mine"}),
            ],
            [ToolCall("c6", "read_file", {"path": "a"}), ToolCall("c7", "read_file", {"path": path})],
            ToolCall("c8", "write_file", {"path": "c", "text": "z"}),
            "done",
        ]
        limits = FileLimits(total_bytes=50_000, file_bytes=50_000, files=2)
        outcome = await deep_agent(_script(replies), [fetch], files=RunFiles(limits=limits)).outcome("go")
        texts = [message.text for message in outcome.messages if message.role is Role.TOOL]
        assert "path" in texts[1]
        assert "cannot be both a file and a folder" in texts[3]
        assert f'"text":"{"x" * 30}"' in texts[5]
        assert '"text":"mine' in texts[6]
        assert "full" in texts[7], "what was written by all of them counts"

    @pytest.mark.parametrize(
        ("limits", "kept"),
        [
            pytest.param(FileLimits(files=2), 2, id="files"),
            pytest.param(FileLimits(total_bytes=35), 3, id="bytes"),
            pytest.param(FileLimits(file_bytes=9), 0, id="bytes-of-one-file"),
        ],
    )
    async def test_the_calls_of_one_reply_do_not_exceed_the_limits_together(
        self, limits: FileLimits, kept: int
    ) -> None:
        writes = [
            ToolCall(f"c{number}", "write_file", {"path": f"f{number}", "text": "x" * 10})
            for number in range(6)
        ]
        agent = deep_agent(
            _script([writes, ToolCall("l", "list_files", {}), "done"]), files=RunFiles(limits=limits)
        )
        outcome = await agent.outcome("go")
        answers = [message for message in outcome.messages if message.role is Role.TOOL]
        assert [answer.is_error for answer in answers[:6]] == [number >= kept for number in range(6)]
        assert answers[6].text.count('"bytes":10') == kept

    async def test_what_it_is_given_is_what_an_agent_is_given(self, tmp_path: Path) -> None:
        files: Files = FolderFiles(tmp_path)
        llm = _script([ToolCall("c1", "write_file", {"path": "a", "text": "kept"}), "done"])
        helper = Agent(_script(["help"]), name="helper", description="Helps.")
        agent = deep_agent(
            llm, [fetch], files=files, subagents={"helper": helper}, instructions="Be brief.", name="deep"
        )
        await agent.run("go")
        system = llm.requests[0].messages[0].text
        assert system.startswith("Be brief.")
        assert "- helper: Helps." in system
        assert {spec.name for spec in llm.requests[0].tools} == {
            "fetch", "write_plan", "read_plan", "list_files", "read_file", "search_files", "write_file", "edit_file",
            "delegate",
        }  # fmt: skip
        assert files.read("a") == "kept"


def _script(replies: list[Any]) -> ScriptedLlm:
    return ScriptedLlm(replies)
