"""Run the parts of the experiment: training in waves, held-out tasks at once, no run made twice."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from wesichain.core import ToolCallingLlm
from wesichain.learning import Embedder, TaskOutput

from . import registers
from .arms import History, NearestCase, SeatFor, baseline, manual
from .dice import Dice
from .models import IMPORTANCE, Models
from .plan import (
    OFFLINE_ARMS,
    ONLINE_ARMS,
    ORDER,
    OUR_EXAMPLES,
    SETTLED,
    STRESS_ARMS,
    UNLISTED,
    WAVE,
    Label,
    Part,
    asked,
    label,
)
from .play import Place, Played, Seat, output_of, play
from .rules import touched_by_drift
from .skins import SKINS
from .store import Key, Store
from .values import Desk, Task, World
from .wordings import RULES, SAYINGS, WAYS, Told, taught
from .world import FOURTH, Round, Variant, build

DICE_THROWS = 3
T = TypeVar("T")
_PILOT_ARMS = ("dice", "baseline", "manual")
_SEATS: dict[str, SeatFor] = {"baseline": baseline, "manual": manual}


class Pupil(Protocol):
    """Whoever is taught at one desk: `learn` takes a run in, `settle` waits until all are taken in."""

    async def seat(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat: ...

    async def learn(self, task: Task, question: str, output: TaskOutput, label: Label) -> None: ...

    async def settle(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class School(Protocol):
    """Makes pupils, each with what it remembers in a folder."""

    @property
    def embedder(self) -> Embedder: ...

    def pupil(self, arm: str, folder: Path) -> Pupil: ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """Where runs are kept, who makes them, and how hard and how large the worlds are."""

    store: Store
    models: Models
    school: School
    level: int
    train: int = 8
    test: int = 4
    revision: str = ""
    one_call: bool = False  # only families of one call, for a model that manages no more
    desks: tuple[str, ...] = ()  # only these, where there are any
    round: Round = FOURTH
    _making: dict[Key, asyncio.Lock] = field(default_factory=dict[Key, asyncio.Lock])

    async def everything(self, worlds: Sequence[str], arms: Sequence[str]) -> None:
        """All parts at once; whenever there is room for a run, the most important one is made."""
        learned = {(world, arm): asyncio.Event() for world in worlds for arm in ONLINE_ARMS if arm in arms}
        fresh_first = sorted(worlds, key=lambda world: world not in self.round.fresh)
        await together(
            *(
                self._step(10 * at + (0 if part == "main" else place), part, world, wanted, learned)
                for at, (part, chosen) in enumerate(ORDER)
                for place, world in enumerate(fresh_first)
                if (wanted := [arm for arm in chosen if arm in arms])
            )
        )

    async def _step(
        self,
        importance: int,
        part: Part,
        world: str,
        arms: Sequence[str],
        learned: Mapping[tuple[str, str], asyncio.Event],
    ) -> None:
        IMPORTANCE.set(importance)
        if part == "main":
            await self.main(world, arms)
            for arm in ONLINE_ARMS:
                if arm in arms:
                    learned[world, arm].set()
        else:
            for arm in ONLINE_ARMS:
                if part == "drift" and arm in arms:  # it goes on with what main has taught
                    await learned[world, arm].wait()
            await self.stress(part, world, arms)

    async def wording(self, world: str) -> None:
        """What a perfect learner would say in the pilot's world, in several wordings: which is followed?"""
        known = taught(SKINS[world])
        work: list[Coroutine[Any, Any, None]] = []
        for desk in one_call_of(self._world(world)).desks:
            is_search = desk.name == registers.NAME
            tasks = [task for task in desk.test if is_search or task.family.partition("_")[0] in known]
            few = replace(desk, test=tuple(tasks))
            asking = replace(few, test=tuple(task for task in tasks if task.goal.answer))
            for saying in (*WAYS, *SAYINGS) if is_search else RULES:
                told = Told(world, self.level, saying)
                place = Place(saying, "wording", world)
                work.append(self._test(place, asking if saying in SAYINGS else few, told))
        await together(*work)

    async def pilot(self, world: str, name: str = "pilot") -> None:
        """Dice, baseline and manual in the pilot's world, at every level."""
        worlds = {level: build(world, level=level, train=self.train, test=self.test) for level in (1, 2, 3)}
        for level, there in worlds.items():
            self.store.plan(key for arm in _PILOT_ARMS for key in planned(f"{name}-{level}", there, arm))
        await together(
            *(self._plain(f"{name}-{level}", there, _PILOT_ARMS) for level, there in worlds.items())
        )

    async def main(self, world: str, arms: Sequence[str]) -> None:
        """All arms in one world."""
        await self._part("main", self._world(world), arms)

    async def short(self, world: str) -> None:
        """Four families of search, a training task and a held-out task each: minutes, and no evidence."""
        there = self._world(world)
        desk = there.desks[-1]
        train, test = (
            tuple(task for task in tasks if task.family.startswith("shelf_"))
            for tasks in (desk.train, desk.test)
        )
        few = replace(there, desks=(replace(desk, train=train, test=test),))
        await self._part("main", few, ("baseline", "manual", "full"))

    async def stress(self, part: Part, world: str, arms: Sequence[str]) -> None:
        """One disturbance in one world."""
        chosen = [arm for arm in STRESS_ARMS[part] if arm in arms]
        if part == "drift":
            there = self._world(world, "drifted")
            await together(
                *(self._drifting(Place(arm, part, world), desk) for desk in there.desks for arm in chosen)
            )
            return
        there = world_of(part, world, level=self.level, train=self.train, test=self.test)
        await self._part(part, self._few(there), chosen)

    # --- arms ---

    def _world(self, name: str, variant: Variant = "plain") -> World:
        return self._few(build(name, level=self.level, train=self.train, test=self.test, variant=variant))

    def _few(self, world: World) -> World:
        """What of a world is played."""
        there = one_call_of(world) if self.one_call else world
        chosen = (desk for desk in there.desks if not self.desks or desk.name in self.desks)
        return replace(there, desks=tuple(chosen))

    async def _plain(self, part: str, world: World, arms: Sequence[str]) -> None:
        """The arms that remember nothing."""
        throws = DICE_THROWS if "dice" in arms else 0
        dice = Place("dice", part, world.name)
        await together(
            *(
                self._throw(dice, desk, task, order)
                for desk in world.desks
                for task in desk.test
                for order in range(throws)
            ),
            *(
                self._test(Place(arm, part, world.name), desk, _SEATS[arm])
                for arm in arms
                if arm in _SEATS
                for desk in world.desks
            ),
        )

    async def _part(self, part: Part, world: World, arms: Sequence[str]) -> None:
        """All that an arm does at one desk is in order; arms and desks go side by side."""
        self.store.plan(key for arm in arms for key in planned(part, world, arm))
        online = [arm for arm in arms if arm in ONLINE_ARMS]
        offline = [arm for arm in arms if arm in ("history", "case", *OFFLINE_ARMS)]
        await together(
            *(
                self._taught(part, Place(arm, part, world.name), desk, again=again_of(arm, arms))
                for arm in online
                for desk in world.desks
            ),
            *(self._remembering(part, world, desk, offline) for desk in world.desks if offline),
            self._plain(part, world, arms),
        )

    async def _remembering(self, part: Part, world: World, desk: Desk, arms: Sequence[str]) -> None:
        """The arms that are taught by plain runs of the training tasks; those are made once for all parts."""
        place = Place("baseline", "plain-train", world.name)
        runs = await together(*(self._remembered(place, desk, task) for task in desk.train))
        await together(
            *(
                self._reminded(part, Place(arm, part, world.name), desk, runs)
                for arm in arms
                if arm in OFFLINE_ARMS
            )
        )
        if "history" in arms:
            await self._test(Place("history", part, world.name), desk, History(runs))
        if "case" in arms:
            nearest = await asyncio.to_thread(NearestCase, runs, self.school.embedder)
            await self._test(Place("case", part, world.name), desk, nearest)

    async def _remembered(self, place: Place, desk: Desk, task: Task) -> Played:
        key = (place.part, place.arm, task.id, 0)
        async with self._making.setdefault(key, asyncio.Lock()):  # wanted by several parts at once
            return await self._once(place, desk, task, baseline)

    async def _reminded(self, part: Part, place: Place, desk: Desk, runs: Sequence[Played]) -> None:
        """Teach an arm from runs that were made without it, then the held-out tasks."""
        folder = await self._emptied(place, desk)
        pupil = self.school.pupil(place.arm, folder)
        try:
            for task, run in zip(desk.train, runs, strict=True):
                told = label(part, task, success=run.success, why=run.why)
                await pupil.learn(task, asked(part, task), output_of(run, desk), told)
                await pupil.settle()
            await self._test(place, desk, pupil.seat)
        finally:
            pupil.close()

    async def _taught(self, part: Part, place: Place, desk: Desk, *, again: Sequence[str]) -> None:
        """Train at one desk, wave by wave, then the held-out tasks; nothing is learned from those.

        These are made again in the arms that tell what was learned in another way.
        """
        folder = await self._emptied(place, desk)
        pupil = self.school.pupil(place.arm, folder)
        try:
            training = replace(place, part=f"{part}-train")
            await self._train(part, training, desk, pupil, waves(desk.train, WAVE))
        finally:
            pupil.close()
        for arm in (*again, place.arm):
            pupil = self.school.pupil(arm, folder)
            try:
                await self._test(replace(place, arm=arm), desk, pupil.seat)
            finally:
                pupil.close()

    async def _drifting(self, place: Place, desk: Desk) -> None:
        """The world has changed under what `main` taught: the families concerned, two runs at a time."""
        touched = touched_by_drift(SKINS[place.world])
        tasks = [task for task in desk.train if task.family in touched]
        if place.arm == "baseline":
            await together(*(self._once(place, desk, task, baseline) for task in tasks))
            return
        before, folder = self._folder(replace(place, part="main"), desk), await self._emptied(place, desk)
        if before.exists():
            await asyncio.to_thread(shutil.copytree, before, folder)
        pupil = self.school.pupil(place.arm, folder)
        try:
            await self._train("drift", place, desk, pupil, waves(tasks, 2))
        finally:
            pupil.close()

    def _folder(self, place: Place, desk: Desk) -> Path:
        return self.store.folder / "playbooks" / place.part / place.arm / place.world / desk.name

    async def _emptied(self, place: Place, desk: Desk) -> Path:
        """Its folder, without what it held before a stop: that is learned again, from the log."""
        folder = self._folder(place, desk)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return folder

    async def _train(
        self, part: Part, place: Place, desk: Desk, pupil: Pupil, tasks: Sequence[Sequence[Task]]
    ) -> None:
        """Wave by wave; of one that was made before, only what it taught is learned again."""
        for order, wave in enumerate(tasks):
            known = [self.store.get((place.part, place.arm, task.id, order)) for task in wave]
            made = [run for run in known if run is not None]
            is_new = len(made) < len(wave)
            if is_new:
                making = (
                    self._make(place, desk, task, pupil.seat, question=asked(part, task), training=True)
                    for task in wave
                )
                made = [replace(run, order=order) for run in await together(*making)]
            for task, run in zip(wave, made, strict=True):
                told = label(part, task, success=run.success, why=run.why)
                await pupil.learn(task, asked(part, task), output_of(run, desk), told)
            learned = await pupil.settle()
            for run in made if is_new else ():
                self.store.add(replace(run, learning=learned))

    # --- runs ---

    async def _test(self, place: Place, desk: Desk, seat: SeatFor) -> None:
        await together(*(self._once(place, desk, task, seat) for task in desk.test))

    async def _throw(self, place: Place, desk: Desk, task: Task, order: int) -> None:
        if self.store.get((place.part, place.arm, task.id, order)) is None:
            seat = await baseline(Dice(f"{task.id}/{order}"), desk, task)
            run, _outcome = await play(seat, desk, task, place)
            self.store.add(replace(run, order=order, revision=self.revision))

    async def _once(self, place: Place, desk: Desk, task: Task, seat: SeatFor) -> Played:
        run = self.store.get((place.part, place.arm, task.id, 0))
        if run is None:
            run = await self._make(place, desk, task, seat, question=task.question)
            self.store.add(run)
        return run

    async def _make(
        self, place: Place, desk: Desk, task: Task, seat: SeatFor, *, question: str, training: bool = False
    ) -> Played:
        async with self.models.one(training=training) as llm:
            run, _outcome = await play(await seat(llm, desk, task), desk, task, place, question=question)
        return replace(run, revision=self.revision)


