"""deploy/ and the Dockerfile: they name what is there, and their commands do what they are for.

No container is started here: the commands run as processes, on a real Postgres.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import requests
import typer
import typer.main
import yaml  # type: ignore[import-untyped]  # it comes with DBOS, and brings no types

from tests.conftest import ROOT
from tests.durable import work
from wesichain.cli.app import app
from wesichain.durable import DurableAgent

DATABASE = "postgresql://wesichain:wesichain@postgres/wesichain"


def composed(**env: str) -> dict[str, Any]:
    """The file as compose reads it: variables stand for what is set, or for what stands behind `:-`."""
    text = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
    filled = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: env.get(found[1], found[2]), text)
    assert "${" not in filled
    read: dict[str, Any] = yaml.safe_load(filled)
    return read


def dockerfile() -> list[list[str]]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line and not line.startswith("#")]


def test_the_file_has_a_database_two_workers_and_a_viewer_that_stay_on_this_machine() -> None:
    services = composed()["services"]
    assert {*services} == {"postgres", "worker", "viewer"}
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["viewer"]["ports"] == ["127.0.0.1:8777:8777"]
    for name in ("worker", "viewer"):
        service = services[name]
        assert service["build"] == {"context": ".."}
        assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert DATABASE in service["command"]
    grace = services["worker"]["command"][services["worker"]["command"].index("--grace") + 1]
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) > int(grace)


@pytest.mark.parametrize("name", ["worker", "viewer"])
def test_the_command_of_a_service_is_one_of_the_command_line(name: str) -> None:
    """Every word is read as the program reads it; one that it does not know is an error here too."""
    word, *rest = composed(AGENT="travel:durable")["services"][name]["command"]
    with command(word, rest) as read:
        assert read.params["database_url"] == DATABASE
        assert read.params["agent"] == (None if name == "viewer" else "travel:durable")
    with pytest.raises(typer.TyperException, match="--nonsense"):
        command(word, [*rest, "--nonsense"])


def command(word: str, rest: list[str]) -> typer.Context:
    tree: Any = typer.main.get_command(app)
    return cast("typer.Context", tree.get_command(None, word).make_context(word, [*rest]))


def test_the_viewer_is_let_in_by_the_name_that_its_port_is_published_under() -> None:
    viewer = composed()["services"]["viewer"]
    (published,) = viewer["ports"]
    outside, _, inside = published.rpartition(":")
    word, *rest = viewer["command"]
    with command(word, rest) as read:
        assert read.params["allow_remote"] == [outside]
        assert read.params["port"] == int(inside)


def test_what_is_set_is_read_by_somebody_and_what_is_to_be_set_is_asked_for() -> None:
    """Keys that a client reads, the folder that we read, and the variables that the pages and the file name."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in ("worker", "viewer"):
        for variable in composed()["services"][name]["environment"]:
            assert f'"{variable}"' in source, variable
    (settings,) = [words[1:] for words in dockerfile() if words[0] == "ENV"]
    own = {setting.partition("=")[0]: setting.partition("=")[2] for setting in settings}
    assert '"WESICHAIN_HOME"' in source
    volumes = composed(APP="/mine")["services"]["worker"]["volumes"]
    (program,) = [words[1] for words in dockerfile() if words[0] == "WORKDIR"]
    assert volumes == [f"/mine:{program}:ro", f"wesichain:{own['WESICHAIN_HOME']}"]
    assert own["PYTHONPATH"] == program
    text = (ROOT / "deploy/compose.yaml").read_text(encoding="utf-8")
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    for variable in re.findall(r"\$\{(\w+):-", text):
        assert variable in page, f"{variable}: docs/operating.md says nothing of it"
    assert {*composed()["volumes"]} == {"postgres", "wesichain"}


def test_the_image_is_made_of_what_is_here(tmp_path: Path) -> None:
    """What the Dockerfile copies is enough to make the package, and its extras are ones that there are."""
    source = tmp_path / "src"
    source.mkdir()
    for words in dockerfile():
        if words[0] == "COPY":
            for name in words[1:-1]:
                found, goal = ROOT / name, tmp_path / words[-1].lstrip("/")
                assert found.exists(), name
                goal.parent.mkdir(parents=True, exist_ok=True)
                if found.is_dir():
                    shutil.copytree(found, goal, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(found, goal)
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (entry,) = [words[1] for words in dockerfile() if words[0] == "ENTRYPOINT"]
    assert entry.strip("[]") in project["scripts"]
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"wesichain/cli/durable_runs.py", "wesichain/web/static/index.html"} <= {*names}


