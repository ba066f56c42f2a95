"""The table at the end of a launch, on terminals of every width."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcompass.cli.rendering.columns import width
from agentcompass.cli.rendering.launch import HEADER, cut_label, table_lines
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.execution.request import RunOptions, build_request

MODELS = ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "Qwen/Qwen3-Coder-480B-A35B-Thinking")


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.chdir(tmp_path)
    found = []
    for model in MODELS:
        options = RunOptions(
            benchmark="quickstart", harness="tool_agent", model=model, model_base_url="http://h/v1"
        )
        outcome = Outcome(
            run_dir=str(tmp_path / "results" / model),
            state="interrupted",
            planned=1319,
            scored=1200,
            skipped=0,
        )
        request, _ = build_request(options)
        found.append(SimpleNamespace(request=request, outcome=outcome, exit_code=130))
    return found


@pytest.mark.parametrize("room", range(50, 140, 7))
def test_no_row_is_wider_than_the_terminal_and_rows_stay_told_apart(
    members: list[Any], room: int
) -> None:
    table = table_lines(members, room)[:3]
    assert max(map(width, table)) <= room
    for name in ("request", "value", "scored", "ended"):
        assert name in table[0].split()
    assert all("interrupted" in row and "1200/1319" in row for row in table[1:])
    assert len({line.split("  ")[0] for line in table}) == 3


def test_folders_that_have_no_place_in_a_row_stand_whole_below(members: list[Any]) -> None:
    lines = table_lines(members, 60)
    assert lines[3:] == ["folders:", *(f"  results/{model}" for model in MODELS)]


def test_without_a_terminal_nothing_is_left_out(members: list[Any]) -> None:
    lines = table_lines(members, None)
    assert tuple(lines[0].split()) == HEADER
    assert [line.split()[-1] for line in lines[1:]] == [m.outcome.run_dir for m in members]
    assert all(model in line for model, line in zip(MODELS, lines[1:], strict=True))


def test_a_label_is_cut_in_the_middle_of_its_longest_parts() -> None:
    assert cut_label("quickstart_score · oracle · scripted", 24) == "qui…re · oracle · scr…ed"
    assert cut_label("b · h · m", 3) == "b · h · m"
    assert cut_label("quickstart · oracle · scripted", 24) == "qui…rt · oracle · scr…ed"
