"""AgentCompass: measure LLM agents on benchmarks, with a number that can be trusted."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentcompass.flows.sdk import BuiltRequest, RunResult, arun, build_run_request, run

__all__ = ["BuiltRequest", "RunResult", "__version__", "arun", "build_run_request", "run"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The SDK is loaded when it is asked for: the command line must start in no time."""
    if name in __all__:
        from agentcompass.flows import sdk

        return getattr(sdk, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
