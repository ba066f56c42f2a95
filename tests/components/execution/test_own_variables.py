"""`${NAME}` inside a text of the user's own variables, on its way into a sandbox."""

from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.configuration.layers import read_configuration
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.request import RunOptions, build_request

URL = "http://me:${PROXY_PASSWORD}@${PROXY_HOST}:3128/"


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_HOST", "proxy")
    monkeypatch.setenv("PROXY_PASSWORD", "correct-horse")


def assembled(env_params: dict[str, Any]) -> Parts:
    options = RunOptions(
        benchmark="quickstart", harness="oracle", model="scripted", env_params=env_params
    )
    request, held = build_request(options)
    assert not held
    assert "correct-horse" not in request.model_dump_json()
    return assemble(resolve(request))


@pytest.mark.parametrize("field", ["env", "run_env", "evaluation_env"])
def test_it_is_read_for_agent_and_grader_masked_and_shown_by_its_name(field: str) -> None:
    parts = assembled({field: {"HTTPS_PROXY": URL}})
    own = Requirements(image="i", env={"A": "x${PROXY_HOST}"})
    task = Task(id="t", instruction="?", requirements=own, grading=own)
    for found in (parts.requirements(task), parts.grading_requirements(task)):
        given = getattr(found, field)
        assert given["HTTPS_PROXY"] == "http://me:correct-horse@proxy:3128/"
        assert found.env["A"] == "x${PROXY_HOST}"  # the task's, for a shell in the sandbox
    assert "correct-horse" in parts.secrets
    assert getattr(parts.adapted(task)[0], field)["HTTPS_PROXY"] == URL


def test_it_is_read_from_a_file_as_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "agentcompass.yaml").write_text(
        f'environments: {{host_process: {{env: {{HTTPS_PROXY: "{URL}"}}}}}}'
    )
    found = read_configuration(directory=tmp_path, user_file=tmp_path / "none")
    parts = assembled(found.section("environments", "host_process"))
    required = parts.requirements(Task(id="t", instruction="?"))
    assert required.env == {"HTTPS_PROXY": "http://me:correct-horse@proxy:3128/"}
