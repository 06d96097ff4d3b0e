"""What docs/house.py says of each room in words: what it holds now and did not then, and which files brought it."""

from __future__ import annotations

FRONT = "front door"

HOLDS = {
    "cli": "files of tasks and evaluations, durable runs operated, learning from marks, prompts that a signal ends",
    "web": "the workbench: an agent to talk to, forks, marks, filters, statistics, a database of durable runs",
    "testing": "contract suites for providers, conversations and logs",
    "graph": "an agent as a node, `react_graph` in steps, migrations, what was done once kept in a thread, parts",
    "learning": "evidence by comparison, advice that quotes nobody, forgetting, lessons in a model's words",
    "durable": "graphs, child runs, versions and adoption, limits and leases, a database of its own, an operator's view",
    "evals": "the room: cases, scores, a judge, two versions compared",
    "agent": "the tree of runs, handoffs, middleware, kept conversations, typed answers, replay of a whole tree",
    "middleware": "the room: what stands around runs, model calls and tool calls; guards",
    "tools": "isolation in a process that sees nothing, MCP in whole, tool search, dynamic tools, media, `Finish`",
    "policy": "prices of the cache, free retries, `SelfCorrect`, one account for a tree",
    "llm": "Gemini, Bedrock, the Responses API, media, a local server with tools, text that is refused rather than guessed",
    "context": "the room: views between a run's log and its requests",
    "trace": "`instrument()`, parts beside a recording, secrets in disguise and in sentences",
    "store": "the room: one log for whoever keeps something, on four backends",
    "core": "parts, spending of caches, one compiled codec, tokens that cancel downhill, doors that load later",
    "errors": "errors of handoffs, guards, truncated and refused replies, durable runs",
    FRONT: "our word for what other frameworks call otherwise, in errors",
}

# For each room what its new files brought, and which they are. The first that fits has a file.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "cli": {
        "batches of tasks, and evaluations": ("tasks/*",),
        "durable runs operated and served (the worker was there)": ("durable_runs.py",),
        "learning from marked runs": ("learning.py",),
        "runs at a terminal, with their approvals": ("terminal_run.py",),
        "the workbench served": ("serving.py",),
    },
    "web": {
        "an agent talked to in the page, forks, live runs": ("desk.py", "workbench.py"),
        "statistics and filters over all runs": ("digests.py", "queries.py"),
        "good and bad marks": ("marks.py",),
        "durable runs": ("run_database.py",),
    },
    "testing": {
        "contract suites": ("*",),
    },
    "graph": {
        "an agent as a node, and `react_graph` as the loop in steps": ("react/*",),
        "states of older programs": ("checkpoints/migrating.py",),
        "pictures, documents and sounds in threads": ("checkpoints/parts.py",),
        "what is pending stored by name; checkpoints over the common store": ("checkpoints/*",),
        "streams of several modes": ("watch/*",),
        "threads looked at, written to and forked, which the graph did itself": ("threads.py",),
        "visits to a node, with what was done in them (was in three files)": ("performing/node_run.py",),
        "deprecated names": ("renamed.py",),
    },
    "learning": {
        "evidence by comparison: who is shown what, and what that says": (
            "advising.py",
            "crediting.py",
            "entities/evidence.py",
        ),
        "lessons in a model's words, of words that quote nobody": (
            "model_reflector.py",
            "vocabulary.py",
            "entities/wording.py",
        ),
        "rules about arguments, formats and order": ("entities/forms.py",),
        "strategies split by the word that tells their tasks apart": ("entities/conditions.py",),
        "forgetting": ("storage/erasing.py",),
        "steps of a trace (were in the tasks)": ("entities/steps.py",),
    },
    "durable": {
        "graphs": ("graph.py", "questions.py", "journal/telling.py"),
        "child runs": ("journal/inside.py", "store/children.py"),
        "versions, and runs adopted by another program": ("versions.py",),
        "limits per queue, worker and key": ("store/queue.py",),
        "leases, and runs of dead processes": ("store/leases.py",),
        "the operator's view": ("runs.py", "findings.py"),
        "DBOS in one file, and a journal of our own under the loop (were the engine's)": (
            "workflows.py",
            "work.py",
            "execution.py",
            "journal/*",
            "store/*",
        ),
    },
    "evals": {"evaluations": ("*",)},
    "agent": {
        "the tree of runs: calls, their sites, questions and decisions (one batch before)": ("calls/*",),
        "handoffs, and tools that change between steps": ("handing/*", "rules/handoff.py"),
        "middleware": ("wrapping/*",),
        "kept conversations, windows": ("memory/*",),
        "exact replay of a tree, of interrupted and of cut-off runs (one file before)": ("replaying/*",),
        "typed answers, their checks, streamed answers": (
            "rules/answers.py",
            "rules/checks.py",
            "stream_relay.py",
        ),
        "context views in the loop": ("turn/showing.py",),
        "results, streams and steps of a run": ("results/*",),
        "the loop's halves, which were in larger files": (
            "turn/*",
            "rules/reply_judge.py",
            "run_under_way.py",
            "outcomes.py",
        ),
        "options checked in one place, and typed for both checkers": ("options.py", "keywords.py"),
        "names of more providers": ("model_names.py",),
    },
    "middleware": {"middleware and guards": ("*",)},
    "tools": {
        "isolation: a clean process, limits, nothing left behind": ("isolated/*", "isolation.py"),
        "MCP: sessions, resources, prompts, questions, a server (client and server were two files)": (
            "mcp/*",
        ),
        "tools found by search, tools that change": ("tool_search.py", "tool_sources.py"),
        "pictures, documents and sounds as results": ("media.py",),
        "a result that ends the run": ("finish.py",),
        "failures in bounded words": ("failures.py",),
    },
    "llm": {
        "Gemini and Vertex": ("google/*",),
        "Claude on Bedrock": ("bedrock/*",),
        "the Responses API": ("openai/*",),
        "pictures, documents and sounds": ("media_blocks.py",),
        "calls and thinking that a server left in the text": (
            "leaks.py",
            "react_text/native.py",
            "react_text/thinking.py",
        ),
        "text that is refused rather than guessed": ("react_text/doubt.py",),
        "a local model elsewhere, served, and held to the values of its conversation": ("local/*",),
        "what the clients have in common (was written twice)": ("transport/model.py",),
    },
    "context": {"context views": ("*",)},
    "trace": {
        "spans that are current, metrics, content (one file before)": ("otel/*",),
        "parts beside a recording": ("recordings/parts_folder.py",),
        "secrets in disguise, in commands and in sentences": ("redaction/*",),
    },
    "store": {"one store of logs": ("*",)},
    "core": {
        "one codec, compiled (two files before)": ("codec/*",),
        "pictures, documents and sounds": ("content.py",),
        "tokens of caches, and their prices": ("spending.py",),
        "names that a door loads when they are first used": ("later.py",),
        "requests put together again from events": ("told_messages.py",),
        "clocks and tokens that cancel downhill (the clock was there)": ("waiting.py",),
    },
    FRONT: {"our word for what other frameworks call otherwise": ("_elsewhere.py",)},
}
