"""Parameters that every component of a family shares. Each component's own model extends one."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.requirements import Network, Resources, Setup


class BenchmarkParameters(Frozen):
    """Which tasks are selected, and how the headline counts."""

    sample_ids: tuple[str, ...] | None = None
    """Exactly these tasks, by their stable ids; unknown or repeated ids are refused."""
    categories: tuple[str, ...] | None = None
    """Only tasks of these categories; unknown ones are refused."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """At most this many tasks, after the other selections."""
    seed: int | None = None
    """Shuffle the tasks with this seed before `limit`; unset: the data set's order. 0 is a seed."""
    unscored: Literal["zero", "exclude"] = "zero"
    """How the headline counts an attempt without a score: as 0/false, or left out."""
    aggregation: Literal["micro", "macro"] = "micro"
    """`micro`: the mean over tasks; `macro`: the mean of the categories' means."""


class HarnessParameters(Frozen):
    """Nothing is common to all harnesses yet."""


class EnvironmentParameters(Frozen):
    """Settings of the sandbox that hold for every provider. They win over the task's own."""

    setup: Setup = Setup()
    """Image, working directory and what is done before the task is prepared."""
    resources: Resources = Resources()
    """Limits of one sandbox."""
    network: Network | None = None
    """Replaces the task's policies as a whole."""
    user: str | None = None
    """Who runs commands inside; unset: the task's, else the image's own."""
    env: Mapping[str, str] = {}
    """Variables for every command in the sandbox. A value `${NAME}` is read from your shell."""
    run_env: Mapping[str, str] = {}
    """Variables only while the agent works."""
    evaluation_env: Mapping[str, str] = {}
    """Variables only while the grader works."""
