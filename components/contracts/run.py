"""What was asked (RunRequest) and what will be done (RunPlan)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from agentcompass.components.contracts.frozen import Frozen


def _regular(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression ({error})") from None
    return pattern


def _absolute(directory: str) -> str:
    """Relative ones would name a folder of whatever project is the current directory."""
    if not (directory.startswith("~") or Path(directory).is_absolute()):
        raise ValueError(f"{directory!r} is not absolute (nor does it start with ~)")
    return directory


Strategy = Literal["avg", "pass"]
Seconds = Annotated[float, Field(ge=0)]


class SecretReference(Frozen):
    """The name of a secret, never its value: Prefect and the results store requests."""

    env: str = ""
    """An environment variable, or a name the command line filled in this process."""
    block: str = ""
    """Instead of it, a Prefect Secret block; read by a run on a worker."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "SecretReference":
        if bool(self.env) == bool(self.block):
            raise ValueError("give a variable (env) or a Secret block (block)")
        return self

    @property
    def name(self) -> str:
        """Under which this process may hold the value."""
        return self.env or f"block:{self.block}"


class Choice(Frozen):
    """A component and the parameters the user set for it."""

    id: str
    params: Mapping[str, Any] = {}


class ModelSpec(Frozen):
    """Which model, and how it is reached."""

    id: str
    """The model's name at the endpoint, or `scripted` / `replay` (built in)."""
    base_url: str = ""
    """User and password in it are replaced by a reference before the request is stored."""
    api_key: SecretReference | None = None
    """Where the key is found: its name, never its value."""
    api_protocol: tuple[str, ...] = ()
    """In order of preference; empty: chosen by harness and endpoint."""
    params: Mapping[str, Any] = {}
    """Sampling and other fields for the model API."""


class AttemptPlan(Frozen):
    k: Annotated[int, Field(ge=1)] = 1
    """Logical attempts per task."""
    strategy: Strategy = "avg"
    """`avg`: all k; `pass`: in order, stop at the first success."""


class ArtifactLimits(Frozen):
    """What is captured of an attempt's outputs; what is over is left out and named."""

    max_mb: Annotated[float, Field(gt=0)] = 64
    """All files together."""
    max_files: Annotated[int, Field(ge=1)] = 1_000
    """How many files."""


class ExecutionSettings(Frozen):
    """How attempts are carried out. Deadlines in seconds; 0 = none."""

    task_concurrency: Annotated[int, Field(ge=1)] = 32
    """Physical attempts running at once in this run, scoring included."""
    attempts: AttemptPlan = AttemptPlan()
    """How often each task is tried."""
    setup_timeout_seconds: Seconds | None = None
    """Opening the sandbox and preparing the task. None: the task's own limit, else 600."""
    run_timeout_seconds: Seconds | None = None
    """The agent's work. None: the task's own limit, else 3600."""
    finalization_grace_seconds: Seconds = 10
    """How long a harness stopped at its deadline may take to end."""
    artifact_prepare_timeout_seconds: Seconds = 120
    """Capturing what the agent left."""
    evaluation_timeout_seconds: Seconds | None = None
    """Judging. None: the task's own limit, else 600."""
    timeout_multiplier: Annotated[float, Field(gt=0)] = 1.0
    """Stretches every deadline, not the grace after it."""
    output_limit_kb: Annotated[int, Field(ge=1)] = 256
    """Kept of each stream of each command: head and tail."""
    artifact_limits: ArtifactLimits = ArtifactLimits()
    """A benchmark's own limits hold where they are lower."""
    keep_environment: bool = False
    """Leave every sandbox behind, for debugging."""
    max_retries: Annotated[int, Field(ge=0)] = 0
    """Further tries of an attempt whose failure is FATAL, or an ERROR that a pattern matches."""
    retry_pattern_list: tuple[Annotated[str, AfterValidator(_regular)], ...] | None = None
    """Regular expressions, any case, searched in an ERROR's code and message; none: FATAL only."""
    retry_min_delay_seconds: Seconds = 5
    """Before the first further try; doubled for each one after it."""
    retry_max_delay_seconds: Seconds = 60
    """No pause is longer."""
    enable_analysis: bool = True
    """Run the analyzers when the attempts are finished."""
    analysis_params: Mapping[str, Any] = {}
    """Analyzer id → its parameters; `analyzers`: a list of ids, only these; `model_check`: a model
    that is asked about suspicious findings. Changes no result."""


