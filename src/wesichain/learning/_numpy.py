"""Raises an error that names the missing extra if numpy is not installed. Imported first."""

from __future__ import annotations

from importlib.util import find_spec

from wesichain.errors import MissingDependencyError

if find_spec("numpy") is None:
    raise MissingDependencyError("a playbook", package="numpy", extra="learning")
