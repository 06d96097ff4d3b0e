"""The error rate of the gate: thousands of its runs over noise that was measured on identical code.

    python -m bench.gate.simulate [--runs N]      what the kept noise says
    python -m bench.gate.simulate --record N      measure the noise of this machine anew, N rounds

A round's ratios are drawn from those of the scenario. The two sides of the measurement were the same code,
so each ratio is as likely as its reciprocal. A planted loss multiplies one scenario's ratios.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.scenarios import SCENARIOS

from .compare import Comparison
from .judge import Rounds, Verdict, is_decided, is_suspect, judge_cpu
from .sides import ROOT, build

NOISE = Path(__file__).with_name("noise.json")
Ratios = Sequence[tuple[float, float]]  # p50 and p95, one pair a round
Noise = Mapping[str, Ratios]  # by scenario, of identical code


def read_noise() -> Noise:
    kept: Noise = json.loads(NOISE.read_text(encoding="utf-8"))["ratios"]
    return kept


def gate_run(
    noise: Noise, chance: random.Random, *, loss: Mapping[str, float], scale: float = 1.0
) -> Verdict:
    """A run of the gate over random rounds; the worst verdict of all scenarios."""
    worst = Verdict.PASSED
    for name, ratios in noise.items():

        def measured(ratios: Ratios = ratios, factor: float = loss.get(name, 1.0)) -> Rounds:
            rounds = Rounds()
            while not is_decided(rounds):
                p50, p95 = chance.choice(ratios)
                power = scale if chance.random() < 0.5 else -scale
                rounds = rounds.and_also(p50**power * factor, p95**power * factor)
            return rounds

        rounds = measured()
        again = measured() if is_suspect(rounds) else Rounds()
        for finding in judge_cpu(name, rounds, again):
            if finding.verdict is Verdict.BLOCKED:
                return Verdict.BLOCKED
            worst = finding.verdict
    return worst


def share(
    noise: Noise,
    verdict: Verdict,
    *,
    runs: int,
    seed: int = 0,
    loss: Mapping[str, float] | None = None,
    scale: float = 1.0,
) -> float:
    """The share of runs of the gate with this verdict."""
    chance = random.Random(seed)
    ends = [gate_run(noise, chance, loss=loss or {}, scale=scale) for _ in range(runs)]
    return ends.count(verdict) / runs


def record(rounds: int) -> None:
    """Measure this checkout against itself, and store the ratios."""
    names = [scenario.name for scenario in SCENARIOS if scenario.gated]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sides = [build(name, ROOT / "src", folder) for name in ("base", "tree")]
        comparison = Comparison.of(sides[0], sides[1], names)
        for number in range(rounds):
            comparison.measure_round(names, swapped=number % 2 == 1)
            print(f"round {number + 1} of {rounds}", flush=True)
    broken = [f"{name}: {result.error}" for name, result in comparison.results.items() if result.error]
    if broken:
        raise SystemExit(f"nothing is kept, since these failed: {broken}")
    ratios = {
        name: [
            [round(p50, 4), round(p95, 4)]
            for p50, p95 in zip(result.rounds.p50, result.rounds.p95, strict=True)
        ]
        for name, result in comparison.results.items()
    }
    about = (
        "p50 and p95 of identical code against itself, one pair a round; made by bench.gate.simulate --record"
    )
    lines = ",\n".join(f'    "{name}": {json.dumps(pairs)}' for name, pairs in ratios.items())
    NOISE.write_text(f'{{\n  "about": "{about}",\n  "ratios": {{\n{lines}\n  }}\n}}\n', encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=20_000)
    options.add_argument("--record", type=int, metavar="ROUNDS")
    given = options.parse_args()
    if given.record:
        record(given.record)
    noise, runs = read_noise(), given.runs
    fewest = min(map(len, noise.values()))
    print(f"{len(noise)} scenarios, {fewest} measured rounds each, {runs:,} simulated runs")
    for scale, words in ((1.0, "as measured"), (1.5, "half as much again")):
        blocked = share(noise, Verdict.BLOCKED, runs=runs, scale=scale)
        review = share(noise, Verdict.REVIEW, runs=runs, scale=scale)
        print(f"identical code, noise {words}: blocked {blocked:.3%}, review {review:.3%}")
    for factor in (1.12, 1.15, 1.20):
        caught = [
            share(noise, Verdict.BLOCKED, runs=max(100, runs // 50), loss={name: factor}) for name in noise
        ]
        print(f"{factor - 1:.0%} slower, one scenario: blocked {min(caught):.1%} to {max(caught):.1%}")


if __name__ == "__main__":
    main()
