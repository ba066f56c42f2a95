"""The options of `agentcompass run`, section by section as on the page that describes them.

No option has a default here: what is not given falls through to the settings' own defaults, which
the help repeats (a test compares the two).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import click

from agentcompass.cli.optional_run_id import LATEST
from agentcompass.cli.run_command import LAST_SECTION, RunOption
from agentcompass.cli.values import (
    JsonList,
    JsonObject,
    PerProvider,
    Protocols,
    TextValue,
    WholeNumber,
    Word,
    together,
)

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

C = TypeVar("C", bound=Callable[..., Any])


def option(name: str, section: str, into: str = "", **settings: Any) -> Callable[[C], C]:
    """`into`: the field of RunOptions, where it is not the option's own name."""
    names = (name, into) if into else (name,)
    return click.option(*names, cls=RunOption, section=section, **settings)


class _Option(NamedTuple):
    name: str
    section: str
    settings: Mapping[str, Any]

    def put_on(self, command: C, **changed: Any) -> C:
        return option(self.name, self.section, **{**self.settings, **changed})(command)


def _option(name: str, section: str, **settings: Any) -> _Option:
    return _Option(name, section, settings)


_COMPONENTS = "Component selection and parameters"
_EXECUTION = "Execution controls"
_ATTEMPTS = "Repeated attempts"
_OUTPUT = "Output and reuse"
_PROCESS = "Process settings"
_ANALYSIS = "Analysis"

