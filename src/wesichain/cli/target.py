"""`Target`: the agent of a command and what its runs need, as a value that is stored with a waiting run."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from wesichain.agent import Agent, RunMemory, SqliteConversations
from wesichain.core import from_json, to_json
from wesichain.core.internal import Value, field, home_folder
from wesichain.errors import ConfigError
from wesichain.policy import Budget

from .loading import chosen_model, fetch_local_model, load_tools, open_deps, open_target
from .mcp import server_tools
from .playbooks import open_for_runs

STEPS = 12  # the maximum of a default agent
_LEAST_TOKENS = 4000


class Target(Value):
    """An agent by its name (file.py:NAME or package.module:NAME), or a default agent made of options.

    Files are absolute paths; modules and what a program reads are found from `folder`, the working folder.
    """

    agent: str | None = None
    model: str | None = None
    tools: str | None = None
    instructions: str | None = None
    steps: int = STEPS
    mcp: tuple[str, ...] = ()
    mcp_protocol: str | None = None
    deps: str | None = None
    playbook: str | None = None
    domain: str = "general"
    conversation: str | None = None
    max_tokens: int = _LEAST_TOKENS
    runs: str | None = None  # the folder of recordings, if it is not the user's own
    record: bool = True
    folder: str = field(default_factory=os.getcwd)

    @classmethod
    def of(
        cls,
        agent: str | None = None,
        *,
        model: str | None = None,
        mcp: Sequence[str] | None = None,
        **options: Any,
    ) -> Target:
        """The target of the options of a command, which may be relative paths."""
        paths: dict[str, Any] = {
            name: _absolute(options.pop(name, None)) for name in ("tools", "playbook", "runs")
        }
        return cls(
            _absolute_name(agent),
            model=chosen_model(model) if agent is None else model,
            mcp=tuple(mcp or ()),
            deps=_absolute_name(options.pop("deps", None)),
            **paths,
            **options,
        )

    @asynccontextmanager
    async def open(self, kinds: tuple[type, ...] = (Agent,)) -> AsyncGenerator[Any]:
        """Open the agent, or an object of other kinds (any: `()`), for the duration of a block."""
        async with AsyncExitStack() as stack:
            agent: Any
            if self.agent is not None:
                agent = await stack.enter_async_context(open_target(self.agent, *kinds))
            else:
                assert self.model is not None
                tools = [] if self.tools is None else load_tools(Path(self.tools))
                tools += await server_tools(self.mcp, self.mcp_protocol, stack)
                limit = Budget(steps=self.steps)
                agent = Agent(self.model, tools=tools, instructions=self.instructions, budget=limit)
            if self.playbook is not None:
                book = stack.enter_context(open_for_runs(Path(self.playbook), self.domain))
                agent = agent.with_playbook(book, self.domain)
            yield agent

    @asynccontextmanager
    async def run_options(self) -> AsyncGenerator[dict[str, Any]]:
        """The keyword arguments of one run: its model, and its deps, which are closed with the block."""
        options: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            if self.agent is not None and self.model is not None:
                options["model"] = self.model
            if self.deps is not None:
                options["deps"] = await stack.enter_async_context(open_deps(self.deps))
            yield options

    @asynccontextmanager
    async def open_deps(self, _: object = None) -> AsyncGenerator[Any]:
        """The deps of one run: for functions that take the run's case, request or id."""
        async with self.run_options() as options:
            yield options.get("deps")

    def fetch_model(self) -> None:
        """Download the model of a default agent, unless it is on this machine or elsewhere."""
        if self.agent is None and self.model is not None:
            fetch_local_model(self.model)

    def memory(self) -> RunMemory | None:
        """The stored conversation that the runs belong to."""
        if self.conversation is None:
            return None
        home_folder().mkdir(parents=True, exist_ok=True)
        store = SqliteConversations(home_folder() / "conversations.sqlite")
        return store.open(self.conversation, self.max_tokens)

    def words(self, *words: str) -> tuple[str, ...]:
        """The words of the command that runs this target on these words again, in `folder`."""
        given = {
            "--model": self.model,
            "--deps": self.deps,
            "--playbook": self.playbook,
            "--domain": None if self.domain == "general" else self.domain,
        }
        options = [text for name, value in given.items() if value is not None for text in (name, value)]
        return ("run", *([] if self.agent is None else [self.agent]), *words, *options)


class StoredTarget(Value):
    """A target as it is stored with a run that waits: with the agent's name and tools, which are compared."""

    target: Target
    name: str
    tools: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, agent: Agent[Any]) -> StoredTarget:
        return cls(target, agent.name, _tools_of(agent))

    @classmethod
    def read(cls, text: str) -> StoredTarget:
        return from_json(cls, text)

    def written(self) -> str:
        return to_json(self)

    def check(self, agent: Agent[Any]) -> None:
        """Raise `ConfigError` if the agent has another name than when the run began, or lacks a tool."""
        which = self.target.agent or "the agent"
        if agent.name != self.name:
            raise ConfigError(
                f"{which} is now the agent {agent.name!r}, and the run was begun by {self.name!r}; the run "
                f"still waits: give the agent its name back, then resume"
            )
        missing = [name for name in self.tools if name not in _tools_of(agent)]
        if missing:
            raise ConfigError(
                f"{which} has no tool {', '.join(map(repr, missing))} any more, which it began the run with; "
                f"the run still waits: add the tool, then resume"
            )


def _tools_of(agent: Agent[Any]) -> tuple[str, ...]:
    return tuple(spec.name for spec in agent.runtime.offered())


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _absolute_name(target: str | None) -> str | None:
    """The name of an object with an absolute path, if it is in a file."""
    where, colon, name = (target or "").rpartition(":")
    return f"{Path(where).absolute()}{colon}{name}" if where.endswith(".py") else target
