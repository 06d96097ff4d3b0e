"""Names of other frameworks and our equivalents, for error messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
HINTS = "the type hints of the function"
DOCSTRING = "the docstring of the function, which is always read"
FINISH = "a tool that returns Finish(value)"
LIMITS = "options=ExecutionOptions(...) of a run, or defaults= of build()"

AGENT = {
    "system_prompt": "instructions",
    "system_message": "instructions",
    "system": "instructions",
    "prompt": "instructions",
    "message_history": "history",
    "messages": "history",
    "dependencies": "deps",
    "context": "deps",
    "session": "conversation",
    "memory": "conversation",
    "llm": "model",
    "max_steps": "budget=Budget(steps=...)",
    "max_turns": "budget=Budget(steps=...)",
    "max_iterations": "budget=Budget(steps=...)",
    "usage_limits": "budget=Budget(...)",
    "recursion_limit": "budget=Budget(steps=...)",
    "prices": "budget=Budget(prices={model: (input, output)})",
    "retries": "policy=SelfCorrect(attempts=...)",
    "max_retries": "policy=SelfCorrect(attempts=...)",
    "result_type": "output_type",
    "response_format": "output_type",
    "response_model": "output_type",
    "callbacks": "events",
    "middlewares": "middleware",
    "guardrails": "middleware=[InputGuard(...)]",
    "input_guardrails": "middleware=[InputGuard(...)]",
    "output_guardrails": "middleware=[OutputGuard(...)]",
    "tool_choice": "settings=ModelSettings(...)",
    "temperature": "settings=ModelSettings(...)",
    "model_settings": "settings=ModelSettings(...)",
    "chat_history": "history",
    "checkpointer": "conversation= of a run, or a graph with a checkpointer",
    "store": "conversation= of a run",
    "output_cls": "output_type",
    "output_validators": "output_checks",
    "final_answer_checks": "output_checks",
    "output_retries": "policy=SelfCorrect(attempts=...)",
    "toolsets": "tools",
    "mcp_servers": "tools=[*server.tools]",
    "managed_agents": "tools=[agent.as_tool()]",
    "handoff_description": "description",
    "history_processors": "context=[...], views of what the model is shown",
    "pre_model_hook": "context=[...], or middleware=[...]",
    "post_model_hook": "middleware=[...]",
    "hooks": "events=, or middleware=[...]",
    "step_callbacks": "events",
    "callback_manager": "events",
    "verbose": "events=ConsoleSink()",
    "verbosity_level": "events=ConsoleSink()",
    "timeout": "budget=Budget(seconds=...)",
    "max_tool_threads": "tool_concurrency",
    "early_stopping_method": "on_limit",
    "additional_args": "deps",
    "thread_id": "conversation",
    "prepare_tools": "tools=[DynamicTools(function)]",
    "tool_retriever": "tools=[ToolSearch(tools)]",
}
TOOL = {
    "args_schema": f"{HINTS}, or a JsonTool with its schema",
    "infer_schema": HINTS,
    "inputs": HINTS,
    "output_type": HINTS,
    "parse_docstring": DOCSTRING,
    "docstring_format": DOCSTRING,
    "use_docstring_info": DOCSTRING,
    "name_override": "name",
    "tool_name": "name",
    "description_override": "description",
    "return_direct": FINISH,
    "result_as_answer": FINISH,
    "stop_after_tool_call": FINISH,
    "needs_approval": "approval",
    "requires_approval": "approval",
    "requires_confirmation": "approval",
    "approval_mode": "approval",
    "external_execution": "external",
    "takes_ctx": "a parameter annotated ToolContext",
    "retries": "policy= of the agent",
    "max_retries": "policy= of the agent",
    "failure_error_function": "policy= of the agent",
    "timeout_seconds": "timeout",
    "strict": "nothing: arguments are always checked",
    "strict_mode": "nothing: arguments are always checked",
    "is_enabled": "tools=[DynamicTools(function)] of the agent",
    "prepare": "tools=[DynamicTools(function)] of the agent",
    "max_usage_count": "budget=Budget(tool_calls=...) of the agent",
    "coroutine": "an async function",
    "async_fn": "an async function",
}
GRAPH = {
    "state_schema": "the first argument, GraphBuilder(State)",
    "context_schema": "context_type",
    "config_schema": "context_type",
    "output_schema": "output_type",
    "input_schema": "input_type= of add_node",
    "retry_policy": "retry",
    "cache_policy": "nothing: a checkpoint keeps what has finished",
    "error_handler": "on_error",
    "destinations": "goto",
    "interrupt_before": LIMITS,
    "interrupt_after": LIMITS,
    "recursion_limit": LIMITS,
    "store": "the graph's state, or context= of a run",
    "debug": "events=ConsoleSink()",
}
THREAD = "options=ExecutionOptions(thread_id=...)"
GRAPH_RUN = {
    "thread_id": THREAD,
    "config": THREAD,
    "recursion_limit": "options=ExecutionOptions(max_steps=...)",
    "max_steps": "options=ExecutionOptions(max_steps=...)",
    "input": "the first argument, the state",
}
PLAYBOOK = {
    "embeddings": "embedder",
    "embedding": "embedder",
    "embedding_function": "embedder",
    "embed_model": "embedder",
    "persist_directory": "the first argument, the path",
    "persist_dir": "the first argument, the path",
    "collection_name": "domain= of record() and retrieve()",
    "namespace": "domain",
    "collection": "domain",
    "top_k": "k",
    "n_results": "k",
    "similarity_top_k": "k",
    "filter": "where",
    "filters": "where",
}
BUDGET = {
    "max_steps": "steps",
    "max_turns": "steps",
    "max_iterations": "steps",
    "recursion_limit": "steps",
    "requests": "steps",
    "request_limit": "steps",
    "max_tokens": "tokens",
    "total_tokens_limit": "tokens",
    "token_limit": "tokens",
    "max_cost": "cost",
    "usd": "cost",
    "timeout": "seconds",
    "max_seconds": "seconds",
    "max_time": "seconds",
    "max_tool_calls": "tool_calls",
    "tool_calls_limit": "tool_calls",
}
IN_TOOLS = "Agent(tools=[function]), or agent.with_tools([function]), which returns a new agent"
METHODS = {
    "Agent": {
        "tool": IN_TOOLS,
        "tool_plain": IN_TOOLS,
        "add_tool": IN_TOOLS,
        "register_tool": IN_TOOLS,
        "bind_tools": IN_TOOLS,
        "system_prompt": "Agent(instructions=...), a text or a function of the context",
        "instructions": "Agent(instructions=...), a text or a function of the context",
        "output_validator": "Agent(output_checks=[function])",
        "invoke": "await agent.run(task), or agent.run_sync(task)",
        "ainvoke": "await agent.run(task)",
        "arun": "await agent.run(task)",
        "run_async": "await agent.run(task)",
        "kickoff": "await agent.run(task), or agent.run_sync(task)",
        "chat": "agent.run(task, conversation=...)",
        "astream": "agent.stream(task)",
        "run_stream": "agent.stream(task)",
        "iter": "agent.iterate(task)",
        "override": "agent.run(task, model=...)",
        "clone": "Agent(...): make another one, an agent is cheap",
    },
    "RunResult": {
        "final_output": "result.output",
        "data": "result.output",
        "content": "result.output",
        "text": "result.output",
        "answer": "result.output",
        "response": "result.output",
        "all_messages": "result.messages",
        "to_input_list": "result.messages",
        "tool_calls": "result.sources, or result.events",
        "intermediate_steps": "result.steps",
        "trace": "result.events",
    },
    "GraphBuilder": {
        "compile": "builder.build()",
        "set_entry_point": "builder.set_entry(name)",
        "set_finish_point": "builder.add_edge(name, END)",
        "set_conditional_entry_point": "builder.add_conditional_edges(START, router)",
        "add_sequence": "builder.add_edge(one, next) for each",
    },
    "Graph": {
        "ainvoke": "await graph.invoke(state); graph.invoke_sync(state) waits",
        "run": "await graph.invoke(state), or graph.invoke_sync(state)",
        "run_sync": "graph.invoke_sync(state)",
        "astream": "graph.stream(state)",
        "aget_state": "await graph.get_state(thread_id)",
        "get_state_history": "graph.history(thread_id)",
        "aupdate_state": "await graph.update_state(...)",
        "get_graph": "graph.to_mermaid()",
    },
    "Playbook": {
        "add": "playbook.record(bullet, domain=...)",
        "add_texts": "playbook.record_all(bullets, domain=...)",
        "add_documents": "playbook.record_all(bullets, domain=...)",
        "similarity_search": "playbook.retrieve(task, domain=...)",
        "query": "playbook.retrieve(task, domain=...)",
        "as_retriever": "playbook= of an agent",
        "delete": "playbook.forget(id=...)",
    },
}


def unknown_keyword(
    where: str, given: Iterable[str], known: Collection[str], words: Mapping[str, str]
) -> ConfigError:
    """The error for an unknown keyword, with a suggestion."""
    wrong = next((name for name in given if name not in known), "")
    return ConfigError(f"{where}() takes no keyword {wrong!r}; {likely(wrong, known, words)}")


def likely(wrong: str, known: Iterable[str], words: Mapping[str, str]) -> str:
    """Suggest a name in place of a wrong one, or list the known names."""
    from difflib import get_close_matches  # only for error messages

    names = sorted(known)
    meant = words.get(wrong)
    if meant is None:
        near = get_close_matches(wrong, names, n=1)
        meant = near[0] if near else None
    return f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"


def names_ours(words: Mapping[str, str], more: Iterable[str] = ()) -> Callable[[F], F]:
    """Decorate a function so that an unknown keyword raises a `ConfigError` with a suggestion.

    `more` are the valid keywords of a function that takes `**options`.
    """

    def decorate(function: F) -> F:
        code = function.__code__
        named = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # without self or cls
        known = frozenset((*named, *more))
        where = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not options.keys() <= known:
                raise unknown_keyword(where, options, known, words)
            return function(*args, **options)

        return call  # type: ignore[return-value]  # the signature is unchanged

    return decorate


class Translated:
    """A base class that suggests our method for the name of another framework's."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers must still report unknown attributes
        __iter__ = None  # Python would iterate by `__getitem__`

        def __getitem__(self, name: object) -> Any:
            cls = type(self).__name__
            known = isinstance(name, str) and hasattr(type(self), name)
            meant = f".{name}" if known else METHODS.get(cls, {}).get(name)
            remedy = f": write {meant}" if meant else ""
            raise TypeError(f"{cls} has attributes, not items, and so no [{name!r}]{remedy}")

        def __getattr__(self, name: str) -> Any:
            for cls in type(self).__mro__:
                if name in (words := METHODS.get(cls.__name__, {})):
                    raise AttributeError(f"{cls.__name__} has no {name!r}; it is {words[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
