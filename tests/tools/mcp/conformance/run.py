"""Runs the official conformance suite of MCP against our server and our client, and writes its verdicts.

    python -m tests.tools.mcp.conformance.run [--write] [SCENARIO ...]

The suite is a package of npm, installed once below the folder that `WESICHAIN_CONFORMANCE` names (by default
in the folder for temporary files), with a node that it can run on. `--write` puts the table into
docs/howto/mcp.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "howto" / "mcp.md"
MARKS = ("<!-- conformance -->", "<!-- end of conformance -->")
VERSION = "0.2.0-alpha.12"
SUITE = "@modelcontextprotocol/conformance"
NODE = "node@22"  # the suite uses what older ones have not
WIRES = ("2025-11-25", "2026-07-28")  # the last protocol with the handshake, and the first without

# What we do not offer, and why: all are optional extensions of the protocol.
NOT_OFFERED = {
    "tasks-*": "the tasks extension: a run that outlives its request is a durable run",
    "sep-2640-*": "the skills extension",
    "auth/dpop*": "DPoP: the SDK has no provider for it",
    "auth/wif-jwt-bearer": "workload identity federation: the SDK has no provider for it",
}


@dataclass(frozen=True)
class Scenario:
    """A scenario of the suite, at one version of the protocol ("" for extensions)."""

    side: str
    name: str
    version: str

    @property
    def why_not(self) -> str | None:
        return next((why for pattern, why in NOT_OFFERED.items() if fnmatch(self.name, pattern)), None)


@dataclass(frozen=True)
class Verdict:
    """What the suite says of one scenario."""

    scenario: Scenario
    passed: int
    failed: int
    warnings: int
    errors: str

    @property
    def is_good(self) -> bool:
        return self.failed == 0 and self.errors == ""


def command() -> list[str] | None:
    """How the suite is started; None where there is no npm to get it with."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    default = Path(tempfile.gettempdir()) / f"mcp-conformance-{VERSION}"
    folder = Path(os.environ.get("WESICHAIN_CONFORMANCE") or default)
    program = folder / "node_modules" / SUITE / "dist" / "index.js"
    node = folder / "node_modules" / ".bin" / "node"
    if not (program.exists() and node.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [f"{SUITE}@{VERSION}", NODE]
        installed = subprocess.run(
            [npm, "install", "--prefix", str(folder), *wanted], capture_output=True, text=True, check=False
        )
        if not (program.exists() and node.exists()):
            print(installed.stderr[-2_000:], file=sys.stderr)
            return None
    return [str(node), str(program)]


def scenarios(suite: list[str]) -> list[Scenario]:
    """All scenarios for servers and clients, each at the wires that it applies to, else at its newest."""
    listed = subprocess.run([*suite, "list"], capture_output=True, text=True, check=True).stdout
    found: list[Scenario] = []
    side = ""
    for line in listed.splitlines():
        if heading := re.match(r"(Server|Client|Authorization server) scenarios", line):
            side = heading[1].lower()
        elif (row := re.match(r"\s*- (\S+) \[(\S+)\]", line)) and side in ("server", "client"):
            versions = row[2].split(",")
            chosen = [each for each in versions if each in WIRES] or versions[-1:]
            found += [Scenario(side, row[1], "" if each == "extension" else each) for each in chosen]
    return found


@contextmanager
def our_server() -> Iterator[str]:
    """The address of our server, for as long as the context is entered."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tools.mcp.conformance.server"],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        address = next(line.strip() for line in process.stderr if "http://" in line)
        yield address
    finally:
        process.terminate()
        process.wait(20)
        assert process.stderr is not None
        process.stderr.close()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def run(suite: list[str], scenario: Scenario, url: str) -> Verdict:
    """One scenario; its checks are read from the file that the suite writes."""
    target = (
        ["server", "--url", url]
        if scenario.side == "server"
        else ["client", "--command", f"{sys.executable} -m tests.tools.mcp.conformance.client"]
    )
    version = ["--spec-version", scenario.version] if scenario.version else []
    with tempfile.TemporaryDirectory() as folder:
        try:
            ended = subprocess.run(
                [*suite, *target, "--scenario", scenario.name, *version, "--timeout", "60000", "-o", folder],
                cwd=ROOT,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(scenario, 0, 0, 0, "no end within 120 s")
        files = [*Path(folder).rglob("checks.json")]
        if not files:
            return Verdict(scenario, 0, 0, 0, f"no result: {ended.stderr[-300:]}")
        checks = [check for file in files for check in json.loads(file.read_text(encoding="utf-8"))]
    counts = {
        status: sum(check["status"] == status for check in checks)
        for status in ("SUCCESS", "FAILURE", "WARNING")
    }
    failures = [
        f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"
    ]
    exited = re.search(r"CLIENT (EXITED WITH ERROR|TIMED OUT).*", ended.stderr)
    errors = [*failures, *([exited[0]] if exited and scenario.side == "client" else [])]
    return Verdict(scenario, counts["SUCCESS"], counts["FAILURE"], counts["WARNING"], "; ".join(errors)[:600])


def table(verdicts: list[Verdict]) -> str:
    tried = [each for each in verdicts if each.scenario.why_not is None]
    good = sum(each.is_good for each in tried)
    rows = [
        f"Measured with `{SUITE}` {VERSION}, by `python -m tests.tools.mcp.conformance.run --write`:",
        f"{good} of {len(tried)} runs of scenarios of what is offered pass.",
        "",
        "| side | scenario | protocol | checks passed | failed | warnings |",
        "|---|---|---|---|---|---|",
    ]
    for each in verdicts:
        why, of = each.scenario.why_not, each.scenario
        counts = f"not offered: {why} | | |" if why else f"{each.passed} | {each.failed} | {each.warnings} |"
        rows.append(f"| {of.side} | {of.name} | {of.version or 'extension'} | {counts}")
    return "\n".join(rows)


def write(verdicts: list[Verdict]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}\n{table(verdicts)}\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> int:
    suite = command()
    if suite is None:
        print("the suite cannot be installed: it needs npm", file=sys.stderr)
        return 2
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    verdicts: list[Verdict] = []
    with our_server() as url:
        for scenario in scenarios(suite):
            if chosen and scenario.name not in chosen and scenario.side not in chosen:
                continue
            if scenario.why_not is not None:
                verdicts.append(Verdict(scenario, 0, 0, 0, ""))
                continue
            verdict = run(suite, scenario, url)
            print(f"{'ok  ' if verdict.is_good else 'FAIL'} {verdict}", flush=True)
            verdicts.append(verdict)
    if "--write" in sys.argv:
        write(verdicts)
    return 0 if all(each.is_good for each in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
