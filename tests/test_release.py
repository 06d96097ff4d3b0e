"""What a release says of itself is the same everywhere, and what a reader is told to type works today."""

from __future__ import annotations

import re
import tomllib

from hatch_build import packaged

from tests.conftest import ROOT
from tests.docs.pages import PAGES, name_of
from wesichain import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_place_that_names_the_version_names_the_same() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\d\S*) - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert newest is not None
    assert newest[1] == __version__
    assert f"\nversion: {__version__}\n" in citation
    assert f"\ndate-released: {newest[2]}\n" in citation
    assert f"| {__version__.rpartition('.')[0]} |" in (ROOT / "docs/migration/json-tools.md").read_text(
        encoding="utf-8"
    )


def test_the_project_says_where_it_runs_and_names_no_place_that_is_not_there() -> None:
    systems = {one for one in PROJECT["classifiers"] if one.startswith("Operating System")}
    assert len(systems) == 3
    assert "urls" not in PROJECT


def test_an_install_line_works_in_a_checkout() -> None:
    """The name is on no index: what is to be typed installs from here, with extras that there are."""
    for page in (ROOT / "README.md", *PAGES):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"pip install (?:-e )?'([^']*)'", text):
            name, _, extras = block.partition("[")
            if name == "wesichain":  # what errors say: it adds to what is installed
                assert f"says `pip install '{block}'`" in text, f"{name_of(page)}: {block}"
            else:
                assert name == ".", f"{name_of(page)}: {block}"
            wanted = {extra.strip() for extra in extras.rstrip("]").split(",") if extra}
            assert wanted <= PROJECT["optional-dependencies"].keys(), f"{name_of(page)}: {block}"


def test_the_packaged_readme_reads_anywhere() -> None:
    """On a page that knows nothing of the repository: no picture is missing, and no link is dead."""
    text = packaged(README)
    assert "![" not in text
    assert not re.findall(r"\]\((?!https?:)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert "docs/benchmarks.md" in text  # the text of a link stays
    for code in re.findall(r"```.*?```", README, flags=re.DOTALL):
        assert code in text
    for text, target in re.findall(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", README):
        assert text == target, f"[{text}]({target}): name the file, so that the text says where it is"


def test_a_release_tries_every_extra() -> None:
    tried = re.search(
        r"NEEDS = \{(.*?)\n\}", (ROOT / ".ci" / "release").read_text(encoding="utf-8"), re.DOTALL
    )
    assert tried
    assert set(re.findall(r'^    "(\w+)":', tried[1], re.MULTILINE)) == set(PROJECT["optional-dependencies"])


def test_the_changelog_has_every_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+?)(?: - .+)?$", changes, re.MULTILINE) == ["Unreleased", "0.2.0", "0.1.0"]
