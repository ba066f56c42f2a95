import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.requirements import Network, Requirements
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.no_agent import NoAgent
from agentcompass.components.execution.sandbox_preflight import sandbox_problems
from tests.standins.parts import Agent, Boxes, YesBenchmark, parts, sample, says_yes


def problems(
    *tasks: dict[str, Any],
    user: dict[str, Any] | None = None,
    verification: str = "fresh",
    **capabilities: Any,
) -> list[str]:
    made_of = replace(
        parts(says_yes, YesBenchmark(verification)),
        environments=Boxes(**capabilities),
        environment_parameters=validate(EnvironmentParameters, user or {}, "env-params"),
    )
    samples = [
        sample(f"t{number}", requirements=Requirements.model_validate(task))
        for number, task in enumerate(tasks or ({},))
    ]
    return asyncio.run(sandbox_problems(made_of, "boxes", samples))


def test_a_plain_task_has_no_problem() -> None:
    assert problems({}, {"image": "ignored:where-there-are-none"}) == []


@pytest.mark.parametrize(
    ("task", "capabilities", "line"),
    [
        ({"build": {"context": "."}}, {"builds": True}, "cannot build images"),
        ({"user": "daemon"}, {"users": True}, "cannot run commands as user 'daemon'"),
        (
            {"resources": {"memory_mb": 512}},
            {"resources": {"memory_mb"}},
            "cannot limit resources.memory_mb (asked for: 512)",
        ),
        (
            {"network": {"baseline": "none"}},
            {"network": {"none"}},
            "cannot enforce a network policy of kind 'none' (network)",
        ),
        (
            {"network": {"baseline": {"allow": ["a.org"]}}},
            {"network": {"allow"}},
            "cannot enforce a network policy of kind 'allow' (network)",
        ),
        (
            {"network": {"run": "none"}},
            {"network": {"none"}, "network_phases": True},
            "cannot change the network policy of an open sandbox: give all phases the same one",
        ),
    ],
)
def test_what_a_provider_cannot_do_is_refused_and_what_it_can_is_not(
    task: dict[str, Any], capabilities: dict[str, Any], line: str
) -> None:
    switching = line.startswith("cannot change")
    without = {"network": {"none"}} if switching else {}
    assert any(line in problem for problem in problems(task, **without))
    assert problems(task, **capabilities) == []


def test_a_fresh_grader_may_have_another_policy_than_the_agent_where_phases_cannot_change() -> None:
    task = {"network": {"baseline": "none", "evaluation": "public"}}
    assert problems(task, network={"none"}, verification="fresh") == []
    assert len(problems(task, network={"none"}, verification="reuse")) == 1


def test_all_problems_at_once_and_each_once_with_its_number_of_tasks() -> None:
    many = [{"user": "a", "resources": {"gpus": 1}}] * 3 + [{}]
    assert sorted(problems(*many)) == [
        "boxes cannot limit resources.gpus (asked for: 1) (3 tasks)",
        "boxes cannot run commands as user 'a' (3 tasks)",
    ]


def test_files_that_do_not_exist_are_named_before_anything_opens(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    files = {"/a": str(tmp_path / "there"), "/b": str(tmp_path / "missing")}
    (line,) = problems({}, user={"setup": {"files": files}})
    assert "missing as /b (setup.files), which does not exist" in line


def test_an_image_the_user_asks_for_is_an_order() -> None:
    (line,) = problems({}, user={"setup": {"image": "x"}})
    assert line.startswith("env-params.setup.image: ")
    assert problems({}, user={"setup": {"image": "x"}}, images=True) == []


def test_a_task_that_cannot_do_without_an_image_is_refused_where_there_are_none() -> None:
    (line,) = problems({"image": "x", "image_needed": True})
    assert "has no images" in line
    assert problems({"image": "x", "image_needed": True}, images=True) == []


@pytest.mark.parametrize("field", ["run_env", "evaluation_env"])
def test_a_variable_of_a_phase_that_is_not_set_is_told_before_anything_is_spent(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.delenv("UNSET_HERE", raising=False)
    (line,) = problems({}, user={field: {"A": "${UNSET_HERE}"}})
    assert f"env-params.{field}.A: variable UNSET_HERE is not set" in line


class Down(Boxes):
    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        self.required += requirements
        return ["the engine does not answer"]


def rescoring(verification: str, task: Sample, **user: Any) -> tuple[list[str], list[Requirements]]:
    benchmark = YesBenchmark(verification, [task])
    benchmark.needs_sandbox = True
    boxes = Down()
    made_of = replace(
        parts(says_yes, benchmark),
        environments=boxes,
        harness=NoAgent(),
        environment_parameters=validate(EnvironmentParameters, user, "env-params"),
    )
    work = sandbox_problems(made_of, "boxes", [task], rescoring=True)
    return asyncio.run(work), boxes.required


def test_rescoring_looks_at_the_graders_sandboxes_of_the_tasks_themselves() -> None:
    own = Requirements(image="grader:1")
    found, required = rescoring("reuse", sample(verification="fresh", grading=own))
    assert found == ["the engine does not answer"]
    assert [one.image for one in required] == ["grader:1"]
    assert rescoring("fresh", sample())[0] == ["the engine does not answer"]


@pytest.mark.parametrize("verification", ["none", "reuse"])
def test_rescoring_what_needs_no_sandbox_asks_nobody(verification: str) -> None:
    found = rescoring("fresh", sample(verification=verification), setup={"image": "ignored"})
    assert found == ([], [])


def test_where_no_agent_works_its_variables_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UNSET_HERE", raising=False)
    found, _ = rescoring("fresh", sample(), run_env={"A": "${UNSET_HERE}"})
    assert found == ["the engine does not answer"]
    found, _ = rescoring("fresh", sample(), evaluation_env={"A": "${UNSET_HERE}"})
    assert len(found) == 2


def test_an_agent_without_a_sandbox_leaves_only_the_graders() -> None:
    made_of = replace(
        parts(says_yes, YesBenchmark("fresh")),
        harness=Agent(says_yes, sandbox=False),
        environments=Boxes(network={"none"}),
        environment_parameters=EnvironmentParameters(
            network=Network(baseline="none", run="public")
        ),
    )
    assert asyncio.run(sandbox_problems(made_of, "boxes", [sample()])) == []