OPTIONS = (
    _option(
        "--benchmark-params",
        _COMPONENTS,
        type=JsonObject(),
        shown_default="the benchmark's own",
        help="Parameters of the benchmark (agentcompass config docs benchmark ID).",
    ),
    _option(
        "--harness-params",
        _COMPONENTS,
        type=JsonObject(),
        shown_default="the harness's own",
        help="Parameters of the harness (agentcompass config docs harness ID).",
    ),
    _option(
        "--model-base-url",
        _COMPONENTS,
        metavar="URL",
        type=TextValue(),
        shown_default='""',
        help="Base URL of the model API.",
    ),
    _option(
        "--model-api-key",
        _COMPONENTS,
        metavar="KEY",
        type=TextValue(),
        shown_default='""',
        help="Credential for the model API, or '${NAME}' to read it from the environment. "
        "Never stored or shown.",
    ),
    _option(
        "--model-api-protocol",
        _COMPONENTS,
        type=Protocols(),
        shown_default="chosen by harness and endpoint",
        help="Model API protocol, or a JSON list in order of preference "
        "(agentcompass list model-protocol).",
    ),
    _option(
        "--model-params",
        _COMPONENTS,
        type=JsonObject(),
        shown_default="{}",
        help="Sampling and other fields for the model API "
        "(agentcompass config docs model-protocol ID).",
    ),
    _option(
        "--env",
        _COMPONENTS,
        metavar="ID",
        type=TextValue(empty=False),
        shown_default="host_process",
        help="Where task commands execute (agentcompass list env).",
    ),
    _option(
        "--env-params",
        _COMPONENTS,
        type=JsonObject(),
        shown_default="the environment's own",
        help="Parameters of the environment (agentcompass config docs env ID).",
    ),
    _option(
        "--config",
        _COMPONENTS,
        metavar="FILE",
        multiple=True,
        type=TextValue(empty=False),
        shown_default="none",
        help="A YAML or JSON file over the user's and the project's configuration. Repeat to "
        "layer several, in order.",
    ),
    _option(
        "--recipe",
        _COMPONENTS,
        metavar="ID",
        multiple=True,
        type=TextValue(empty=False),
        shown_default="every recipe that matches",
        help="Use only this recipe, if it matches. Repeat to allow more than one.",
    ),
    _option(
        "--recipe-dir",
        _COMPONENTS,
        into="recipe_dirs",
        metavar="DIR",
        multiple=True,
        type=TextValue(empty=False),
        shown_default="none",
        help="A directory of recipes whose code you trust, beside runtime.recipe_dirs of your "
        "configuration. Repeat for several.",
    ),
    _option(
        "--execution-params",
        _EXECUTION,
        type=JsonObject(),
        shown_default="{}",
        help="Deadlines and limits of an attempt, such as run_timeout_seconds, "
        "setup_timeout_seconds, evaluation_timeout_seconds, output_limit_kb (all: "
        "docs/components.md), merged deeply; dedicated options win.",
    ),
    _option(
        "--task-concurrency",
        _EXECUTION,
        type=WholeNumber(least=1),
        shown_default="32",
        help="Attempts running at once.",
    ),
    _option(
        "--max-retries",
        _EXECUTION,
        type=WholeNumber(least=0),
        shown_default="0",
        help="Further tries of an attempt whose failure is FATAL, or an ERROR that a pattern "
        "matches.",
    ),
    _option(
        "--retry-pattern-list",
        _EXECUTION,
        type=JsonList(),
        shown_default="null",
        help="Regular expressions searched in an ERROR's code and message; null or []: only "
        "FATAL is tried again.",
    ),
    _option(
        "--keep-environment",
        _EXECUTION,
        is_flag=True,
        help="Leave every sandbox behind, for debugging, and say how to enter it "
        "(agentcompass env clean --kept removes them).",
    ),
    _option(
        "--k",
        _ATTEMPTS,
        type=WholeNumber(least=1),
        shown_default="1",
        help="Independent attempts per task.",
    ),
    _option(
        "--attempt-strategy",
        _ATTEMPTS,
        type=Word("avg", "pass"),
        shown_default="avg",
        help="avg: all k attempts run; pass: in order, stop at the first success (binary "
        "primaries only).",
    ),
    _option(
        "--run-name",
        _OUTPUT,
        metavar="NAME",
        type=TextValue(),
        shown_default='""',
        help="Folder between the results root and the model/benchmark/harness folder.",
    ),
    _option(
        "--run-id",
        _OUTPUT,
        metavar="ID",
        type=TextValue(),
        shown_default="the start time, YYYYMMDD_HHMMSS",
        help="Name of the run's folder.",
    ),
    _option(
        "--reuse",
        _OUTPUT,
        metavar="[RUN-ID]",
        is_flag=False,
        flag_value=LATEST,
        type=TextValue(empty=False),
        shown_default="off",
        help="Take over scored attempts and checkpoints from this run, or from the one with most "
        "finished work in the same folder.",
    ),
    _option(
        "--no-checkpoint-resume",
        _OUTPUT,
        is_flag=True,
        help="With --reuse: run the agent again where only a checkpoint exists.",
    ),
    _option(
        "--results-dir",
        _PROCESS,
        metavar="PATH",
        type=TextValue(empty=False),
        shown_default="results",
        help="Root folder of run outputs.",
    ),
    _option(
        "--data-dir",
        _PROCESS,
        metavar="PATH",
        type=TextValue(empty=False),
        shown_default="data",
        help="Root folder of downloaded data sets and caches.",
    ),
    _option(
        "--timeout-seconds",
        _PROCESS,
        type=WholeNumber(least=0),
        shown_default="360000",
        help="Limit for the whole evaluation after preflight; 0: none.",
    ),
    _option(
        "--env-open-qps",
        _PROCESS,
        metavar="PROVIDER=QPS",
        multiple=True,
        type=PerProvider(float),
        callback=together,
        shown_default="local 0, remote 10",
        help="Sandboxes of a provider opened per second, over all runs on the same Prefect API; "
        "0: no pacing. Repeat for several providers.",
    ),
    _option(
        "--provider-limit",
        _PROCESS,
        into="provider_limits",
        metavar="PROVIDER=COUNT",
        multiple=True,
        type=PerProvider(int),
        callback=together,
        shown_default="128 per provider",
        help="Attempts of a provider at once, over all runs on the same Prefect API; 0: no limit. "
        "Repeat for several providers.",
    ),
    _option(
        "--progress",
        _PROCESS,
        type=Word("auto", "plain", "none"),
        shown_default="auto",
        help="Progress on stderr: a live display on a terminal, plain lines, or nothing.",
    ),
    _option(
        "--log-level",
        _PROCESS,
        metavar="LEVEL",
        type=Word(*LEVELS),
        shown_default="INFO",
        help="Console logging: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
    ),
    _option(
        "--file-log-level",
        _PROCESS,
        metavar="LEVEL",
        type=Word(*LEVELS),
        shown_default="DEBUG",
        help="Logging into the run's log file.",
    ),
    _option(
        "--auto-install-dependencies",
        _PROCESS,
        is_flag=True,
        help="Install the libraries that planned components lack into this Python environment "
        "(not for recipes of directories).",
    ),
    _option(
        "--enable-analysis/--no-enable-analysis",
        _ANALYSIS,
        default=None,
        shown_default="enabled",
        help="Run the analyzers (agentcompass list analyzer) when the attempts are finished.",
    ),
    _option(
        "--analysis-params",
        _ANALYSIS,
        type=JsonObject(),
        shown_default="every analyzer with its own",
        help='{"ANALYZER": {parameters}, …} (agentcompass config docs analyzer ID); '
        '{"analyzers": ["ID", …]} runs only these; {"model_check": {"model": …}} asks a model '
        "about suspicious findings (docs/analysis.md).",
    ),
    _option(
        "--dry-run",
        LAST_SECTION,
        is_flag=True,
        help="Resolve, check and print the plan; run no task, write no result.",
    ),
    _option(
        "--json",
        LAST_SECTION,
        is_flag=True,
        help="Print one JSON document on stdout and nothing else there.",
    ),
)


def with_options(*names: str, shown_defaults: Mapping[str, str] = {}) -> Callable[[C], C]:
    """The command with these options, or all, in their order. `shown_defaults`: of the options
    that fall through to something else than in `run`."""

    def put_on(command: C) -> C:
        for one in reversed(OPTIONS):
            if not names or one.name in names:
                shown = shown_defaults.get(one.name)
                command = one.put_on(command, **({"shown_default": shown} if shown else {}))
        return command

    return put_on
