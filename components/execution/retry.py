"""Which failures are tried again, and after which pause. Pure."""

import random
import re

from agentcompass.components.contracts.attempt import Note
from agentcompass.components.contracts.errors import POLICIES, Severity
from agentcompass.components.contracts.run import ExecutionSettings


def is_retried(failure: Note, failed_tries: int, settings: ExecutionSettings) -> bool:
    """FATAL by itself (unless no try could fare better), ERROR by a pattern, WARNING never."""
    policy = POLICIES[failure.code]
    if failed_tries > settings.max_retries:
        return False
    if policy.severity is Severity.ERROR:
        text = f"{failure.code}: {failure.message}"
        patterns = settings.retry_pattern_list or ()
        return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return policy.retried


def pause_seconds(failed_tries: int, settings: ExecutionSettings) -> float:
    """Between half and all of a delay that doubles with each failed try, up to the maximum."""
    longest = min(
        settings.retry_min_delay_seconds * 2 ** min(failed_tries - 1, 30),
        settings.retry_max_delay_seconds,
    )
    return random.uniform(longest / 2, longest)
