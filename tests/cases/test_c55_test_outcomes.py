"""C55: which tests passed is read from structured reports; what printed logs say, line by line."""

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench.grading import grade, official_name
from agentcompass.components.benchmarks._swebench.logs import parse
from agentcompass.components.benchmarks._swebench.test_run import Account, Outcome
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_repository import diff
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown

LONG = "x" * 1_000_000
LOG = f"""\
tests/test_a.py ....F                                                    [ 50%]\r
PASSED t.py::f[a b-c]
PASSED t.py::f[a d]   \t
FAILED t.py::f[e f] - AssertionError: assert 1 == 2 - more
\x1b[32mPASSED\x1b[0m t.py::\x1b[1mcoloured\x1b[0m\r
FAILED t.py::twice
PASSED t.py::twice
PASSEDWARNING t.py::glued
PASSED t.py::{LONG}
XFAIL t.py::known - a reason
XPASS t.py::surprise
ERROR t.py::setup - fixture 'x' not found
SKIPPED [1] t.py:3: no reason
SKIPPED t.py::skipped
test_one (a.b.C) ... ok
A docstring's first line. ... ok\r
test_two (a.b.C) ... System check identified no issues (0 silenced).
ok
test_three (a.b.C) ... FAIL
test_four (a.b.C) ... ERROR
test_five (a.b.C) ... skipped 'no database'
test_six (a.b.C) ... expected failure
test_seven (a.b.C) ... printed in between
no result follows
test_eight (a.b.C) ... \x20
ERROR
"""


def test_a_log_is_read_line_by_line() -> None:
    assert parse(LOG) == {
        "t.py::f[a b-c]": "PASSED",
        "t.py::f[a d]": "PASSED",
        "t.py::f[e f]": "FAILED",
        "t.py::coloured": "PASSED",
        "t.py::twice": "FAILED",
        f"t.py::{LONG}": "PASSED",
        "t.py::known": "XFAIL",
        "t.py::surprise": "XPASS",
        "t.py::setup": "ERROR",
        "t.py::skipped": "SKIPPED",
        "test_one (a.b.C)": "PASSED",
        "A docstring's first line.": "PASSED",
        "test_two (a.b.C)": "PASSED",
        "test_three (a.b.C)": "FAILED",
        "test_four (a.b.C)": "ERROR",
        "test_five (a.b.C)": "SKIPPED",
        "test_six (a.b.C)": "XFAIL",
        "test_eight (a.b.C)": "ERROR",
    }


@pytest.mark.parametrize(
    ("repo", "name", "official"),
    [
        ("pallets/flask", "t.py::f[a b-c]", "t.py::f[a"),
        ("psf/requests", "t.py::f[/home/x/y]", "t.py::f[/y]"),
        ("psf/requests", "t.py::f[//x/y]", "t.py::f[//x/y]"),
        ("psf/requests", "t.py::f[a/b]", "t.py::f[a/b]"),
        ("sphinx-doc/sphinx", "t.py::f[31mred]", "t.py::fred]"),
        ("matplotlib/matplotlib", "t.py::f[MouseButton.LEFT]", "t.py::f[1]"),
        ("django/django", "A first line.", "A first line."),
        ("sympy/sympy", "test_x", "test_x"),
    ],
)
def test_ids_get_the_names_of_the_official_lists(repo: str, name: str, official: str) -> None:
    assert official_name(repo, name) == official


def _outcomes(*items: tuple[str, str]) -> Account:
    outcomes = tuple(Outcome(name=name, outcome=outcome) for name, outcome in items)
    failed = any(outcome == "failed" for _, outcome in items)
    return Account(
        outcomes=(*outcomes, Outcome(name="t.py::test_canary", outcome="failed")),
        started=True,
        status=1,
        exit_code=1,
        canary="test_canary",
        canary_added=True,
        output="" if not failed else "x",
    )


def test_tests_of_one_cut_name_must_all_pass(tmp_path: Path) -> None:
    instance = Shapes(tmp_path).instance.model_copy(
        update={"fail_to_pass": ("t.py::f[a",), "pass_to_pass": ()}
    )
    good = _outcomes(("t.py::f[a b]", "passed"), ("t.py::f[a c]", "passed"))
    assert grade(instance, good).correct
    one_skipped = _outcomes(("t.py::f[a b]", "passed"), ("t.py::f[a c]", "skipped"))
    assert grade(instance, one_skipped).correct
    for bad in (
        _outcomes(("t.py::f[a b]", "passed"), ("t.py::f[a c]", "failed")),
        _outcomes(("t.py::f[a b]", "skipped")),
        _outcomes(("t.py::f[b a]", "passed")),
        _outcomes(),
    ):
        assert not grade(instance, bad).correct


