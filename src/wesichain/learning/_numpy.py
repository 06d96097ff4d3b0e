"""numpy, which the whole room needs; imported first, so that its absence is named in words."""

from __future__ import annotations

from importlib.util import find_spec

from wesichain.errors import MissingDependencyError

if find_spec("numpy") is None:
    raise MissingDependencyError("a playbook", package="numpy", extra="learning")
