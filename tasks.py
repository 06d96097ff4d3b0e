"""The targets of the Makefile for machines without make: python tasks.py [TASK].

Needs only Python 3.11 or newer; everything else is installed into .venv from the locked requirements.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
IS_WINDOWS = sys.platform == "win32"


def python_of(environment: str) -> Path:
    return ROOT / environment / ("Scripts/python.exe" if IS_WINDOWS else "bin/python")


def run(*command: object, **variables: str) -> None:
    """Run a command in the repository; exit with its status if that is not 0."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **variables}, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)


def environment(name: str, lock: str, *, editable: bool = False) -> Path:
    """The Python of an environment with the packages of a lock, which are installed if the lock is newer."""
    python, stamp, wanted = python_of(name), ROOT / name / ".installed", ROOT / "requirements" / lock
    if stamp.exists() and stamp.stat().st_mtime >= wanted.stat().st_mtime:
        return python
    print(f"==> installing requirements/{lock} into {name}: several minutes the first time", flush=True)
    if not python.exists():
        venv.create(ROOT / name, with_pip=True)
    pip = (python, "-m", "pip", "install", "--disable-pip-version-check")
    run(*pip, "--require-hashes", "-r", wanted)
    if editable:
        run(*pip, "--no-deps", "--no-build-isolation", "-e", ".")
    stamp.touch()
    return python


def dev() -> Path:
    return environment(".venv", "dev.lock", editable=True)


def install() -> None:
    """Create .venv with all dependencies."""
    dev()


def demo() -> None:
    """Answer a question with a local model and real tools, then a task before and after a correction."""
    python = environment(".venv-demo", "demo.lock")
    models = os.environ.get("WESICHAIN_MODELS", str(ROOT / ".cache" / "models"))
    run(python, "-m", "wesichain", "demo", PYTHONPATH=str(ROOT / "src"), WESICHAIN_MODELS=models)


def test() -> None:
    """Run the test suite, without the slow tests, the tests with a real model, and the type checks."""
    run(dev(), "-m", "pytest", "-n", "3", "--dist", "worksteal", "-m", "not slow and not model and not types")


def test_systems() -> None:
    """Run the programs that have to do the same on every system: as it is here, or on Linux under shims."""
    run(dev(), "-m", "pytest", "tests/platform")


def test_model() -> None:
    """Run the tests with a real model: smollm2-135m, downloaded the first time."""
    run(dev(), "-m", "pytest", "-m", "model and not slow", "tests/llm/local")


def test_slow() -> None:
    """Run the slow tests (real models, soaks, the site in a browser), and longer property tests."""
    run(dev(), "-m", "pytest", "-m", "slow or hypothesis or sampled", WESICHAIN_THOROUGH="1")


def lint() -> None:
    """Check the format and the lint rules of the code."""
    python = dev()
    run(python, "-m", "ruff", "format", "--check", "--quiet", ".")
    run(python, "-m", "ruff", "check", "--quiet", ".")


def types() -> None:
    """Run both type checkers on the code, on the code blocks of the docs, and on code that must fail."""
    python = dev()
    run(python, "-m", "mypy")
    run(python, "-m", "basedpyright")
    run(python, "-m", "tests.docs.typed")
    run(python, "-m", "pytest", "-q", "-m", "types", "tests/typing")


def check() -> None:
    """Run all checks that must pass before a change is merged: lint, types, test, test-model."""
    lint()
    types()
    test()
    test_model()


def docs() -> None:
    """Build the site into build/site."""
    python = environment(".venv-docs", "docs.lock")
    run(python, "-m", "mkdocs", "build", "--strict", "--quiet", NO_MKDOCS_2_WARNING="1")


TASKS: dict[str, Callable[[], None]] = {
    task.__name__.replace("_", "-"): task
    for task in (install, demo, test, test_systems, test_model, test_slow, lint, types, check, docs)
}


def main(arguments: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  # it may be started with another
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
    if len(arguments) == 1 and arguments[0] in TASKS:
        TASKS[arguments[0]]()
        return
    width = max(map(len, TASKS))
    print("python tasks.py TASK\n")
    for name, task in TASKS.items():
        print(f"  {name:<{width}}  {task.__doc__}")
    sys.exit(0 if not arguments else 2)


if __name__ == "__main__":
    main(sys.argv[1:])
