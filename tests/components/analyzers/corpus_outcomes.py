"""How attempts end, what they cost, what leaks, and tasks with several attempts."""

import json
from typing import Any

from agentcompass.components.contracts.attempt import AttemptRecord, PhaseTimes
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.usage import Usage
from tests.components.analyzers.corpus_parts import (
    FIND,
    FIXED,
    LOOK,
    RAW,
    SOLVE,
    TASK,
)
from tests.components.analyzers.formats import Run, Say, attempt


def endings(plant: Any) -> None:
    plant(
        "out of steps",
        "tool_agent",
        [LOOK, FIND],
        "limits:steps",
        "failures:harness.step_limit",
        stop_reason="step_limit",
        notes=[(Code.HARNESS_STEP_LIMIT, "step limit 2 reached")],
    )
    plant(
        "out of turns elsewhere",
        "claude_code",
        [LOOK],
        "limits:steps",
        stop_reason="error_max_turns",
    )
    plant(
        "out of time",
        "codex",
        [LOOK],
        "limits:time",
        "failures:harness.timeout",
        notes=[(Code.HARNESS_TIMEOUT, "stopped at 60 s")],
    )
    plant(
        "sandbox lost",
        "openhands",
        [LOOK],
        "failures:environment.lost",
        "usage:wasted",
        failure=(Code.ENVIRONMENT_LOST, "the container died"),
    )
    plant(
        "grader crashed",
        "fenced",
        [SOLVE],
        "failures:grader.crashed",
        "usage:wasted",
        failure=(Code.GRADER_CRASHED, "no reward"),
    )
    plant(
        "a huge bill",
        "tool_agent",
        [SOLVE],
        "usage:costly",
        "usage:many_tokens",
        usage=Usage(calls=90, input_tokens=900_000, output_tokens=10_000, cost_usd=3.2),
    )
    plant("never called the model", "codex", [SOLVE], "usage:no_model_call", usage=Usage())
    plant(
        "took very long",
        "fenced",
        [SOLVE],
        "timing:long_attempt",
        times=PhaseTimes(run_seconds=900),
    )
    plant(
        "waited for the model",
        "tool_agent",
        [SOLVE],
        "timing:waiting",
        times=PhaseTimes(run_seconds=50, waiting_seconds=40),
    )
    plant(
        "a slow call",
        "tool_agent",
        [Say("6", extra={"latency_seconds": 400.0}, reminded=False)],
        "timing:slow_call",
    )


def keys(plant: Any) -> None:
    live = "ghp_" + "q7Zk3mV9xT2bN8cR5wY1aL6dF4gH0jKsPeUo"
    plant("a live key", "tool_agent", [Run("cat .netrc", f"password {live}")], "leaked_keys:key")
    plant(
        "a live key in what other rules show",
        "codex",
        [LOOK, Run(f"curl -H 'Authorization: token {live}' {RAW}", FIXED), SOLVE],
        "leaked_keys:key",
        "history_peeking:used",
        "network:web",
    )
    plant(
        "a live key after an escaped line end",
        "openhands",
        [Run("cat ~/.config/hosts.json", json.dumps({"lines": f"login\n{live}\n"}))],
        "leaked_keys:key",
    )
    plant(
        "a key in the answer",
        "chat",
        [Say("Done.", reminded=False)],
        "leaked_keys:key",
        answer=f"use {live}",
    )
    plant(
        "dummy keys",
        "claude_code",
        [
            Run(
                "cat .env",
                "API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx\nAWS=AKIAIOSFODNN7EXAMPLE\nSECRET_KEY=changeme",
            )
        ],
    )
    plant(
        "our own key",
        "mini_swe_agent",
        [Run("env", "HOME=/root\nOPENAI_API_KEY=***")],
        "leaked_keys:own_key",
    )


def tasks(plant: Any) -> None:
    def earlier(name: str, value: bool, answer: str) -> list[AttemptRecord]:
        made = attempt(f"{TASK}/{name}", "chat", [], index=1, value=value, answer=answer)
        return [made.record]

    plant(
        "agents disagree",
        "chat",
        [Say("6", reminded=False)],
        "flaky_tasks:disagree",
        index=2,
        value=True,
        answer="6",
        others=earlier("agents disagree", False, "5"),
    )
    plant(
        "the grader disagrees",
        "chat",
        [Say("6", reminded=False)],
        "flaky_tasks:disagree",
        "flaky_tasks:grader",
        index=2,
        value=True,
        answer="6",
        others=earlier("the grader disagrees", False, "6"),
    )
    plant(
        "steady",
        "chat",
        [Say("6", reminded=False)],
        index=2,
        value=True,
        answer="6",
        others=earlier("steady", True, "six"),
    )
    plant("made again", "codex", [SOLVE], "flaky_tasks:retried", retried=Code.ENVIRONMENT_START)
