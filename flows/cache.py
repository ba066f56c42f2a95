"""Prefect's task cache for the stages: the key is the stage's own name (execution.job)."""

from typing import Any

from prefect.context import TaskRunContext


def by_key(context: TaskRunContext, parameters: dict[str, Any]) -> str:
    return str(parameters["key"])
