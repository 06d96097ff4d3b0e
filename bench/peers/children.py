"""Child processes: started one at a time, read line by line, stopped when they take too long."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .environments import ROOT


class StoppedError(Exception):
    """The child wrote no line within its time limit."""


class CrashedError(Exception):
    """The child ended early; the message is the last line of its standard error."""


async def lines_of(
    python: Path, *arguments: str, environ: dict[str, str], limit: float
) -> AsyncIterator[Any]:
    """The JSON lines that the child writes; no line may take longer than `limit` seconds."""
    with tempfile.TemporaryFile() as errors:
        child = await asyncio.create_subprocess_exec(
            str(python),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=environ,
            cwd=ROOT,
        )
        assert child.stdout is not None
        try:
            while line := await asyncio.wait_for(child.stdout.readline(), limit):
                yield json.loads(line)
            if await child.wait():
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines()
                raise CrashedError(said[-1][:160] if said else f"exit status {child.returncode}")
        except TimeoutError:
            raise StoppedError(f"stopped after {limit:.0f} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
