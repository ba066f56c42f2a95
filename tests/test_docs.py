"""The pages in docs/: the generated ones are current, and every link leads somewhere."""

import re
from pathlib import Path

import click
import pytest

from agentcompass.cli.program import program
from agentcompass.components.configuration.parameter_docs import parameter_docs
from agentcompass.components.contracts.run import ExecutionSettings, RuntimeSettings
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import FIELDS
from docs.generate import FOLDER, generated, pages

ROOT = FOLDER.parent
CURRENT = pages()
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(FOLDER.rglob("*.md"))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def test_the_generated_pages_are_current() -> None:
    for name, text in CURRENT.items():
        path = FOLDER / name
        assert path.is_file(), f"docs/{name} is missing: run `make docs`"
        assert path.read_text(encoding="utf-8") == text, (
            f"docs/{name} is not current: run `make docs`"
        )


def test_no_generated_page_outlives_what_it_tells_of() -> None:
    below = [path for name in ("components", "commands") for path in (FOLDER / name).rglob("*.md")]
    there = generated() | {path.relative_to(FOLDER).as_posix() for path in below}
    assert there == set(CURRENT), "run `make docs`"


def test_every_component_has_its_page_with_every_parameter() -> None:
    for family in FIELDS:
        for name, listing in registry.listings(family).items():
            if listing.origin == "built in":
                text = CURRENT[f"components/{family}/{name}.md"]
                assert f"(components/{family}/{name}.md)" in CURRENT["components.md"]
                for doc in parameter_docs(registry.load(family, name).parameters):
                    assert f"| `{doc.name}` |" in text, (family, name)


def test_every_command_has_its_page_with_every_option() -> None:
    top = click.Context(program, info_name="agentcompass")
    for name in program.list_commands(top):
        command = program.get_command(top, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=top)
        inner = [command]
        if isinstance(command, click.Group):
            found = [command.get_command(context, one) for one in command.list_commands(context)]
            inner += [one for one in found if one is not None]
        text = CURRENT[f"commands/{name}.md"]
        for one in inner:
            for option in (p for p in one.params if isinstance(p, click.Option)):
                assert option.opts[0] in text, (name, one.name)
        for one in inner[1:]:
            assert f"## `agentcompass {name} {one.name}`" in text
            assert f"`agentcompass {name} {one.name}`" in CURRENT["commands.md"]


def test_every_setting_of_a_run_has_a_meaning() -> None:
    for model in (ExecutionSettings, RuntimeSettings):
        assert [doc.name for doc in parameter_docs(model) if not doc.meaning] == []


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_something_that_is_there(path: Path) -> None:
    text = FENCED.sub("", path.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if ":" in link.partition("#")[0]:  # another site
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file) if file else path
        assert target.exists(), f"{link}: no such file"
        assert ROOT in target.resolve().parents, f"{link}: outside of the repository"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def anchors(path: Path) -> set[str]:
    """As code hosts name headings: lower case, blanks as dashes, no other punctuation."""
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_those_of_code_hosts(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("# A `b-c d`, e: f!\n\n```\n# no heading\n```\n## Two_words\n")
    assert anchors(tmp_path / "p.md") == {"a-b-c-d-e-f", "two_words"}
