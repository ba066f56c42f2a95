"""Every secret that reaches a sandbox or an endpoint is among the values to be masked."""

from dataclasses import replace
from typing import Any

import pytest

from agentcompass.components.configuration.secrets import hide, holding
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.run import Choice, ModelSpec, RunRequest, SecretReference
from agentcompass.components.execution.model_check_settings import provider
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.results.masking import Masker
from tests.standins.parts import YesBenchmark, parts, sample, says_yes

GITHUB = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
TOKEN = "sk-typed-abcdefghijkl123456"


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", GITHUB)
    monkeypatch.setenv("LANGUAGE_OF_TEST", "en_GB.UTF-8")


def assembled(env_params: dict[str, Any], model: ModelSpec | None = None) -> Parts:
    return assemble(
        resolve(
            RunRequest(
                benchmark=Choice(id="quickstart"),
                harness=Choice(id="tool_agent"),
                model=model or ModelSpec(id="scripted"),
                environment=Choice(id="host_process", params=env_params),
            )
        )
    )


@pytest.mark.parametrize("field", ["env", "run_env", "evaluation_env"])
def test_what_the_user_hands_over_by_its_name(field: str) -> None:
    given = {field: {"T": "${GITHUB_TOKEN}", "L": "${LANGUAGE_OF_TEST}"}}
    assert assembled(given).secrets == (GITHUB,)


def test_what_commands_inherit() -> None:
    inherited = {"inherit_env": ["GITHUB_TOKEN", "LANGUAGE_OF_TEST"]}
    assert assembled(inherited).secrets == (GITHUB,)


class Recipe:
    def adapt(self, task: Any, context: Any) -> dict[str, Any]:
        return {"run_env": {"T": "${GITHUB_TOKEN}"}}


@pytest.mark.parametrize("field", ["env", "run_env", "evaluation_env"])
@pytest.mark.parametrize("of", ["requirements", "grading"])
def test_what_a_task_takes_for_its_agent_or_its_grader(field: str, of: str) -> None:
    required = Requirements.model_validate({field: {"KEY": "${GITHUB_TOKEN}"}})
    tasks = (sample("t1"), sample("t2", **{of: required}))
    made_of = replace(parts(says_yes), secrets=("known-before",))
    assert made_of.secrets_with(tasks) == ("known-before", GITHUB)


def test_what_a_step_or_a_recipe_takes() -> None:
    class InSteps(YesBenchmark):
        def steps(self, whole: Any) -> tuple[Any, ...]:
            required = Requirements(evaluation_env={"KEY": "${GITHUB_TOKEN}"})
            return (sample("t1", grading=required),)

        async def begin_step(self, *given: Any) -> None: ...

        async def end_step(self, *given: Any) -> Any: ...

    assert parts(says_yes, InSteps()).secrets_with([sample()]) == (GITHUB,)
    context: Any = object()
    adapted = replace(parts(says_yes), recipes=(("r", Recipe()),), recipe_context=context)
    assert adapted.secrets_with([sample()]) == (GITHUB,)


def test_recipes_that_disagree_are_told_elsewhere() -> None:
    class Other(Recipe):
        def adapt(self, task: Any, context: Any) -> dict[str, Any]:
            return {"run_env": {"T": "else"}}

    context: Any = object()
    both = (("a", Recipe()), ("b", Other()))
    made_of = replace(parts(says_yes), recipes=both, recipe_context=context)
    assert made_of.secrets_with([sample()]) == ()


def test_what_the_user_overrules_is_not_taken() -> None:
    user = validate(EnvironmentParameters, {"env": {"KEY": "plain"}}, "env-params")
    task = sample("t1", requirements=Requirements(env={"KEY": "${GITHUB_TOKEN}"}))
    made_of = replace(parts(says_yes), environment_parameters=user)
    assert made_of.secrets_with([task]) == ()


def test_the_run_and_the_model_check_know_a_models_secrets_in_every_shape() -> None:
    spec, held = hide(
        "m",
        "http://me:p%40ssw0rd99@127.0.0.1:9/v1",
        "none",
        ("openai-chat",),
        {"headers": {"X-Token": f"Bearer {TOKEN}"}},
    )
    with holding(held):
        runs = assembled({}, spec).secrets
        _, checks = provider(spec)
    for secrets in (runs, checks):
        masked = Masker(secrets).text(f"TOKEN={TOKEN} p@ssw0rd99 p%40ssw0rd99")
        assert masked == "TOKEN=*** *** ***"


def test_a_header_that_names_no_secret_riddles_no_record() -> None:
    params = {"headers": {"anthropic-version": "2023-06-01"}}
    wants_none = SecretReference(env="none")
    spec = ModelSpec(id="m", base_url="http://127.0.0.1:9/v1", api_key=wants_none, params=params)
    assert assembled({}, spec).secrets == ()
