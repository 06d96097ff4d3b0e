"""Every behaviour that other frameworks' suites pin of an agent loop: the test that shows ours, or a reason.

The behaviours are listed in the corpus `agent_loop_behaviours.md`.
"""

from __future__ import annotations

import re

import pytest

from tests.conftest import ORIGINS, OUTSIDE, ROOT, corpora

R = "agent/test_runtime.py::"
G = "agent/test_agent.py::"
P = "agent/test_parallel.py::"
O = "agent/test_output.py::"  # noqa: E741  # one letter a file, to keep the table a table
C = "agent/test_cancellation.py::"
AP = "agent/test_approvals.py::"
L = "agent/test_laws.py::"
W = "agent/test_whole_logs.py::test_a_run_of_each_kind_is_logged_as_it_was"

SHOWN = {
    "A01": R + "test_a_run_ends",
    "A02": W,
    "A03": W,
    "A04": L + "test_a_run_always_ends_within_its_budget_with_lawful_events",
    "A06": R + "test_a_run_ends",
    "A07": W,
    "A08": G + "test_history_goes_in_and_comes_out",
    "A10": "agent/test_rules.py::test_a_history_has_every_call_with_its_result",
    "A12": G + "test_instructions",
    "A13": G + "test_instructions_may_be_async_and_are_made_for_every_run",
    "A14": R + "test_what_is_no_model_is_refused",
    "A20": W,
    "A21": W,
    "A22": W,
    "A23": R + "test_a_failed_run_keeps_the_results_of_its_last_batch",
    "A24": W,
    "A25": "agent/test_recorded_errors.py::test_a_replay_charges_what_a_tool_ran_at_its_own_price",
    "A26": W,
    "A27": R + "test_complete_arguments_run_even_when_the_reply_was_cut",
    "A30": W,
    "A31": W,
    "A32": R + "test_a_run_ends",
    "A33": R + "test_a_run_ends",
    "A34": W,
    "A35": R + "test_an_endless_retry_of_a_tool_is_bounded_by_the_budget",
    "A36": C + "test_during_a_tool_and_the_results_before_it_are_kept",
    "A37": P + "test_results_stay_in_call_order_and_the_cap_holds",
    "A38": P + "test_calls_in_the_queue_do_not_start_after_a_fatal_failure",
    "A39": P + "test_a_sequential_tool_is_a_barrier",
    "A40": W,
    "A41": P + "test_a_failure_that_ends_the_run_stops_the_siblings_and_is_the_first_in_call_order",
    "A42": C + "test_cancelling_the_task_cleans_up_tells_and_propagates",
    "A44": "tools/test_definition.py::test_a_name_is_taken_once",
    "A45": W,
    "A47": "agent/test_deps.py::test_a_context_that_nobody_has_looked_at_is_a_whole_value",
    "A53": "agent/test_judge.py::test_ids_that_are_taken_or_missing_are_made_anew",
    "A60": O + "test_an_invalid_answer_is_reprompted_under_the_same_policy",
    "A61": O + "test_the_first_valid_answer_wins_and_calls_beside_it_do_not_run",
    "A62": O + "test_the_first_valid_answer_wins_and_calls_beside_it_do_not_run",
    "A63": O + "test_the_first_valid_answer_wins_and_calls_beside_it_do_not_run",
    "A65": O + "test_an_invalid_answer_is_reprompted_under_the_same_policy",
    "A66": "agent/test_judge.py::test_what_is_malformed",
    "A70": AP + "test_the_decision_is_carried_out",
    "A71": "agent/test_whole_stops.py::test_a_run_is_stopped_at_every_event_and_resumed",
    "A72": AP + "test_the_decision_is_carried_out",
    "A77": "test_docs.py::test_an_example_runs_and_is_short",
    "A80": G + "test_it_yields_the_events_and_ends_with_the_result_of_a_plain_run",
    "A81": G + "test_leaving_early_stops_the_run",
    "A82": "agent/test_endings.py::test_a_failed_run_raises_out_of_its_stream_and_an_interrupted_one_ends_it",
    "A83": R + "test_a_run_ends",
    "A85": G + "test_it_remembers_questions_and_answers_and_no_reasoning",
    "A86": W,
    "A87": L + "test_a_run_always_ends_within_its_budget_with_lawful_events",
    "A88": L + "test_a_run_always_ends_within_its_budget_with_lawful_events",
    "A89": W,
    "A90": G + "test_run_sync_works_again_and_again",
    "A91": G + "test_the_same_agent_runs_many_times_at_once",
    "A46": "agent/test_changing_tools.py::test_the_function_sees_the_run_as_it_is_when_the_step_begins",
    "A49": W,
    "A51": W,
    "A74": "agent/test_middleware.py::test_an_input_guard",
    "A75": "agent/test_endings.py::test_an_output_guard_holds_what_it_has_not_checked",
    "A76": "agent/test_middleware.py::test_a_tool_guard",
}

REASONS = {
    "A05": "a reply is one message here (LlmResponse): adapters join several into it",
    "A09": "a run always has a task; a history that ends in open calls has them dropped (A10), resume() is for those",
    "A11": "the input of a run is a task or a state; messages go in as history",
    "A43": "a tool's timeout is its own setting; there is no second, agent-wide one to override it (tests/tools)",
    "A48": "results are the tools room's: tests/tools",
    "A50": "a conditional edge after an agent node decides with code",
    "A52": "control flow belongs to the graph: conditional edges, Send, and updates of the state",
    "A64": "a pydantic validator on the output type transforms or refuses; the refusal is reprompted (A60)",
    "A73": "a deferred call is one that waits for approval: ApproveWith or Refuse answer it later, from another process",
    "A84": "adapters retry a stream before its first item alone: tests/llm",
    "A92": "there is no planning step: a plan is a thought, or a node of a graph",
}


def numbered(letter: str, *ranges: range) -> set[str]:
    return {f"{letter}{number:02}" for numbers in ranges for number in numbers}


# The behaviours, by the numbers of the corpus, so that none can be forgotten where that is absent.
LISTED = numbered(
    "A", range(1, 15), range(20, 28), range(30, 54), range(60, 67), range(70, 78), range(80, 93)
)


def test_every_behaviour_is_shown_or_has_a_reason() -> None:
    assert SHOWN.keys() | REASONS.keys() == LISTED
    assert not SHOWN.keys() & REASONS.keys()


@pytest.mark.skipif(OUTSIDE not in ORIGINS, reason="the corpus has no more than LISTED, which is held above")
def test_the_numbers_are_those_of_the_corpus() -> None:
    page = (corpora() / "agent_loop_behaviours.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^(A\d\d) ", page, re.MULTILINE)) == LISTED


def test_the_tests_named_exist() -> None:
    for where in SHOWN.values():
        file, _, name = where.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), where
