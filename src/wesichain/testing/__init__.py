"""Tools for your tests: scripted models, simulation with faults, a fake clock, contract suites, cassettes."""

from typing import TYPE_CHECKING

from wesichain.core.internal import lazy_getattr

if TYPE_CHECKING:
    from .checkpoints import CheckpointerContract
    from .clock import FakeClock
    from .contracts import ModelContract, SinkContract, ToolContract
    from .conversations import ConversationsContract
    from .drift import Drift, compare_drift, drift_of, drift_report, read_runs
    from .logs import LogsContract
    from .models import FunctionLlm, ScriptedLlm, StreamingScriptedLlm, calls
    from .providers import Answer, ProviderContract, ProviderReply, Served, Wire
    from .recordings import assert_replays
    from .simulation.faults import Fault, Faults
    from .simulation.scenario import Effect, Scenario, ToolEffects, Trace
    from .simulation.simulate import simulate, simulate_sync
    from .simulation.violations import Report, Violation
    from .thread_logs import ThreadLogsContract
else:
    # pytest loads the plugin of this package in every project, so the rest is imported on first use.
    __getattr__ = lazy_getattr(
        __name__,
        {
            ".checkpoints": ("CheckpointerContract",),
            ".clock": ("FakeClock",),
            ".contracts": ("ModelContract", "SinkContract", "ToolContract"),
            ".conversations": ("ConversationsContract",),
            ".drift": ("Drift", "compare_drift", "drift_of", "drift_report", "read_runs"),
            ".thread_logs": ("ThreadLogsContract",),
            ".logs": ("LogsContract",),
            ".models": ("FunctionLlm", "ScriptedLlm", "StreamingScriptedLlm", "calls"),
            ".providers": ("Answer", "ProviderContract", "Served", "ProviderReply", "Wire"),
            ".recordings": ("assert_replays",),
            ".simulation.faults": ("Fault", "Faults"),
            ".simulation.scenario": ("Effect", "Scenario", "ToolEffects", "Trace"),
            ".simulation.simulate": ("simulate", "simulate_sync"),
            ".simulation.violations": ("Report", "Violation"),
        },
        renamed={"Spoken": "ProviderReply"},
    )

__all__ = [
    "Answer",
    "CheckpointerContract",
    "ConversationsContract",
    "Drift",
    "Effect",
    "FakeClock",
    "Fault",
    "Faults",
    "FunctionLlm",
    "LogsContract",
    "ModelContract",
    "ProviderContract",
    "ProviderReply",
    "Report",
    "Scenario",
    "ScriptedLlm",
    "Served",
    "SinkContract",
    "StreamingScriptedLlm",
    "ThreadLogsContract",
    "ToolContract",
    "ToolEffects",
    "Trace",
    "Violation",
    "Wire",
    "assert_replays",
    "calls",
    "compare_drift",
    "drift_of",
    "drift_report",
    "read_runs",
    "simulate",
    "simulate_sync",
]
