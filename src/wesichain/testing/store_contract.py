"""The contract of a store: laws, each a test that is given a store of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

StoreT = TypeVar("StoreT")
ContractT = TypeVar("ContractT", bound="StoreContract[Any]")


class StoreContract(ABC, Generic[StoreT]):
    """How a store is made for each law, and released after it."""

    @abstractmethod
    async def make(self) -> StoreT:
        """An empty store."""

    async def done(self, store: StoreT) -> None:  # most have nothing to release
        """Release it."""


def law(check: Callable[[ContractT, StoreT], Coroutine[Any, Any, None]]) -> Callable[[ContractT], None]:
    """Make a test of a law. It takes no parameters: pytest would look for fixtures of their names."""

    def test(self: ContractT) -> None:
        async def main() -> None:
            store = await self.make()
            try:
                await check(self, store)
            finally:
                await self.done(store)

        asyncio.run(main())

    test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
    return test


def run_in_loops(work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Do the work in four event loops at once, each in a thread of its own."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:  # noqa: BLE001  # told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a call never came back"
    assert failures == []
