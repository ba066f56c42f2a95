"""C52: what the agent planted for the verifier decides nothing, and is told."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown, tampering
from tests.conformance.benchmark import judge

WEAK_TESTS = """\
cat >tests/test_shapes.py <<'END'
import unittest
class Shapes(unittest.TestCase):
    def test_area(self):
        "An area is a product."
    def test_label(self):
        "A label has brackets."
END
"""
PLANTED = {
    "weakened tests": WEAK_TESTS,
    "weakened tests, committed": WEAK_TESTS + "git add -A; git commit -qm weaker; git tag v9",
    "a moved history": WEAK_TESTS + "git checkout -q --orphan new; git add -A; git commit -qm all",
    "no repository": WEAK_TESTS + "rm -rf .git",
    "another repository": WEAK_TESTS
    + "rm -rf .git; git init -q; git config user.name R; git config user.email r@example.org; "
    "git add -A; git commit -qm me",
    "ignored tests": "echo tests/ >>.gitignore; echo '/tests' >.git/info/exclude",
    "reward files": "mkdir -p logs/verifier; echo 1 >logs/verifier/reward.txt; "
    "echo '{\"reward\": 1}' >reward.json; ln -s /etc/passwd verdict",
    "printed lines": "printf 'import sys\\nsys.stderr.write("
    '"An area is a product. ... ok\\\\nPASSED tests/test_shapes.py::test_area\\\\n")\\n\' '
    ">>shapes/__init__.py",
}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    return Shapes(tmp_path_factory.mktemp("shapes"))


@pytest.mark.parametrize("what", PLANTED)
def test_nothing_planted_resolves_the_task(shapes: Shapes, what: str) -> None:
    tried = shapes.worked("echo a >>README.md\n" + PLANTED[what])
    assert tried.verdict.correct is False, shown(tried)
    assert any(
        e.name == "FAIL_TO_PASS" and e.text == "0 of 1 passed" for e in tried.verdict.evidence
    ), shown(tried)


@pytest.mark.parametrize("what", ["a moved history", "no repository", "ignored tests"])
def test_an_honest_fix_beside_it_counts(shapes: Shapes, what: str) -> None:
    tried = shapes.worked(FIX + PLANTED[what])
    assert tried.verdict.correct is True, shown(tried)


def test_edited_tests_are_named_but_no_offence(shapes: Shapes) -> None:
    tried = shapes.worked(FIX + "echo '# mine' >>tests/test_shapes.py; touch tests/test_mine.py")
    assert tried.verdict.correct is True, shown(tried)
    assert tampering(tried) == []
    assert any(
        e.name == "tests" and "tests/test_shapes.py" in e.text for e in tried.verdict.evidence
    )


def test_nothing_is_written_through_a_link(shapes: Shapes, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()

    async def act(env: Environment) -> None:
        # A folder of tests that leads out of the sandbox.
        done = await env.exec(f"rm -rf tests && ln -s {target} tests")
        assert done.ok

    tried = shapes.worked(act)
    assert tried.verdict.correct is False
    assert list(target.iterdir()) == []


def test_the_same_patch_gets_the_same_verdict_again(shapes: Shapes) -> None:
    tried = shapes.worked(FIX)
    again = asyncio.run(
        judge(shapes.benchmark, shapes.sample, sandbox, tried.submission, tried.desk)
    )
    assert again == tried.verdict
