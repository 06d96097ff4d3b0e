"""The README as a package index shows it: without pictures and links that lead into the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # for tests in an environment that does not build
    MetadataHookInterface = object  # type: ignore[assignment,misc]  # its one method is called by hatchling alone


def packaged(readme: str) -> str:
    """Leave out pictures of the repository, and of links into it all but their text."""
    blocks = re.split(r"(^```.*?^```$)", readme, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(blocks), 2):  # the others are code
        without = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*", "", blocks[number])
        blocks[number] = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", without)
    return "".join(blocks)


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling's hook: sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:  # type: ignore[explicit-override]  # needs no other package
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": packaged(text)}
