"""`--reuse` before, between and after the arguments, with a run's id and without."""

import click
import pytest

from agentcompass.cli.launch import launch
from agentcompass.cli.run import run
from agentcompass.cli.submit import submit
from agentcompass.components.contracts.errors import RequestError
from tests.cli.conftest import Cli

ARGUMENTS = ["quickstart", "oracle", "scripted"]


def parsed(command: click.Command, *words: str) -> tuple[object, ...]:
    """The arguments in their order, then what --reuse names."""
    context = command.make_context(str(command.name), list(words))
    names = [p.name for p in command.params if isinstance(p, click.Argument)]
    return tuple(context.params[str(name)] for name in [*names, "reuse"])


@pytest.mark.parametrize("command", [run, submit])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    ("option", "means"),
    [
        (["--reuse"], "latest"),
        (["--reuse", "--json"], "latest"),
        (["--reuse", "first"], "first"),
        (["--reuse=first"], "first"),
        (["--reuse", "20260101_101010"], "20260101_101010"),
    ],
)
def test_wherever_it_stands_the_arguments_are_the_arguments(
    command: click.Command, at: int, option: list[str], means: str
) -> None:
    words = [*ARGUMENTS[:at], *option, *ARGUMENTS[at:]]
    assert parsed(command, *words) == (*ARGUMENTS, means)


def test_the_same_for_the_one_argument_of_launch() -> None:
    assert parsed(launch, "--reuse", "all.yaml", "--json") == ("all.yaml", "latest")
    assert parsed(launch, "--reuse", "first", "all.yaml") == ("all.yaml", "first")
    assert parsed(launch, "all.yaml", "--reuse", "first") == ("all.yaml", "first")


def test_what_might_be_a_run_as_well_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    parsed(run, "quickstart", "--reuse", "oracle", "scripted")
    assert capsys.readouterr().err == ""
    parsed(run, "quickstart", "oracle", "--reuse", "scripted")
    told = "agentcompass: 'scripted' is taken as MODEL; --reuse=RUN-ID names a run\n"
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("word", ["latest", "20260101_101010"])
def test_what_can_only_be_a_run_is_no_argument(word: str) -> None:
    with pytest.raises(RequestError, match=f"missing: '{word}' is the run that --reuse names"):
        parsed(run, "--reuse", word, "quickstart", "oracle")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--reuse", "quickstart", "oracle"), "HARNESS: missing"),
        (("--reuse", *ARGUMENTS, "--reuse"), "reuse: given 2 times"),
        (("--reuse", "a", *ARGUMENTS, "b"), "command line: 1 argument too many"),
    ],
)
def test_other_mistakes_are_still_named(cli: Cli, words: tuple[str, ...], complaint: str) -> None:
    answer = cli("run", *words)
    assert answer.code == 2
    assert answer.complaint.startswith(complaint)
