"""Revisions: the base of the comparison, and its sources."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

MAIN = "main"
LOCK = "requirements/dev.lock"


def git(root: Path, *arguments: str) -> str | None:
    """The output of git, or None if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_revision(root: Path) -> tuple[str, str] | None:
    """The commit to compare with and why it is that one; None where there is no earlier one.

    That is where the branch left `main`. On `main` itself it is the last commit, as long as the source
    differs from it; then the last tag before it, or the commit before.
    """
    head = git(root, "rev-parse", "HEAD")
    if head is None:
        return None
    for branch in (f"origin/{MAIN}", MAIN):
        fork = git(root, "merge-base", branch, "HEAD")
        if fork and fork != head:
            return fork, f"the merge base with {branch}"
    if git(root, "status", "--porcelain", "--", "src"):
        return head, "the last commit; src has changes that are not committed"
    tag = git(root, "describe", "--tags", "--abbrev=0", "HEAD^")
    if tag and (commit := git(root, "rev-parse", f"{tag}^{{commit}}")):
        return commit, f"the last tag, {tag}"
    before = git(root, "rev-parse", "HEAD^")
    return (before, "the commit before the last") if before else None


def is_shallow(root: Path) -> bool:
    """Whether the clone is shallow."""
    return git(root, "rev-parse", "--is-shallow-repository") == "true"


def export(root: Path, commit: str, folder: Path) -> Path | None:
    """Extract the sources of a commit into a folder; None if it has none."""
    done = subprocess.run(
        ["git", "archive", "--format=tar", commit, "src"], cwd=root, capture_output=True, check=False
    )
    if done.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def lock_of(root: Path, commit: str | None) -> str:
    """The lock file of a commit, or of the working tree; empty if there is none."""
    if commit is not None:
        return git(root, "show", f"{commit}:{LOCK}") or ""
    path = root / LOCK
    return path.read_text(encoding="utf-8") if path.exists() else ""
