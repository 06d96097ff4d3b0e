"""The tools of the runs under fire, for frameworks that call plain functions."""

import time


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


def explode() -> str:
    """Do something that fails."""
    raise RuntimeError("boom")


def slow() -> str:
    """Do something that takes a minute."""
    time.sleep(60)
    return "done"


TOOLS = [add, explode, slow]
