"""Runs the official conformance suite of MCP against our server and our client, and writes what it says.

    python -m tests.tools.mcp.conformance.run [--write] [SCENARIO ...]

The suite is a package of npm, installed once below the folder that `WESICHAIN_CONFORMANCE` names (by default
in the folder for temporary files), with a node that it can run on. `--write` puts the table into
docs/howto/mcp.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "howto" / "mcp.md"
MARKS = ("<!-- conformance -->", "<!-- end of conformance -->")
VERSION = "0.1.16"
SUITE = "@modelcontextprotocol/conformance"
NODE = "node@22"  # the suite uses what older ones have not

# What we do not offer, and why; the protocol asks for none of it.
NOT_OFFERED = {
    "completion-complete": "completion of arguments",
    "tools-call-sampling": "sampling: a tool that needs a model has one of its own",
    "resources-subscribe": "subscriptions",
    "resources-unsubscribe": "subscriptions",
}
SERVER = (
    *("server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list"),
    *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource"),
    *("tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress"),
    *("tools-call-sampling", "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults"),
    *("server-sse-polling", "server-sse-multiple-streams", "elicitation-sep1330-enums", "resources-list"),
    *("resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe"),
    *("resources-unsubscribe", "prompts-list", "prompts-get-simple", "prompts-get-with-args"),
    *("prompts-get-embedded-resource", "prompts-get-with-image", "dns-rebinding-protection"),
)
CLIENT = (
    *("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"),
    *("auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3"),
    *("auth/basic-cimd", "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported"),
    *("auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"),
    *("auth/pre-registration",),
)


@dataclass(frozen=True)
class Verdict:
    """What the suite says of one scenario."""

    side: str
    scenario: str
    passed: int
    failed: int
    warnings: int
    said: str

    @property
    def is_good(self) -> bool:
        return self.failed == 0 and self.said != "no result"


def command() -> list[str] | None:
    """How the suite is started; None where there is no npm to get it with."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder = Path(os.environ.get("WESICHAIN_CONFORMANCE") or Path(tempfile.gettempdir()) / "mcp-conformance")
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


def run(suite: list[str], side: str, scenario: str, url: str) -> Verdict:
    """One scenario; what it prints ends in counts."""
    target = (
        ["server", "--url", url]
        if side == "server"
        else ["client", "--command", f"{sys.executable} -m tests.tools.mcp.conformance.client"]
    )
    try:
        ended = subprocess.run(
            [*suite, *target, "--scenario", scenario],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        text = re.sub(r"\x1b\[\d+m", "", ended.stdout + ended.stderr)
    except subprocess.TimeoutExpired:
        text = ""
    counts = re.search(r"Passed: (\d+)/\d+, (\d+) failed, (\d+) warnings", text)
    said = "; ".join(re.findall(r"Error: (.+)", text))[:300] if counts else "no result"
    passed, failed, warned = map(int, counts.groups()) if counts else (0, 0, 0)
    return Verdict(side, scenario, passed, failed, warned, said)


def table(verdicts: list[Verdict]) -> str:
    rows = [f"Measured with `{SUITE}` {VERSION}, by `python -m tests.tools.mcp.conformance.run --write`.", ""]
    rows += ["| side | scenario | checks passed | failed | warnings |", "|---|---|---|---|---|"]
    for each in verdicts:
        why = NOT_OFFERED.get(each.scenario) if each.side == "server" else None
        counts = f"not offered ({why}) | | |" if why else f"{each.passed} | {each.failed} | {each.warnings} |"
        rows.append(f"| {each.side} | {each.scenario} | {counts}")
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
        for side, scenarios in (("server", SERVER), ("client", CLIENT)):
            for scenario in scenarios:
                if not chosen or scenario in chosen:
                    verdict = run(suite, side, scenario, url)
                    print(f"{'ok  ' if verdict.is_good else 'FAIL'} {verdict}", flush=True)
                    verdicts.append(verdict)
    if "--write" in sys.argv:
        write(verdicts)
    return 0 if all(each.is_good or each.scenario in NOT_OFFERED for each in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
