"""`agentcompass run --dry-run`: check everything, print the plan, spend nothing."""

import asyncio
import json

from agentcompass.cli.rendering.plan import plan_document, plan_lines
from agentcompass.cli.run_checks import Checked
from agentcompass.cli.streams import put
from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.execution.preflight import preflight


def dry_run(checked: Checked, *, as_json: bool) -> int:
    """Print the plan; PreflightRefused afterwards if the run could not start here and now."""
    problems = preflight_of(checked)
    if as_json:
        document = plan_document(checked) | {
            "problems": list(problems),
            "exit_code": 3 if problems else 0,
        }
        put(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))
        return 3 if problems else 0
    for line in plan_lines(checked):
        put(line)
    if problems:
        raise PreflightRefused(problems)
    return 0


def preflight_of(checked: Checked) -> tuple[str, ...]:
    """Every problem that would stop the run, found here and now."""
    return asyncio.run(_preflight(checked))


async def _preflight(checked: Checked) -> tuple[str, ...]:
    try:
        return await preflight(checked.plan, checked.parts, checked.samples)
    finally:
        await checked.parts.model.close()
