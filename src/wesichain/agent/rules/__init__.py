"""The rules of the loop: pure judgements on replies, answers, approvals and repetitions."""

from .approval import approval_token
from .guard import GUARD, LoopGuard
from .output import FINAL_TOOL, OutputForm, TextOutput, TypedOutput, output_form
from .reply import Answer, FlawedPlan, Judge, Malformed, Plan, Rejected, Verdict, is_response
from .tally import Tally

__all__ = [
    "FINAL_TOOL",
    "GUARD",
    "Answer",
    "FlawedPlan",
    "Judge",
    "LoopGuard",
    "Malformed",
    "OutputForm",
    "Plan",
    "Rejected",
    "Tally",
    "TextOutput",
    "TypedOutput",
    "Verdict",
    "approval_token",
    "is_response",
    "output_form",
]
