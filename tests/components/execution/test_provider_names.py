"""A limit under an id that no provider has would limit nothing: every way in refuses it."""

import pytest

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import (
    Choice,
    ModelSpec,
    Rescore,
    RunRequest,
    RuntimeSettings,
)
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.rescoring import resolve_rescoring


def asked(rescore: Rescore | None = None, **runtime: object) -> RunRequest:
    return RunRequest(
        benchmark=Choice(id="quickstart"),
        harness=Choice(id="oracle"),
        model=ModelSpec(id="scripted"),
        runtime=RuntimeSettings.model_validate(runtime),
        rescore=rescore,
    )


@pytest.mark.parametrize("field", ["provider_limits", "env_open_qps"])
def test_a_provider_that_is_none_is_refused_with_the_nearest(field: str) -> None:
    expected = f"runtime.{field}: no provider 'dockr'; did you mean 'docker'?"
    with pytest.raises(RequestError) as refused:
        resolve(asked(**{field: {"docker": 1, "dockr": 4}}))
    assert str(refused.value).startswith(expected)
    with pytest.raises(RequestError) as refused:
        resolve_rescoring(asked(Rescore(run_dir="/none"), **{field: {"dockr": 4}}))
    assert str(refused.value).startswith(expected)


def test_the_providers_that_there_are_are_told_where_none_is_near() -> None:
    with pytest.raises(RequestError, match=r"known: .*docker.*all: agentcompass list env"):
        resolve(asked(provider_limits={"zzz": 4}))


def test_limits_of_providers_that_are_not_used_are_in_order() -> None:
    resolve(asked(provider_limits={"docker": 4, "modal": 0}, env_open_qps={"daytona": 1}))
