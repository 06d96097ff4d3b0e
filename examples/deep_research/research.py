"""Deep research: a lead plans and delegates to researchers, and writes a report with numbered sources.

`TAVILY_API_KEY=... python research.py anthropic:claude-sonnet-4-5 "How do tides make electricity?"`
"""

import os
import sys
from collections.abc import Awaitable, Callable
from time import strftime

import httpx2

from wesichain import Agent, ToolContext, tool
from wesichain.kit import Files, FolderFiles, deep_agent
from wesichain.policy import Budget

Search = Callable[[str], Awaitable[list[dict[str, str]]]]  # the pages for a query: title, url, content

LEAD = """You lead a research project. For every question:
1. Write a plan with write_plan, and keep the question in question.md.
2. Delegate: one researcher for a question or an overview, one for each side of a comparison. Delegate to at
   most three in one reply, in at most three rounds. Do not search yourself.
3. Write the report to report.md: headings and paragraphs, in the third person. Cite as [1]; a URL has one
   number in the whole report. End with '### Sources', one line each: [1] Title: URL.
4. Read question.md again, mend what the report leaves open, and answer with a summary of three sentences."""

RESEARCHER = """You research one topic. Begin with a broad search, then fill the gaps with narrow ones. After
each search write down with think what you have learned and what is missing. Stop when you can answer, or when
two searches bring the same. Answer with findings under headings, cited as [1], and '### Sources', the
title and URL of each."""


@tool(effect="pure", timeout=60)
async def search(ctx: ToolContext[Search], query: str) -> list[dict[str, str]]:
    """Search the web; returns pages with their whole text."""
    return await ctx.deps(query)


@tool(effect="pure")
def think(reflection: str) -> str:
    """Write down what was learned, what is missing, and what to do next."""
    return f"Noted: {reflection}"


def make_agent(model: object, files: Files, *, researcher_model: object = None) -> Agent:
    researcher = deep_agent(
        researcher_model or model,
        [search, think],
        name="researcher",
        description="Researches one topic, and returns findings with sources. Give it one topic at a time.",
        instructions=f"{RESEARCHER}\nToday is {strftime('%Y-%m-%d')}.",
        budget=Budget(steps=12),  # about five searches, each with a thought; then it answers
        on_limit="answer",
    )
    return deep_agent(
        model, files=files, subagents={"researcher": researcher}, instructions=LEAD, tool_concurrency=3
    )


async def tavily(query: str) -> list[dict[str, str]]:
    body = {"query": query, "max_results": 3, "include_raw_content": "markdown"}
    key = {"Authorization": f"Bearer {os.environ['TAVILY_API_KEY']}"}
    async with httpx2.AsyncClient(timeout=30) as client:
        found = await client.post("https://api.tavily.com/search", json=body, headers=key)
    pages = found.raise_for_status().json()["results"]
    return [
        {"title": p["title"], "url": p["url"], "content": p.get("raw_content") or p["content"]} for p in pages
    ]


if __name__ == "__main__":
    agent = make_agent(sys.argv[1], FolderFiles("research"))
    print(agent.run_sync(sys.argv[2], deps=tavily).output, "\n\nThe report is in research/report.md.")
