"""Outcomes as JSON: what is stored of the end of a run is read back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core import values
from tests.draws import draws
from wesichain.agent import Completed, Failed, Interrupted
from wesichain.core import from_json, to_json
from wesichain.core.internal import PendingCall, Spent, to_plain

STORED = st.fixed_dictionaries(
    {
        "run_id": values.text,
        "task": values.text,
        "state": st.none() | st.dictionaries(values.text, values.json_value, max_size=2),
        "first_new": st.just(0),
        "earlier": st.just(0),
        "last_seq": values.count,
        "messages": st.lists(values.message, max_size=3),
        "steps": st.lists(values.step, max_size=3),
        "spent": values.of(Spent),
        "step": st.integers(0, 99),
        "agent": values.text,
        "opened_by": values.text,
    }
)
OWN: dict[type, st.SearchStrategy[dict[str, Any]]] = {
    Completed: st.fixed_dictionaries({"text": values.text, "stopped_by": st.none()}),
    Failed: st.fixed_dictionaries(
        {"error": st.just("AgentError"), "message": values.text, "fields": st.just({})}
    ),
    Interrupted: st.fixed_dictionaries(
        {"reason": values.text, "pending": st.lists(values.of(PendingCall), max_size=2), "told": values.count}
    ),
}


@pytest.mark.parametrize("kind", OWN)
@draws(4)
@given(data=st.data())
def test_an_outcome_is_read_back_as_it_was_written(kind: Any, data: st.DataObject) -> None:
    stored = to_plain({"kind": kind.kind, **data.draw(STORED), **data.draw(OWN[kind])})
    outcome = from_json(kind, to_json(stored))
    written = to_plain(outcome)
    for name in ("state", "fields"):  # the task is taken out of the one, the other has what the error has
        stored.pop(name, None)
    assert {name: written[name] for name in stored} == stored
    assert to_json(from_json(kind, to_json(outcome))) == to_json(outcome)
