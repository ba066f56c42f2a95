"""Every failure has a code; one table says what each code means for the attempt and the run.

Exception
├── RequestError       what was asked cannot be done as written: exit 2, nothing spent
├── PreflightRefused   what was asked cannot start here and now: exit 3, nothing spent
└── AgentCompassError  a failure with a code from POLICIES
"""

import re
from enum import StrEnum
from typing import Any, NamedTuple


class Severity(StrEnum):
    WARNING = "warning"  # noted; what the agent left is graded; never retried
    ERROR = "error"  # no valid score; retried only where --retry-pattern-list matches
    FATAL = "fatal"  # infrastructure: no valid score; retried up to --max-retries


class Owner(StrEnum):
    AGENT = "agent"
    MODEL = "model"
    ENVIRONMENT = "environment"
    GRADER = "grader"
    FRAMEWORK = "framework"


class Phase(StrEnum):
    SETUP = "setup"  # the sandbox opens and the task is prepared
    RUN = "run"  # the agent works
    COLLECT = "collect"  # what it left is captured, up to the checkpoint
    SCORE = "score"  # the benchmark judges the checkpoint


class Code(StrEnum):
    ENVIRONMENT_START = "environment.start"
    ENVIRONMENT_SETUP_TIMEOUT = "environment.setup_timeout"
    ENVIRONMENT_SETUP = "environment.setup"
    ENVIRONMENT_LOST = "environment.lost"
    ENVIRONMENT_DISK_FULL = "environment.disk_full"
    MODEL_RATE_LIMITED = "model.rate_limited"
    MODEL_UNAVAILABLE = "model.unavailable"
    MODEL_TIMEOUT = "model.timeout"
    MODEL_INVALID_REPLY = "model.invalid_reply"
    MODEL_BAD_REQUEST = "model.bad_request"
    MODEL_AUTH = "model.auth"
    MODEL_NOT_FOUND = "model.not_found"
    MODEL_QUOTA = "model.quota"
    MODEL_CONTEXT_WINDOW = "model.context_window"
    MODEL_CONTENT_FILTER = "model.content_filter"
    HARNESS_TIMEOUT = "harness.timeout"
    HARNESS_STEP_LIMIT = "harness.step_limit"
    HARNESS_COST_LIMIT = "harness.cost_limit"
    HARNESS_TOKEN_LIMIT = "harness.token_limit"
    HARNESS_FORMAT = "harness.format"
    HARNESS_CRASHED = "harness.crashed"
    SUBMISSION_EMPTY = "submission.empty"
    ARTIFACT_FAILED = "artifact.failed"
    ARTIFACT_LIMIT = "artifact.limit"
    ARTIFACT_TIMEOUT = "artifact.timeout"
    GRADER_TIMEOUT = "grader.timeout"
    GRADER_SETUP = "grader.setup"
    GRADER_CRASHED = "grader.crashed"
    GRADER_INVALID_REWARD = "grader.invalid_reward"
    GRADER_TAMPERED = "grader.tampered"
    RESULTS_WRITE = "results.write"
    RUN_TIMEOUT = "run.timeout"
    RUN_CANCELLED = "run.cancelled"
    RUN_STOPPED = "run.stopped"
    FRAMEWORK_UNEXPECTED = "framework.unexpected"


class Policy(NamedTuple):
    severity: Severity
    owner: Owner
    graded: bool  # what the agent left still goes to the grader
    stops_run: bool  # no later attempt could fare better: the whole run ends
    meaning: str

    @property
    def retried(self) -> bool:
        """Retried without being asked by a pattern (up to --max-retries)."""
        return self.severity is Severity.FATAL and not self.stops_run


def _warning(owner: Owner, meaning: str) -> Policy:
    return Policy(Severity.WARNING, owner, graded=True, stops_run=False, meaning=meaning)


def _error(owner: Owner, meaning: str) -> Policy:
    return Policy(Severity.ERROR, owner, graded=False, stops_run=False, meaning=meaning)


def _fatal(owner: Owner, meaning: str, *, stops_run: bool = False) -> Policy:
    return Policy(Severity.FATAL, owner, graded=False, stops_run=stops_run, meaning=meaning)


