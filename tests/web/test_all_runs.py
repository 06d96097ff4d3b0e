"""Recordings and durable runs in one list."""

from __future__ import annotations

import json

import pytest

from tests.trace.runs import run
from wesichain.web.all_runs import AllRuns
from wesichain.web.run_store import RunStore


async def test_a_list_goes_on_after_a_run_that_is_named_and_no_other(store: RunStore) -> None:
    runs = AllRuns(store)
    shown, following = await runs.list(limit=1)
    assert ([one.run_id for one in shown], following is not None) == (["run-2"], True)
    for name in ("run-2", following):
        after, _ = await runs.list(after=name)
        assert [one.run_id for one in after] == ["run-1", "run-0"]
    with pytest.raises(Exception, match="there is no run 'nobody' for the list to continue after"):
        await runs.list(after="nobody")
    page = json.loads(await runs.page(shown[0]))
    assert (page["run"]["run_id"], page["next"], len(page["events"])) == ("run-2", None, len(run("r", 3)))
