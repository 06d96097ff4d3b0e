"""A framework and a fault: runs the agent and prints how the run ended for the caller."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.peers.results import Cell

from . import blocking_tools, tools
from .faults import BEST, FAULTS, Fault

QUESTION = "Add 1 and 2 and tell me the sum."


async def attempt(
    adapter: Any, online: Callable[..., Any], url: str, fault: Fault, say: Callable[[Cell], None]
) -> None:
    """Run with the fault and print how it ended. The parent process stops a run that does not end."""
    functions = blocking_tools.TOOLS if getattr(adapter, "BLOCKING", False) else tools.TOOLS
    with contextlib.suppress(Exception):  # what is loaded at first use should not count
        await online(f"{url}/calm/v1", functions, tool_timeout=None)(QUESTION)
    run = online(f"{url}/v1", functions, tool_timeout=fault.tool_timeout)
    started = time.monotonic()

    def ended(how: str, detail: str) -> None:
        say({"ended": how, "detail": detail, "seconds": time.monotonic() - started, "requests": 0})

    try:
        text, status = await run(QUESTION)
    except Exception as error:
        cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
        ended("exception", f"{type(error).__name__}{cause}")
    else:
        ended("status" if status else "text", status or str(text)[:160])


def main() -> None:
    row, url, fault_name = sys.argv[1:]
    name = row.removesuffix(BEST)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    adapter = importlib.import_module(f"bench.peers.adapters.{name}")
    online = adapter.online if row == name else adapter.best
    (fault,) = (fault for fault in FAULTS if fault.name == fault_name)

    def say(cell: Cell) -> None:
        print(json.dumps(cell), file=out, flush=True)
        os._exit(0)  # at once: threads and tasks may be left that would never end

    asyncio.run(attempt(adapter, online, url, fault, say))


if __name__ == "__main__":
    main()
