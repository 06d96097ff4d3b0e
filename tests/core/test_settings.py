"""Model settings: which values they take, how two are merged, and their JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.values import json_value, text
from tests.draws import draws
from wesichain import ModelSettings
from wesichain.core import LlmRequest, Message, from_json, to_json
from wesichain.core.internal import NO_SETTINGS, check_settings, to_jsonl
from wesichain.errors import CodecError, ConfigError

some_text = text.filter(str.strip)
settings = st.builds(
    ModelSettings,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 10**6),
    top_p=st.none() | st.floats(0, 1),
    seed=st.none() | st.integers(-(10**9), 10**9),
    stop=st.lists(some_text, max_size=2),  # kept as a tuple
    reasoning=st.none() | st.sampled_from(["low", "medium", "high", "off"]) | st.integers(1, 10**6),
    tool_choice=st.none() | some_text,
    parallel_tool_calls=st.none() | st.booleans(),
    service_tier=st.none() | some_text,
    cache=st.sampled_from(["auto", "off", "5m", "1h"]),
    extra=st.dictionaries(text, json_value, max_size=2),
)


@draws(15)
@given(settings)
def test_settings_are_read_as_they_were_written(some: ModelSettings) -> None:
    request = LlmRequest("m", (Message("user", "hi"),), settings=some)  # type: ignore[arg-type]  # kept as a Role
    assert from_json(LlmRequest, to_json(request)) == request
    assert from_json(LlmRequest, to_jsonl([request])) == request


def test_a_request_without_settings_is_written_as_before() -> None:
    assert to_json(LlmRequest("m", ())) == '{"model":"m","messages":[]}'
    assert to_json(LlmRequest("m", (), settings=ModelSettings(seed=0))) == (
        '{"model":"m","messages":[],"settings":{"seed":0}}'
    )
    assert repr(ModelSettings(seed=0, stop=["."])) == "ModelSettings(seed=0, stop=('.',))"  # type: ignore[arg-type]


@draws(15)
@given(settings, settings)
def test_what_the_other_sets_wins_and_the_rest_stays(ours: ModelSettings, other: ModelSettings) -> None:
    merged = ours.merge(other)
    for name in ("temperature", "max_tokens", "top_p", "seed", "stop", "reasoning", "tool_choice", "cache"):
        expected = other if name in other.set_fields() else ours
        assert getattr(merged, name) == getattr(expected, name)
    assert merged.extra == {**ours.extra, **other.extra}


@draws(10)
@given(settings, settings, settings)
def test_the_order_of_merging_does_not_matter(a: ModelSettings, b: ModelSettings, c: ModelSettings) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(NO_SETTINGS) == a == NO_SETTINGS.merge(a)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": True},
        {"temperature": "0"},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"top_p": 1.1},
        {"seed": 1.0},
        {"stop": "END"},
        {"stop": ("",)},
        {"reasoning": "most"},
        {"reasoning": 0},
        {"reasoning": True},
        {"tool_choice": ""},
        {"parallel_tool_calls": 1},
        {"service_tier": ""},
        {"cache": "1d"},
        {"extra": [1]},
        {"extra": {1: 2}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_name(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(ConfigError, match=name):
        ModelSettings(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0},
        {"max_tokens": 1},
        {"top_p": 0},
        {"top_p": 1.0},
        {"seed": -1},
        {"stop": ["END"]},
        *({"reasoning": effort} for effort in ("low", "medium", "high", "off", 1)),
        *({"tool_choice": choice} for choice in ("auto", "required", "none", "add")),
        {"parallel_tool_calls": False},
        *({"cache": cache} for cache in ("off", "5m", "1h")),
        {"extra": {"a": 1}},
    ],
    ids=str,
)
def test_a_value_at_its_bounds_is_taken(given: dict[str, Any]) -> None:
    made = ModelSettings(**given)
    ((name, value),) = given.items()
    assert made.set_fields() == (name,)
    assert repr(made) == f"ModelSettings({name}={tuple(value) if name == 'stop' else value!r})"


@pytest.mark.parametrize(
    "text", ['{"reasoning":"most"}', '{"temperature":"0"}', '{"stop":"x"}', '{"other":1}']
)
def test_wrong_data_is_a_codec_error(text: str) -> None:
    with pytest.raises(CodecError):
        from_json(ModelSettings, text)


def test_a_model_that_does_not_say_what_it_takes_is_given_all() -> None:
    check_settings(object(), ModelSettings(seed=1))
