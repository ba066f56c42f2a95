"""Can this run start here and now? Every problem is found before anything is spent."""

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution import dependencies
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.recipes import broken_recipes
from agentcompass.components.execution.sandbox_preflight import sandbox_problems
from agentcompass.components.results.paths import check_results_dir

log = logging.getLogger(__name__)

FREE_DISK_MB = 200
"""Below this a run is not started."""

MODEL_HINTS = {
    Code.MODEL_AUTH: ("model-api-key", "check --model-api-key"),
    Code.MODEL_QUOTA: ("model-api-key", "top the account up, or use another key"),
    Code.MODEL_NOT_FOUND: ("model", "check MODEL and --model-base-url"),
    Code.MODEL_BAD_REQUEST: ("model-params", "check --model-params and --model-api-protocol"),
}


async def preflight(plan: RunPlan, parts: Parts, samples: Sequence[Sample]) -> tuple[str, ...]:
    """All problems, one line each; empty when the run may start. One call to the model."""
    for line in broken_recipes(plan.request):
        log.warning("%s", line)
    lacking = dependencies.problems(plan.request)
    problems = [*lacking, *_cost_limit(plan, parts), *_disk(plan)]
    checks = await asyncio.gather(_model(plan, parts), _environment(plan, parts, samples))
    return tuple(problems + [problem for found in checks for problem in found])


def _cost_limit(plan: RunPlan, parts: Parts) -> list[str]:
    """A limit the user set must hold; a harness's default one is told not to."""
    limit = plan.harness.params.get("cost_limit")
    if not (limit and parts.harness.needs.model) or parts.model.prices_known:
        return []
    problem = (
        f"harness-params.cost_limit: {limit} USD cannot be kept, the price of "
        f"{plan.request.model.id!r} is unknown; give model-params.prices"
    )
    if "cost_limit" in plan.request.harness.params:
        return [f"{problem}, or leave the limit out"]
    log.warning("%s", problem)
    return []


def _disk(plan: RunPlan) -> list[str]:
    folder = Path(plan.request.runtime.results_dir).expanduser().absolute()
    try:
        check_results_dir(folder)
    except RequestError as error:
        return [str(error)]
    while not folder.exists():
        folder = folder.parent
    free_mb = shutil.disk_usage(folder).free // 2**20
    if free_mb < FREE_DISK_MB:
        return [f"results-dir: {free_mb} MB are free on the disk of {folder}; free some space"]
    return []


async def _model(plan: RunPlan, parts: Parts) -> list[str]:
    if not parts.harness.needs.model:
        return []
    try:
        await parts.model.check()
    except AgentCompassError as error:
        field, way_out = MODEL_HINTS.get(error.code, ("model-base-url", "is the endpoint up?"))
        return [f"{field}: {error.policy.meaning}: {error}; {way_out}"]
    except RequestError as error:
        return [str(error)]
    return []


async def _environment(plan: RunPlan, parts: Parts, samples: Sequence[Sample]) -> list[str]:
    rescoring = plan.request.rescore is not None
    return await sandbox_problems(parts, plan.environment.id, samples, rescoring=rescoring)
