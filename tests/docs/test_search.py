"""What people search for is found: the site's own search, in a browser, and code that is not cut."""

from __future__ import annotations

import json
import tomllib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, blocks_of
from tests.docs.site_server import serve
from tests.web.browser import Page, browser

WORDS: dict[str, list[str]] = tomllib.loads((DOCS / "search.toml").read_text(encoding="utf-8"))

# What is asked for, and the page that must be the first hit.
ASKED = {
    "human in the loop": "cookbook/human-in-the-loop.html",
    "RAG": "cookbook/rag.html",
    "multi-agent": "cookbook/multi-agent.html",
    "observability": "cookbook/observability.html",
    "system prompt": "howto/agent.html",
    "JSON mode": "howto/structured-answers.html",
    "prompt caching": "howto/model-settings.html",
    "Jupyter": "cookbook/jupyter.html",
    "Langfuse": "cookbook/observability.html",
    "Logfire": "cookbook/observability.html",
    "troubleshooting": "cookbook/troubleshooting.html",
    "serverless": "cookbook/serverless.html",
    "Windows": "cookbook/windows.html",
    "guardrails": "howto/middleware.html",
    "structured output": "howto/structured-answers.html",
    "pytest": "howto/testing.html",
    "DSPy": "migration/dspy.html",
    "alternatives": "migration/when-not.html",
}


def test_every_page_has_words_to_be_found_by() -> None:
    made = {"architecture.md", "changelog.md", "contributing.md", "examples.md"}  # by tools/site.py
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    told_by_their_names = {page for page in pages if page.startswith(("reference/", "decisions/"))}
    assert set(WORDS) == (pages - told_by_their_names) | made
    assert all(words and len(set(words)) == len(words) for words in WORDS.values())


@pytest.fixture(scope="module")
def page(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, str]]:
    with (
        serve(site) as address,
        browser(tmp_path_factory.mktemp("profile")) as chromium,
        chromium.page() as opened,
    ):
        yield opened, address


def first_hit(page: Page, address: str, asked: str) -> str:
    page.open("about:blank")
    page.open(f"{address}/index.html?q={urllib.parse.quote_plus(asked)}")
    link = "document.querySelector('.md-search-result__list .md-search-result__link')"
    page.wait(
        f"{link} && !document.querySelector('.md-search-result__meta').textContent.includes('Initializing')"
    )
    found = urllib.parse.urlsplit(str(page.evaluate(f"{link}.href")))
    return found.path.lstrip("/")


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "answer"), ASKED.items(), ids=list(ASKED))
def test_the_first_hit_answers(page: tuple[Page, str], asked: str, answer: str) -> None:
    assert first_hit(*page, asked) == answer


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["model", "memory", "messages", "tool", "run"])
def test_a_word_that_begins_words_of_code_is_found(page: tuple[Page, str], asked: str) -> None:
    """A `*` in a word of the index, as in `model(*replies)`, is a wildcard: such a search found nothing."""
    assert first_hit(*page, asked).endswith(".html")


def cut_blocks(page: Page) -> list[str]:
    """The blocks of code that are wider than their place."""
    script = """[...document.querySelectorAll('article pre > code')]
        .filter(code => code.scrollWidth > code.clientWidth + 1)
        .map(code => [...code.innerText.split('\\n')].sort((a, b) => b.length - a.length)[0])"""
    found: list[str] = page.evaluate(script)
    return found


@pytest.mark.slow
def test_no_code_of_python_is_cut_at_1280(page: tuple[Page, str], site: Path) -> None:
    """Our own lines have 110 characters at most; commands and data of others may be longer."""
    opened, address = page
    opened.send(
        "Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False
    )
    long = [
        source
        for source in PAGES
        if any(len(line) > 100 for b in blocks_of(source) for line in b.code.split("\n"))
    ]
    cut: dict[str, str] = {}
    for source in long:
        if not source.is_relative_to(DOCS):
            continue
        name = source.relative_to(DOCS).with_suffix(".html").as_posix()
        opened.open(f"{address}/{name}")
        opened.wait(f"document.readyState === 'complete' && location.pathname === {json.dumps('/' + name)}")
        if lines := [line for line in cut_blocks(opened) if len(line) <= 110]:
            cut[name] = lines[0]
    assert long
    assert not cut
