"""The rules of the loop: pure judgements on replies, answers, approvals and repetitions."""

from .answers import FINAL_TOOL, OutputForm, OutputMode, output_form, unfenced
from .approval import approval_token, question_token
from .checks import Checks, OutputCheck, Refused
from .guard import GUARD, LoopGuard, OnLimit
from .reply_judge import (
    Answer,
    CallPlan,
    FlawedPlan,
    Malformed,
    Misshapen,
    Pause,
    Rejected,
    ReplyJudge,
    Verdict,
    is_response,
    judge_of,
)
from .tally import PolicyView, Tally, short_result

__all__ = [
    "FINAL_TOOL",
    "GUARD",
    "Answer",
    "CallPlan",
    "Checks",
    "FlawedPlan",
    "LoopGuard",
    "Malformed",
    "Misshapen",
    "OnLimit",
    "OutputCheck",
    "OutputForm",
    "OutputMode",
    "Pause",
    "PolicyView",
    "Refused",
    "Rejected",
    "ReplyJudge",
    "Tally",
    "Verdict",
    "approval_token",
    "is_response",
    "judge_of",
    "output_form",
    "question_token",
    "short_result",
    "unfenced",
]