def test_a_progress_mark_in_a_list_is_no_test(tmp_path: Path) -> None:
    """As in the rows pytest-dev__pytest-5262 and -7521 of SWE-bench Verified."""
    instance = Shapes(tmp_path).instance.model_copy(
        update={
            "repo": "pytest-dev/pytest",
            "fail_to_pass": ("testing/test_capture.py::TestFDCapture::test_mode",),
            "pass_to_pass": ("[100%]", "testing/test_capture.py::test_done[a]"),
        }
    )
    ran = [(name, "passed") for name in (*instance.fail_to_pass, instance.pass_to_pass[1])]
    graded = grade(instance, _outcomes(*ran))
    assert graded.correct
    assert graded.metrics == {"fail_to_pass": 1.0, "pass_to_pass": 1.0}
    assert ["no test" in e.text for e in graded.evidence if e.name == "[100%]"] == [True]
    assert not grade(instance, _outcomes(*ran[:1])).correct
    only = instance.model_copy(update={"fail_to_pass": ("[100%]",)})
    assert not grade(only, _outcomes(*ran)).correct


@pytest.mark.parametrize(("last", "resolved"), [("passed", True), ("failed", False)])
def test_the_last_of_a_tests_tries_counts(tmp_path: Path, last: str, resolved: bool) -> None:
    """As pytest-rerunfailures tells them."""
    instance = Shapes(tmp_path).instance.model_copy(
        update={"fail_to_pass": ("t.py::f",), "pass_to_pass": ()}
    )
    account = _outcomes(("t.py::f", "rerun"), ("t.py::f", last))
    assert grade(instance, account).correct is resolved


ODD = """\
import pytest, sys, unittest


@pytest.mark.parametrize("x", ["a b-c", "a d", " ", "caf\\u00e9", "[31m", "a - b", "ok\\nPASSED y"])
def test_named(x):
    print("FAILED tests/test_shapes.py::test_named")
    sys.stderr.write("PASSED tests/test_shapes.py::test_never\\r\\n")


@pytest.mark.xfail
def test_known():
    assert False


@pytest.mark.xfail
def test_surprise():
    pass


@pytest.mark.skip
def test_skipped():
    pass


@pytest.fixture
def broken():
    yield
    raise RuntimeError("in tear-down")


def test_torn(broken):
    pass


class TestOld(unittest.TestCase):
    def test_method(self):
        self.assertTrue(True)
"""
NEW = (
    ODD
    + """

def test_area():
    from shapes import area
    assert area(3, 4) == 12
"""
)


def open_pytest() -> AbstractAsyncContextManager[Environment]:
    return sandbox({"PATH": f"{Path(sys.prefix, 'bin')}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("expected", "resolved"),
    [
        (["test_named[a", "test_named[", "test_known", "TestOld::test_method"], True),
        (["test_surprise"], False),
        (["test_skipped"], False),
        (["test_torn"], False),
        (["test_never"], False),
    ],
)
def test_pytest_is_watched_not_read(tmp_path: Path, expected: list[str], resolved: bool) -> None:
    path = "tests/test_shapes.py"
    shapes = Shapes(
        tmp_path,
        files={path: ODD},
        columns={
            "test_patch": diff(path, ODD, NEW),
            "FAIL_TO_PASS": [f"{path}::test_area"],
            "PASS_TO_PASS": [f"{path}::{name}" for name in expected],
        },
        test_command=f"pytest -rA {path}",
    )
    tried = shapes.worked(FIX, open_pytest)
    assert tried.verdict.correct is resolved, shown(tried)
    assert tried.verdict.metrics["fail_to_pass"] == 1.0


CHECK = """\
python3 - <<'END'
import sys
from shapes import area, label
print("PASSED shapes::label of a" if label("a") == "<a>" else "FAILED shapes::label of a")
good = area(3, 4) == 12
print("PASSED shapes::area" if good else "FAILED shapes::area - not a product")
sys.exit(not good)
END
"""


def test_the_output_of_an_unknown_runner_is_read(tmp_path: Path) -> None:
    shapes = Shapes(
        tmp_path,
        files={"check.sh": CHECK},
        columns={"FAIL_TO_PASS": ["shapes::area"], "PASS_TO_PASS": ["shapes::label of a"]},
        test_command="sh check.sh",
    )
    right = shapes.worked(FIX)
    assert right.verdict.correct is True, shown(right)
    wrong = shapes.worked("echo >>README.md")
    assert wrong.verdict.correct is False
    assert wrong.verdict.metrics == {"fail_to_pass": 0.0, "pass_to_pass": 1.0}
    broken = shapes.worked("echo '(' >>shapes/__init__.py")
    assert broken.verdict.metrics == {"fail_to_pass": 0.0, "pass_to_pass": 0.0}
