"""What the working tree is compared with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from bench.gate.revisions import LOCK, base_revision, export, is_shallow, lock_of


class Repository:
    """A small one, on the branch main."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "src").mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        names = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        for who in ("AUTHOR", "COMMITTER"):
            names |= {f"GIT_{who}_NAME": "tests", f"GIT_{who}_EMAIL": "tests@localhost"}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=os.environ | names,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def write(self, text: str) -> None:
        (self.root / "src" / "file.py").write_text(text)

    def commit(self, text: str) -> str:
        self.write(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", text)
        return self.git("rev-parse", "HEAD")

    def base(self) -> str | None:
        found = base_revision(self.root)
        return found[0] if found else None


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    ("history", "base"),
    [
        pytest.param("", None, id="nothing-before-the-first-commit"),
        pytest.param("one", None, id="nothing-after-the-first-commit"),
        pytest.param("one two", "one", id="a-commit-with-the-one-before"),
        pytest.param("one tag two three", "one", id="a-commit-with-the-last-tag"),
        pytest.param("one branch two three", "one", id="a-branch-with-where-it-left-main"),
        pytest.param("one two changed", "two", id="changes-with-the-last-commit"),
    ],
)
def test_what_is_compared_with_what(repository: Repository, history: str, base: str | None) -> None:
    commits: dict[str | None, str | None] = {None: None}
    for step in history.split():
        match step:
            case "tag":
                repository.git("tag", "v1")
            case "branch":
                repository.git("checkout", "--quiet", "-b", "change")
            case "changed":
                repository.write(step)
            case _:
                commits[step] = repository.commit(step)
    assert repository.base() == commits[base]


def test_the_sources_of_a_commit_come_out_as_they_were(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit("one")
    repository.commit("two")
    source = export(repository.root, first, tmp_path / "out")
    assert source is not None
    assert (source / "file.py").read_text() == "one"


def test_a_commit_without_sources_gives_none(repository: Repository, tmp_path: Path) -> None:
    (repository.root / "README").write_text("hello")
    repository.git("add", "README")
    repository.git("commit", "--quiet", "-m", "one")
    assert export(repository.root, "HEAD", tmp_path / "out") is None


def test_a_shallow_clone_has_no_base_and_is_told_apart(repository: Repository, tmp_path: Path) -> None:
    repository.commit("one")
    repository.commit("two")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=1", repository.root.as_uri(), str(clone))
    assert base_revision(clone) is None
    assert is_shallow(clone)
    assert not is_shallow(repository.root)


def test_the_lock_of_a_commit_and_of_the_working_tree(repository: Repository) -> None:
    lock = repository.root / LOCK
    lock.parent.mkdir()
    lock.write_text("a==1")
    first = repository.commit("one")
    lock.write_text("a==2")
    assert (lock_of(repository.root, first), lock_of(repository.root, None)) == ("a==1", "a==2")
    lock.unlink()
    assert lock_of(repository.root, None) == ""
