"""The contract suite for conversation stores. Subclass it and implement `make`; pytest runs the tests.

class TestMyConversations(ConversationsContract):
    async def make(self):
        return MyConversations(...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from wesichain.agent import Agent, Approve, Conversation, Conversations, Failed, Interrupted
from wesichain.core import Document, Image, LlmResponse, Message, Role, Text, ToolCall
from wesichain.tools import tool

from .models import ScriptedLlm
from .store_contract import StoreContract, law, run_in_loops


class ConversationsContract(StoreContract[Conversations]):
    """The contract of a conversation store: the behaviour that an agent relies on."""

    @law
    async def test_messages_are_read_back_as_they_were(self, store: Conversations) -> None:
        said = (
            Message(Role.SYSTEM, "be brief"),
            Message(Role.USER, (Text("look"), Image(b"\x89PNG\r\n\x1a\n", media_type="image/png"))),
            Message(Role.USER, (Document(b"%PDF-1.7", name="a.pdf"),)),
            Message(Role.ASSISTANT, "", tool_calls=(ToolCall("1", "f", {"a": [1, None, "ü"]}),)),
            Message(Role.TOOL, "broken", "1", is_error=True),
            Message(Role.ASSISTANT, "\x00 ü 😀 ' \" % ? \\", reasoning="hm", opaque={"signature": "x"}),
        )

        await store.open("c").extend(*said)
        assert tuple(await store.open("c").read()) == said

    @law
    async def test_a_turn_with_a_key_is_added_once(self, store: Conversations) -> None:
        """For a store that says `keeps_keys`; others add it every time."""
        turn = (Message(Role.USER, "hi"), Message(Role.ASSISTANT, "hello"))
        added = [await store.open("c").extend_once(key, *turn) for key in ("r1", "r1", "r2")]
        assert added == [True, not store.keeps_keys, True]
        assert texts(await store.open("c").read()) == ["hi", "hello"] * sum(added)
        writers = (store.open("d").extend_once("r1", *turn) for _ in range(8))
        assert sum(await asyncio.gather(*writers)) == (1 if store.keeps_keys else 8)
        await store.delete("c")
        assert await store.open("c").extend_once("r1", *turn)

    @law
    async def test_opening_and_reading_leave_nothing_behind(self, store: Conversations) -> None:
        assert list(await store.open("new").read()) == []
        assert list(await store.open("new", max_tokens=10).read()) == []
        await store.open("new").extend()
        assert await store.list() == []

    @law
    async def test_a_run_reads_it_and_extends_it_with_the_question_and_the_answer(
        self, store: Conversations
    ) -> None:
        @tool
        async def look() -> str:
            """Look."""
            return "rain"

        llm = ScriptedLlm([_call("look"), "rain", "sure", "what?"])
        agent = Agent(llm, tools=[look], instructions="be brief")
        await agent.run("weather?", conversation=store.open("c"))
        await agent.run("really?", conversation=store.open("c"))
        await agent.run("really?", conversation=store.open("other"))
        assert texts(llm.requests[2].messages[-3:]) == ["weather?", "rain", "really?"]
        assert texts(llm.requests[3].messages)[-1:] == ["really?"]
        kept = await store.open("c").read()
        assert texts(kept) == ["weather?", "rain", "really?", "sure"]
        assert [message.role for message in kept] == [Role.USER, Role.ASSISTANT] * 2
        assert texts(await store.open("other").read()) == ["really?", "what?"]

    @law
    async def test_a_run_that_fails_leaves_no_trace(self, store: Conversations) -> None:
        outcome = await Agent(ScriptedLlm([])).outcome("q", conversation=store.open("c"))
        assert isinstance(outcome, Failed)
        assert await store.list() == []

    @law
    async def test_a_run_that_waited_for_a_person_is_kept_when_it_has_completed(
        self, store: Conversations
    ) -> None:
        @tool(approval=True)
        async def erase() -> str:
            """Erase."""
            return "gone"

        agent = Agent(ScriptedLlm([_call("erase"), "done"]), tools=[erase])
        waiting = await agent.outcome("erase it", conversation=store.open("c"))
        assert isinstance(waiting, Interrupted)
        assert list(await store.open("c").read()) == []
        decisions = {item.token: Approve() for item in waiting.pending}
        await agent.resume(waiting, decisions, conversation=store.open("c"))
        assert texts(await store.open("c").read()) == ["erase it", "done"]

    @law
    async def test_runs_at_the_same_time_are_each_kept_in_whole(self, store: Conversations) -> None:
        conversation = store.open("c")

        async def run(name: int) -> None:
            for turn in range(3):
                agent = Agent(ScriptedLlm([f"answer {name}.{turn}"]))
                await agent.run(f"question {name}.{turn}", conversation=conversation)

        await asyncio.gather(*[run(name) for name in range(8)])
        assert_complete(await conversation.read(), writers=8, turns=3)

    def test_several_event_loops_share_it_at_once(self) -> None:
        store = asyncio.run(self.make())

        async def work(name: int) -> None:
            for turn in range(8):
                await store.open("c").extend(*_turn(name, turn))
                await store.open("c", max_tokens=20).read()

        run_in_loops(work)
        assert_complete(asyncio.run(store.open("c").read()), writers=4, turns=8)
        asyncio.run(self.done(store))

    @law
    async def test_a_run_sees_what_a_conversation_in_memory_would_show_it(self, store: Conversations) -> None:
        for turn in range(150):
            if turn in (0, 70):
                await store.open("c").extend(Message(Role.SYSTEM, f"rule {turn}"), *_turn(0, turn))
            else:
                await store.open("c").extend(*_turn(0, turn))
        everything = await store.open("c").read()
        assert len(everything) == 302
        for max_tokens in (0, 10, 30, 400, 1500, 100_000):
            memory = Conversation(max_tokens)
            memory.add(*everything)
            assert tuple(await store.open("c", max_tokens).read()) == memory.window()

    @law
    async def test_the_newest_turns_come_with_every_older_system_message(self, store: Conversations) -> None:
        await store.append("c", (Message(Role.SYSTEM, "rule"),))
        for turn in range(9):
            await store.append("c", _turn(0, turn))
        found = [texts(turn)[0] for turn in await store.read("c", newest=2)]
        assert found == ["rule", "question 0.7", "question 0.8"]
        assert len(await store.read("c", newest=10)) == len(await store.read("c", newest=11)) == 10

    @law
    async def test_they_are_listed_the_newest_first(self, store: Conversations) -> None:
        for name in ("a", "b", "c", "a"):
            await store.open(name).extend(*_turn(0, 0))
        assert await store.list() == ["a", "c", "b"]

    @law
    async def test_deleting_forgets_one_conversation_wholly(self, store: Conversations) -> None:
        await store.open("c").extend(*_turn(0, 0))
        await store.open("other").extend(*_turn(1, 0))
        await store.delete("c")
        await store.delete("never there")
        assert await store.list() == ["other"]
        assert list(await store.open("c").read()) == []
        assert texts(await store.open("other").read()) == ["question 1.0", "answer 1.0"]
        await store.open("c").extend(*_turn(0, 1))
        assert texts(await store.open("c").read()) == ["question 0.1", "answer 0.1"]

    @law
    async def test_a_conversation_may_be_named_anything(self, store: Conversations) -> None:
        mixed = "".join(chr(0x4E00 + 7 * place) for place in range(2500))
        names = ("", " ", "a'; DROP TABLE turns; --", "%s", "../../etc", "ü😀", "a\x00b", "a", mixed)
        for place, name in enumerate(names):
            await store.open(name).extend(*_turn(0, place))
        for place, name in enumerate(names):
            assert texts(await store.open(name).read())[0] == f"question 0.{place}"
        assert await store.list() == [*reversed(names)]

    @law
    async def test_a_large_message_is_kept_whole(self, store: Conversations) -> None:
        said = Message(Role.USER, "ä" * 2_000_000)
        await store.open("c").extend(said)
        assert list(await store.open("c").read()) == [said]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def assert_complete(messages: Sequence[Message], *, writers: int, turns: int) -> None:
    """Assert that each turn of each writer is there once, in order, with its answer after its question."""
    said = texts(messages)
    questions = [text.removeprefix("question ") for text in said[::2]]
    answers = [text.removeprefix("answer ") for text in said[1::2]]
    assert questions == answers, "turns were interleaved"
    assert sorted(questions) == sorted(f"{name}.{turn}" for name in range(writers) for turn in range(turns))
    for name in range(writers):
        own = [int(one.partition(".")[2]) for one in questions if one.partition(".")[0] == str(name)]
        assert own == sorted(own), "the turns of one writer are out of order"


def _turn(name: int, turn: int) -> tuple[Message, ...]:
    return Message(Role.USER, f"question {name}.{turn}"), Message(Role.ASSISTANT, f"answer {name}.{turn}")


def _call(name: str) -> LlmResponse:
    return LlmResponse("", (ToolCall(f"{name}-1", name, {}),), finish_reason="tool_calls")