class RuntimeSettings(Frozen):
    """Where a run lives and how it talks. Nothing here changes a result."""

    results_dir: str = "results"
    """Root folder of run outputs."""
    data_dir: str = "data"
    """Root folder of downloaded data sets and caches."""
    provider_limits: Mapping[str, Annotated[int, Field(ge=0)]] = {}
    """Attempts of a provider at once, over all runs on the same Prefect API; 0: no limit."""
    env_open_qps: Mapping[str, Seconds] = {}
    """Sandboxes of a provider opened per second, over all runs on the same API; 0: no pacing."""
    run_name: str = ""
    """A subfolder of the results folder for this run and others of its name."""
    run_id: str = ""
    """Empty: the start time, YYYYMMDD_HHMMSS."""
    timeout_seconds: Seconds = 360_000
    """For everything after preflight; 0 = none."""
    reuse: str | None = None
    """Take results over from this run, `latest` for the one with most finished work; None: no."""
    checkpoint_resume: bool = True
    """With `reuse`: judge kept checkpoints instead of running the agent again."""
    recipe_dirs: tuple[Annotated[str, AfterValidator(_absolute)], ...] = ()
    """Trusted directories of recipes: absolute, or from your home (`~/…`). Code in them is run:
    only your own configuration, --config and the command line may name them."""
    auto_install_dependencies: bool = False
    """Install what planned components lack, if they are built in or installed themselves."""
    progress: Literal["auto", "plain", "none"] = "auto"
    """A live display on a terminal, plain lines, or nothing."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """On the console."""
    file_log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "DEBUG"
    """In the run's log file."""


class Rescore(Frozen):
    """Judge again what agents left in an earlier run; no agent runs."""

    run_dir: str
    """The earlier run's folder, absolute."""
    into: str = ""
    """The folder of the new run, absolute; empty: beside the earlier one."""


class RunRequest(Frozen):
    """One evaluation: what the user asked. Holds no secrets; Prefect stores it."""

    benchmark: Choice
    """What is solved, and how it is judged."""
    harness: Choice
    """The agent that solves it."""
    model: ModelSpec
    """What the agent thinks with."""
    environment: Choice = Choice(id="host_process")
    """Where commands of the tasks are executed."""
    recipes: tuple[str, ...] | None = None
    """Only these recipes, if they match; None: every one that matches."""
    execution: ExecutionSettings = ExecutionSettings()
    """How attempts are carried out."""
    runtime: RuntimeSettings = RuntimeSettings()
    """Where the run lives; paths are those of the machine it runs on."""
    rescore: Rescore | None = None
    """Judge the kept checkpoints of an earlier run again (`agentcompass rescore`); None: a run."""


class PlannedComponent(Frozen):
    """A component as it will run."""

    id: str
    version: str
    origin: str
    """Where its code came from: `built in`, a distribution, a directory."""
    params: Mapping[str, Any]
    """Complete: what the user set over the defaults."""


class PlannedRecipe(Frozen):
    """A recipe that matches the plan; what it changes is told by its code, task by task."""

    id: str
    version: str
    origin: str


class RunPlan(Frozen):
    """The request, resolved: every component with its version and complete parameters."""

    schema_version: Literal[1] = 1
    request: RunRequest
    benchmark: PlannedComponent
    harness: PlannedComponent
    environment: PlannedComponent
    recipes: tuple[PlannedRecipe, ...] = ()
    """In the order they apply: the most specific last."""
    model_protocol: str
    """`scripted`, `replay`, or an API protocol."""
    model_params: Mapping[str, Any]
    """Complete, with references where secrets belong."""
    primary: Literal["correct", "score"]