def test_the_image_has_no_root_and_every_package_has_its_hash() -> None:
    lines = dockerfile()
    installs = [" ".join(words) for words in lines if words[:3] == ["RUN", "pip", "install"]]
    assert len(installs) == 2
    assert "--require-hashes -r /src/deploy/requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1], "nothing is fetched for it"
    assert [words[1] for words in lines if words[0] == "USER"][-1] == "10001"
    text = (ROOT / "deploy/requirements.lock").read_text(encoding="utf-8")
    packages = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    assert len(packages) == len(
        re.findall(r"^[a-z0-9][^\n]*==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    )
    names = {line.partition("==")[0].partition("[")[0] for line in packages}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in ("durable", "postgres", "cli", "web", "openai", "anthropic", "otel"):
        for wanted in project["optional-dependencies"][extra]:
            assert re.split(r"[^\w\-.]", wanted)[0].lower() in names, wanted
    assert "hatchling" in names


def manifests() -> list[dict[str, Any]]:
    folder = ROOT / "deploy/kubernetes"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    assert {*listed} == {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    return [one for name in listed for one in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))]


def test_the_manifests_name_each_other_and_commands_that_are_there() -> None:
    found = {one["kind"]: one for one in manifests()}
    assert {*found} == {"Deployment", "TriggerAuthentication", "ScaledObject", "CronJob"}
    worker, prune = found["Deployment"], found["CronJob"]["spec"]["jobTemplate"]
    assert found["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    for pod in (worker["spec"]["template"]["spec"], prune["spec"]["template"]["spec"]):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        (container,) = pod["containers"]
        word, *rest = container["args"]
        if word == "runs":
            group: Any = typer.main.get_command(app)
            assert rest[0] in group.get_command(None, "runs").commands
            continue
        with command(word, rest) as read:
            assert read.params["database_url"] == "$(DATABASE_URL)"
            assert read.params["grace"] < pod["terminationGracePeriodSeconds"]


async def test_the_query_of_the_autoscaler_counts_what_stats_count(postgres: str) -> None:
    query = next(one for one in manifests() if one["kind"] == "ScaledObject")["spec"]["triggers"][0][
        "metadata"
    ]["query"]
    async with DurableAgent(work.agent, "durable", database_url=postgres) as client:
        for number in range(3):
            await client.enqueue(f"task {number}")
        (stats,) = [one for one in await client._runs.stats() if one.queue == "durable"]
    with psycopg.connect(postgres) as db:
        row: Any = db.execute(query).fetchone()
    assert row[0] == stats.queued + stats.running == 3


@pytest.mark.slow
def test_its_commands_serve_runs_and_show_them(postgres: str, tmp_path: Path) -> None:
    services = composed(AGENT="tests.durable.work:durable")["services"]
    env = {
        **os.environ,
        "WESICHAIN_HOME": str(tmp_path / "home"),
        "EFFECTS": str(tmp_path / "effects"),
        "PACE": "0.1",
    }

    def start(name: str) -> subprocess.Popen[str]:
        words = [postgres if word == DATABASE else word for word in services[name]["command"]]
        words = ["0" if word == "8777" else word for word in words]  # a port that is free
        return subprocess.Popen(
            [sys.executable, "-m", "wesichain", *words],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def run() -> None:
        async with DurableAgent(work.agent, "work", database_url=postgres) as client:
            run_ids = [await client.enqueue(f"task {number}") for number in range(12)]
            for run_id in run_ids:
                assert (await client.result(run_id, timeout=180)).output == "done"

    started = [start("worker"), start("worker"), start("viewer")]
    try:
        asyncio.run(run())
        viewer = started[-1]
        assert viewer.stdout is not None
        token = viewer.stdout.readline().strip().partition("#token=")[2]
        listening = listening_port(viewer.pid)
        headers = {"authorization": f"Bearer {token}"}
        listed = requests.get(f"http://127.0.0.1:{listening}/api/runs", headers=headers, timeout=30).json()
        rows = [row for row in listed["runs"] if row["stored"] and row["agent"] == "work"]
        assert [row["status"] for row in rows][:12] == ["completed"] * 12
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            assert process.wait(60) in (0, 130, -signal.SIGTERM)
    finally:
        for process in started:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def listening_port(pid: int) -> int:
    import psutil

    return int(next(c.laddr.port for c in psutil.Process(pid).net_connections() if c.status == "LISTEN"))