POLICIES: dict[Code, Policy] = {
    Code.ENVIRONMENT_START: _fatal(Owner.ENVIRONMENT, "the sandbox did not open"),
    Code.ENVIRONMENT_SETUP_TIMEOUT: _fatal(
        Owner.ENVIRONMENT, "opening the sandbox or preparing the task outlasted its deadline"
    ),
    Code.ENVIRONMENT_SETUP: _fatal(Owner.ENVIRONMENT, "preparing the task in the sandbox failed"),
    Code.ENVIRONMENT_LOST: _fatal(Owner.ENVIRONMENT, "the sandbox went away in mid-attempt"),
    Code.ENVIRONMENT_DISK_FULL: _fatal(
        Owner.ENVIRONMENT, "no space is left where sandboxes live", stops_run=True
    ),
    Code.MODEL_RATE_LIMITED: _fatal(Owner.MODEL, "still rate-limited after the client's retries"),
    Code.MODEL_UNAVAILABLE: _fatal(Owner.MODEL, "the endpoint is unreachable or failing (5xx)"),
    Code.MODEL_TIMEOUT: _fatal(Owner.MODEL, "the endpoint did not answer in time"),
    Code.MODEL_INVALID_REPLY: _fatal(Owner.MODEL, "the endpoint's replies cannot be read"),
    Code.MODEL_BAD_REQUEST: _error(Owner.MODEL, "the endpoint refused the request (4xx)"),
    Code.MODEL_AUTH: _fatal(Owner.MODEL, "the endpoint refused the key", stops_run=True),
    Code.MODEL_NOT_FOUND: _fatal(Owner.MODEL, "no such model at the endpoint", stops_run=True),
    Code.MODEL_QUOTA: _fatal(Owner.MODEL, "the account's quota is used up", stops_run=True),
    Code.MODEL_CONTEXT_WINDOW: _warning(Owner.AGENT, "the conversation outgrew the model"),
    Code.MODEL_CONTENT_FILTER: _warning(Owner.AGENT, "the provider filtered the reply"),
    Code.HARNESS_TIMEOUT: _warning(Owner.AGENT, "the agent ran out of time"),
    Code.HARNESS_STEP_LIMIT: _warning(Owner.AGENT, "the agent ran out of steps"),
    Code.HARNESS_COST_LIMIT: _warning(Owner.AGENT, "the agent ran out of money"),
    Code.HARNESS_TOKEN_LIMIT: _warning(Owner.AGENT, "the agent ran out of tokens"),
    Code.HARNESS_FORMAT: _warning(Owner.AGENT, "the agent's replies kept breaking the format"),
    Code.HARNESS_CRASHED: _warning(Owner.AGENT, "the agent crashed by its own fault"),
    Code.SUBMISSION_EMPTY: _warning(Owner.AGENT, "the agent left nothing to grade"),
    Code.ARTIFACT_FAILED: _fatal(Owner.ENVIRONMENT, "capturing the outputs failed"),
    Code.ARTIFACT_LIMIT: _warning(Owner.AGENT, "an artifact over the limit was left out"),
    Code.ARTIFACT_TIMEOUT: _fatal(Owner.ENVIRONMENT, "capturing the outputs took too long"),
    Code.GRADER_TIMEOUT: _fatal(Owner.GRADER, "the grader outlasted its deadline"),
    Code.GRADER_SETUP: _fatal(
        Owner.GRADER, "what the grader needs could not be fetched, installed or started"
    ),
    Code.GRADER_CRASHED: _error(Owner.GRADER, "the grader failed"),
    Code.GRADER_INVALID_REWARD: _error(
        Owner.GRADER, "the reward is missing, not a finite number, or out of its range"
    ),
    Code.GRADER_TAMPERED: _warning(Owner.AGENT, "the agent touched what the grader relies on"),
    Code.RESULTS_WRITE: _fatal(
        Owner.FRAMEWORK, "a result could not be written to disk", stops_run=True
    ),
    Code.RUN_TIMEOUT: _fatal(Owner.FRAMEWORK, "the run's own time-out ended the attempt"),
    Code.RUN_CANCELLED: _fatal(Owner.FRAMEWORK, "the run was interrupted"),
    Code.RUN_STOPPED: _fatal(Owner.FRAMEWORK, "another attempt's failure stopped the run"),
    Code.FRAMEWORK_UNEXPECTED: _error(Owner.FRAMEWORK, "a fault in AgentCompass or a plugin"),
}


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class AgentCompassError(Exception):
    """A failure with a code. The message is one line a user can act on.

    NUL and half surrogates in it are replaced: no log, database or console takes them.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(_UNSTORABLE.sub("\ufffd", message))
        self.code = code

    @property
    def policy(self) -> Policy:
        return POLICIES[self.code]

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.code, str(self))  # survives a process pool


class RequestError(Exception):
    """The request cannot be done as written (exit 2). Names the field and the way out."""

    def __init__(self, field: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{field}: {problem}" + (f"; {hint}" if hint else ""))
        self.field, self.problem, self.hint = field, problem, hint

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.field, self.problem, self.hint)


class PreflightRefused(Exception):
    """The run cannot start here and now (exit 3). Carries every problem, not the first."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.problems,)
