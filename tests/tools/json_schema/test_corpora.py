"""Tables of schemas and calls: our own, the JSON Schema Test Suite, and those of the Berkeley leaderboard."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.conftest import OUTSIDE, corpus, each_origin
from tests.draws import sampled
from wesichain.core import ToolCall
from wesichain.errors import InvalidArgsError
from wesichain.tools import JsonTool, ToolSet, validate_json


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a schema must never open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@each_origin
def test_the_json_schema_test_suite(origin: str) -> None:
    rows = corpus("json_schema_2020.jsonl", origin)
    wrong = [
        f"{row['file']}: {row['group']}: {row['test']}"
        for row in rows
        if (validate_json(row["schema"], row["data"]) == []) is not row["valid"]
    ]
    assert wrong == []
    assert len(rows) >= (927 if origin == OUTSIDE else 200)


@each_origin
def test_issues_of_the_suite_have_words(origin: str) -> None:
    for row in corpus("json_schema_2020.jsonl", origin):
        issues = validate_json(row["schema"], row["data"])
        assert len(issues) <= 10
        assert all(": " in issue and len(issue) < 600 for issue in issues)


@pytest.mark.sampled
@each_origin
async def test_the_function_calls_of_the_leaderboard(origin: str) -> None:
    rows = sampled(corpus("bfcl_tools.jsonl", origin), 100)
    refused = 0
    for row in rows:
        entered: list[Any] = []
        tool = JsonTool("it", row["description"], row["schema"], entered.append)
        registry = ToolSet().register(tool).build()
        valid = await registry.dispatch(ToolCall("1", "it", row["valid_call"]))
        assert valid.ok, (row["id"], valid.error)
        assert entered == [row["valid_call"]]
        for mutation in row["invalid_mutations"]:
            result = await registry.dispatch(ToolCall("2", "it", mutation["args"]))
            assert isinstance(result.error, InvalidArgsError), (row["id"], mutation)
            refused += 1
        assert len(entered) == 1
    assert refused > 3 * len(rows) >= 36


@pytest.mark.sampled
@each_origin
def test_where_strict_and_lax_differ_kinds_are_strict_and_5_0_is_5(origin: str) -> None:
    for row in sampled(corpus("bfcl_tools.jsonl", origin), 100):
        tool = JsonTool("it", "", row["schema"], print)
        registry = ToolSet().register(tool).build()
        for mutation in row["policy_mutations"]:
            found = registry.prepare(ToolCall("1", "it", mutation["args"]))
            is_refused = isinstance(found, InvalidArgsError)
            match mutation["kind"]:
                case "number_as_string" | "bool_as_string":
                    assert is_refused, mutation
                case _:
                    assert mutation["kind"] in ("integral_float", "additional_property")
                    assert not is_refused, mutation


@pytest.mark.sampled
@each_origin
def test_schemas_of_the_leaderboard_have_a_strict_form(origin: str) -> None:
    for row in sampled(corpus("bfcl_tools.jsonl", origin), 40):
        registry = ToolSet().register(JsonTool("it", "", row["schema"], print)).build()
        (spec,) = registry.specs(strict=True)
        assert spec.parameters["required"] == list(spec.parameters["properties"])
        assert asyncio.run(registry.dispatch(ToolCall("1", "it", row["valid_call"]))).error is None
