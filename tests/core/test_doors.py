"""Names that were others before: they work for one version, with a warning that has the new one."""

from __future__ import annotations

import importlib

import pytest

from wesichain import core, llm
from wesichain.core import events


@pytest.mark.parametrize(
    ("door", "earlier", "place", "now"),
    [
        ("wesichain.context", "Seen", "wesichain.context", "VisibleLog"),
        ("wesichain.core", "told_content", "wesichain.core.internal", "content_as_text"),
        ("wesichain.testing", "Spoken", "wesichain.testing", "ProviderReply"),
    ],
)
def test_an_earlier_name_works_and_warns(door: str, earlier: str, place: str, now: str) -> None:
    module = importlib.import_module(door)
    with pytest.warns(DeprecationWarning, match=f"{earlier} is called {now} now"):
        found = getattr(module, earlier)
    assert found is getattr(importlib.import_module(place), now)
    assert earlier not in module.__all__


# Who took one of these from `wesichain.core` in 0.2.0 is sent to a door for users.
DOORS = {
    **dict.fromkeys(["Approve", "ApproveWith", "CancellationToken", "Provide", "Refuse"], "wesichain"),
    **dict.fromkeys(["Advice", "Adviser", "Clock", "Decision", "PendingCall"], "wesichain.agent"),
    **dict.fromkeys(llm.__all__, "wesichain.llm"),
    **dict.fromkeys(events.__all__, "wesichain.core.events"),
    **dict.fromkeys(["Price", "PriceTier", "Prices", "Spent", "cost_of"], "wesichain.policy"),
    **dict.fromkeys(["Cut", "Question"], "wesichain.context"),
    **dict.fromkeys(
        ["CheckpointSaved", "GraphEvent", "NodeCompleted", "NodeFailed", "NodeStarted"], "wesichain.graph"
    ),
}


# Names of 0.2.0 that only packages of the framework use.
INTERNAL = {
    "agent": """
        Active Caller Child Drive Effects Emitter EventQueue LiveEffects Refused RunInfo RunState Settings Tally
        Trail Unfinished resolve_model result_of team_of with_output
    """,
    "context": "are_views counter_of",
    "evals": "Judgement",
    "learning": "DATA_MODEL",
    "policy": "Account chain_of",
    "tools": "Offered PreparedCall in_thread",
}


@pytest.mark.parametrize(
    ("room", "name"), [(room, name) for room in INTERNAL for name in INTERNAL[room].split()]
)
def test_a_name_that_became_internal_is_found_and_warns(room: str, name: str) -> None:
    door = importlib.import_module(f"wesichain.{room}")
    internal = importlib.import_module(f"wesichain.{room}.internal")
    with pytest.warns(
        DeprecationWarning, match=f"wesichain.{room}.{name} is in wesichain.{room}.internal now"
    ):
        assert getattr(door, name) is getattr(internal, name)
    assert name not in door.__all__


def test_what_core_moved_is_found_and_warns() -> None:
    internal = importlib.import_module("wesichain.core.internal")
    offered = {name for name in vars(internal) if not name.startswith("__")} - {"TYPE_CHECKING"}
    assert "from_plain" in offered
    assert not offered & {*core.__all__}
    for name in offered - vars(core).keys():  # those are modules of the room with the same name
        home = DOORS.get(name, "wesichain.core.internal")
        with pytest.warns(DeprecationWarning, match=f"{name} is in {home} now"):
            assert getattr(core, name) is getattr(internal, name)


def test_a_name_that_was_never_there_is_no_attribute() -> None:
    for room in INTERNAL:
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = importlib.import_module(f"wesichain.{room}").nothing