def again_of(arm: str, arms: Sequence[str]) -> list[str]:
    """The arms that tell what this one has learned in another way."""
    known = (SETTLED[arm], UNLISTED, OUR_EXAMPLES) if arm == "full" else (SETTLED[arm],)
    return [other for other in known if other in arms]


def world_of(part: str, world: str, *, level: int, train: int = 8, test: int = 4) -> World:
    """The world as a part has it. Where articles are sealed, only their desk differs."""
    if part != "conditional":
        return build(world, level=level, train=train, test=test)
    there = build(world, level=level, train=train, test=test, variant="conditional")
    return replace(there, desks=tuple(desk for desk in there.desks if desk.name == registers.NAME))


def one_call_of(world: World) -> World:
    """The world's families of one call."""
    desks: list[Desk] = []
    for desk in world.desks:
        short = {family.name for family in desk.families if family.calls == 1}
        train, test = (
            tuple(task for task in tasks if task.family in short) for tasks in (desk.train, desk.test)
        )
        desks.append(replace(desk, train=train, test=test))
    return replace(world, desks=tuple(desks))


def planned(part: str, world: World, arm: str) -> Iterator[Key]:
    """The runs that an arm needs in a part."""
    for desk in world.desks:
        if arm in ("history", "case", *OFFLINE_ARMS):
            yield from (("plain-train", "baseline", task.id, 0) for task in desk.train)
        if arm in ONLINE_ARMS:
            for order, wave in enumerate(waves(desk.train, WAVE)):
                yield from ((f"{part}-train", arm, task.id, order) for task in wave)
        for order in range(DICE_THROWS if arm == "dice" else 1):
            yield from ((part, arm, task.id, order) for task in desk.test)


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All of it side by side; what fails ends the rest at once, so that nothing is written after it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]


def waves(tasks: Sequence[Task], size: int) -> list[Sequence[Task]]:
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]
