"""How a harness ends. Its words for `stop_reason`, and errors of the model that end it normally.

| stop_reason | meaning |
|---|---|
| `finished` | the agent said it was done |
| `length` | the reply was cut off at the token limit (openai_chat) |
| `step_limit`, `token_limit`, `cost_limit` | a limit of the harness was reached |
| `format` | too many replies in a row that the harness could not act on |
| `context_window` | the conversation outgrew the model |
| `content_filter` | the provider filtered the reply |
| `crashed` | the agent library raised an error of its own |
"""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import AttemptLog

_STOP_REASONS: dict[Code, str] = {
    Code.MODEL_CONTEXT_WINDOW: "context_window",
    Code.MODEL_CONTENT_FILTER: "content_filter",
    Code.HARNESS_STEP_LIMIT: "step_limit",
    Code.HARNESS_COST_LIMIT: "cost_limit",
    Code.HARNESS_TOKEN_LIMIT: "token_limit",
    Code.HARNESS_FORMAT: "format",
    Code.HARNESS_CRASHED: "crashed",
}


def end_with(
    code: Code,
    message: str,
    log: AttemptLog,
    *,
    answer: str | None = None,
    stop_reason: str | None = None,
) -> Submission:
    """Note why the agent ended early; what it left is still graded."""
    log.note(code, message)
    return Submission(answer=answer, stop_reason=stop_reason or _STOP_REASONS[code])


def end_or_raise(
    error: AgentCompassError, log: AttemptLog, *, answer: str | None = None
) -> Submission:
    """End the attempt on a model error that leaves it gradeable; any other error rises."""
    if error.code not in (Code.MODEL_CONTEXT_WINDOW, Code.MODEL_CONTENT_FILTER):
        raise error
    return end_with(error.code, str(error), log, answer=answer)
