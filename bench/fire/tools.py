"""The tools of the runs under fire, for frameworks that await their tools."""

import asyncio


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


async def explode() -> str:
    """Do something that fails."""
    raise RuntimeError("boom")


async def slow() -> str:
    """Do something that takes a minute."""
    await asyncio.sleep(60)
    return "done"


TOOLS = [add, explode, slow]
