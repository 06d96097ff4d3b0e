"""Checkpoints in memory."""

from __future__ import annotations

from typing_extensions import override

from tests.graph.checkpointer_contract import CheckpointerContract
from wesichain.graph import Checkpointer, MemoryCheckpointer


class TestMemoryCheckpointer(CheckpointerContract):
    @override
    async def make(self) -> Checkpointer:
        return MemoryCheckpointer()
