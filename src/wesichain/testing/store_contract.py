"""The base of the contract suites for stores: each test has a store of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

StoreT = TypeVar("StoreT")
ContractT = TypeVar("ContractT", bound="StoreContract[Any]")


class StoreContract(ABC, Generic[StoreT]):
    """Makes a store for each test, and releases it afterwards."""

    @abstractmethod
    async def make(self) -> StoreT:
        """Return an empty store."""

    async def done(self, store: StoreT) -> None:  # most stores have no resources
        """Release the resources of a store."""


def law(check: Callable[[ContractT, StoreT], Coroutine[Any, Any, None]]) -> Callable[[ContractT], None]:
    """Turn a coroutine into a test without parameters, which pytest would take for fixtures."""

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
    """Run the work in four event loops at once, each in its own thread."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:  # noqa: BLE001  # reported by the waiting thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a call did not return"
    assert failures == []
