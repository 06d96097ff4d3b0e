"""Run the experiment, or write its page: `python -m experiments.learning --model PROVIDER:NAME`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from pathlib import Path

from wesichain.agent.internal import resolve_model
from wesichain.core import ToolCallingLlm
from wesichain.llm.local import LocalLlm

from .harness import ARMS, Log, Plan, play
from .report import page
from .world import World, read_worlds

RESULTS = Path(__file__).with_name("results")


def model_of(name: str, base_url: str | None) -> ToolCallingLlm:
    provider, _, model = name.partition(":")
    if provider == "local":
        return (
            LocalLlm(model, base_url=base_url, max_tokens=200)
            if base_url
            else LocalLlm(model, max_tokens=200)
        )
    if base_url:
        os.environ["OPENAI_BASE_URL"] = base_url
    return resolve_model(name)


async def carry_out(given: argparse.Namespace, log: Log) -> bool:
    worlds = read_worlds()
    plan = Plan(
        model_of(given.model, given.base_url),
        training=given.training,
        held_out=given.held_out,
        passes=given.passes,
        at_once=given.at_once,
        prompt=given.prompt,
    )
    chosen = given.worlds.split(",") if given.worlds else [world.name for world in worlds]

    async def one(arm: str, world: World) -> bool:
        try:
            await play(world, arm, plan, log=log, others=worlds)
        except Exception:  # noqa: BLE001  # the other arms go on, and the log says what is missing
            print(f"{arm} in {world.name} failed:\n{traceback.format_exc()}", flush=True)
            return False
        print(f"{arm:16} {world.name:10} {len(log.lines)} runs in the log", flush=True)
        return True

    mine = [world for world in worlds if world.name in chosen]
    done = await asyncio.gather(*(one(arm, world) for arm in given.arms.split(",") for world in mine))
    return all(done)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="local:qwen2.5-coder-1.5b", help="PROVIDER:NAME")
    options.add_argument("--base-url", help="a llama.cpp server (local:) or one with OpenAI's API (openai:)")
    options.add_argument("--arms", default=",".join(ARMS))
    options.add_argument("--worlds", default="", help="names, with commas; all unless given")
    options.add_argument("--training", type=int, default=24)
    options.add_argument("--held-out", type=int, default=40)
    options.add_argument("--passes", type=int, default=1, help="over the training tasks")
    options.add_argument("--at-once", type=int, default=8, help="runs of one arm in one world")
    options.add_argument(
        "--prompt", type=Path, help="another prompt of the reflector, for the prompt's family"
    )
    options.add_argument("--out", type=Path, default=RESULTS)
    options.add_argument("--page", action="store_true", help="only write the page from the log")
    given = options.parse_args()
    stem = given.model.replace(":", "-").replace("/", "-")
    folder: Path = given.out / stem
    complete = True
    if not given.page:  # a process with some worlds writes a log of its own
        log = Log(folder / f"{given.worlds.replace(',', '-') or 'all'}.jsonl")
        complete = asyncio.run(carry_out(given, log))
    logs = [path for path in sorted(folder.glob("*.jsonl*")) if "lessons" not in path.name]
    lines = [line for path in logs for line in Log(path).lines]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(page(lines, model=given.model) + "\n", encoding="utf-8")
    print((folder / "README.md").read_text())
    sys.exit(not complete)


if __name__ == "__main__":
    main()
