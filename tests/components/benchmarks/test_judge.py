"""Hidden tests on real processes: what a submission may do, its verdict is its own."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._judge import (
    Judgement,
    judge_tests,
    names_of_tests,
)
from agentcompass.components.benchmarks._judge import judge_function as run_function
from agentcompass.components.benchmarks._judge.values import decode, encode
from agentcompass.components.contracts.errors import AgentCompassError, Code
from tests.components.benchmarks.sandboxes import own_python, path_with, sandbox

PROMPT = "import math\n\ndef helper(x):\n    return x + 1\n\ndef solve(x):\n    '''x + 2'''\n"
TESTS = (
    "def check(candidate):\n    assert candidate(1) == 3\n    assert candidate(40) == helper(41)\n"
)
RIGHT = "def solve(x):\n    return helper(x) + 1\n"


def judged(
    code: str,
    tests: str = TESTS,
    timeout_seconds: float = 20.0,
    variables: Mapping[str, str] | None = None,
) -> Judgement:
    async def judge() -> Judgement:
        async with sandbox(variables) as env:
            return await run_function(
                env,
                prelude=PROMPT,
                code=code,
                entry_point="solve",
                tests=tests,
                timeout_seconds=timeout_seconds,
            )

    return asyncio.run(judge())


def in_workdir(
    tests: str,
    files: dict[str, str],
    timeout_seconds: float = 20.0,
    variables: Mapping[str, str] | None = None,
) -> Judgement:
    async def judge() -> Judgement:
        async with sandbox(variables) as env:
            for path, text in files.items():
                await env.write_file(path, text.encode())
            return await judge_tests(env, tests, timeout_seconds)

    return asyncio.run(judge())


def test_a_right_function_passes() -> None:
    judgement = judged(RIGHT)
    assert judgement.share == 1
    assert [test.name for test in judgement.tests] == ["check"]


def test_a_wrong_function_fails_with_the_tests_line() -> None:
    judgement = judged("def solve(x):\n    return 0\n")
    assert judgement.share == 0
    assert "line 2 of the tests" in judgement.tests[0].text


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.exit(0)\n",
        "import os\nos._exit(0)\n",
        "import os\ndef solve(x):\n    os._exit(0)\n",
        "def solve(x):\n    raise SystemExit(0)\n",
        "def check(candidate):\n    pass\ndef solve(x):\n    return 0\n",
        "class Any:\n    def __eq__(self, other): return True\ndef solve(x):\n    return Any()\n",
        "class Any(int):\n    def __eq__(self, other): return True\n"
        "def solve(x):\n    return Any(0)\n",
        'def solve(x):\n    print(\'{"event": "verdict", "tests": [{"passed": true}]}\')\n',
        "def solve(x):\n    import builtins, json\n    json.dumps = lambda *a: '{}'\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
        "def solve(x):\n    import os\n    for fd in range(3, 40):\n        try: os.close(fd)\n"
        "        except OSError: pass\n",
        "def solve(x):\n    import os\n    for fd in range(3, 40):\n"
        "        try: os.write(fd, b'{\"value\": null}\\n' * 9)\n        except OSError: pass\n",
        "def other(x):\n    return x + 2\n",
        "def solve(x:\n",
        "def solve(x):\n    return solve(x)\n",
        "def solve(x):\n    return [0] * 10**12\n",
        "def solve(x):\n    while True: yield x\n",
    ],
)
def test_tricks_and_faults_are_wrong_answers(code: str) -> None:
    judgement = judged(code)
    assert judgement.share == 0
    assert judgement.tests[0].passed is False
    assert judgement.tests[0].text


def test_nothing_the_grader_knows_is_in_reach() -> None:
    """Neither the tests nor the token are on disk, in argv, in variables or in open files."""
    code = (
        "import os, pathlib\n"
        "def seen():\n"
        "    for pid in (os.getpid(), os.getppid()):\n"
        "        for name in ('cmdline', 'environ'):\n"
        "            yield pathlib.Path(f'/proc/{pid}/{name}').read_bytes()\n"
        "def solve(x):\n"
        "    text = b''.join(seen())\n"
        "    assert b'helper(41)' not in text and b'helper(x)' not in text\n"
        "    return x + 2\n"
    )
    assert judged(code).share == 1


PEEK = """
import json, os, signal
judge = os.getppid()
line = open(f"/proc/{judge}/fd/0", "rb").read().splitlines()[1]
token = json.loads(line)["request"]["token"]
verdict = {"event": "verdict", "token": token}
verdict["tests"] = [{"name": "check", "passed": True, "text": ""}]
with open(f"/proc/{judge}/fd/1", "w") as out:
    out.write(os.linesep + json.dumps(verdict) + os.linesep)
os.kill(judge, signal.SIGKILL)

def solve(x):
    return None
"""


def test_the_judges_own_process_cannot_be_looked_into() -> None:
    """What it was told on stdin holds the tests and the token that makes a verdict."""
    assert judged(PEEK).share == 0


PLANT = """
import json, os, sys
frame = sys._getframe()
while frame:
    for thing in list(frame.f_locals.values()):
        bundle = getattr(thing, "bundle", thing)
        if isinstance(bundle, dict) and "request" in bundle:
            line = {"event": "verdict", "token": bundle["request"]["token"]}
            line["tests"] = [{"name": "check", "passed": True, "text": ""}]
            os.write(1, (os.linesep + json.dumps(line) + os.linesep).encode())
            os._exit(0)
    frame = frame.f_back
"""


@pytest.mark.parametrize("module", ["fractions", "decimal", "traceback", "colorsys", "wave"])
def test_nothing_that_the_submission_plants_is_imported_by_the_judge(
    tmp_path: Path, module: str
) -> None:
    """Where it runs as root it may write into the standard library."""
    variables, own = own_python(tmp_path / "own")
    code = (
        "import pathlib\n"
        f"plant = pathlib.Path({str(own)!r}, '{module}.py')\n"
        "plant.unlink()\n"
        f"plant.write_text({PLANT!r})\n"
        "class Fraction:\n    __module__, numerator, denominator = 'fractions', 1, 1\n"
        "class Decimal:\n    __module__ = 'decimal'\n"
        f"kind = {{'fractions': Fraction, 'decimal': Decimal}}.get({module!r}, int)\n"
        "def solve(x):\n    return kind()\n"
    )
    # Written as an import, and as nobody foresees it.
    late = "__import__('wave')" if module == "wave" else "import colorsys"
    tests = (
        f"def check(candidate):\n    answer = candidate(1)\n    {late}\n    assert answer == 3\n"
    )
    judgement = judged(code, tests, variables=variables)
    assert judgement.share == 0, judgement.tests
    # The module is there, or it is told that it is not: nobody gets a point by it.
    assert ("wave" in judgement.tests[0].text) == (module == "wave")


def test_an_endless_function_is_wrong_and_ends_in_time() -> None:
    judgement = judged("def solve(x):\n    while True: pass\n", timeout_seconds=1)
    assert judgement.share == 0
    assert "over its time of 1 s" in judgement.tests[0].text


def test_a_sleeping_import_is_wrong_and_ends_in_time() -> None:
    assert judged("import time\ntime.sleep(600)\n" + RIGHT, timeout_seconds=1).share == 0


def test_noise_does_not_matter() -> None:
    noise = (
        "import sys, os\nprint('x' * 300000)\nsys.stderr.write('y' * 300000)\n"
        "os.write(1, b'\\xff\\x00')\nsys.stdout.close()\n"
    )
    assert judged(noise + RIGHT).share == 1


def test_future_imports_and_main_guards_are_fine() -> None:
    code = (
        "from __future__ import annotations\n"
        + RIGHT
        + "if __name__ == '__main__':\n    solve(0)/0\n"
    )
    assert judged(code).share == 1


def test_values_travel_as_they_are() -> None:
    import fractions
    from decimal import Decimal

    for value in (
        [1, (2.5, None), {"a": {1, 2}, 3: frozenset({b"x"})}],
        [10**400, -1, True, 1e300, float("inf"), -0.0, 2 + 3j],
        ["\ud83d", "\0", "h\u00e9llo", bytearray(b"\xff"), range(3)],
        [fractions.Fraction(1, 3), Decimal("1.50")],
    ):
        back = decode(encode(value))
        assert back == value
        assert repr(back) == repr(value)
    assert list(decode(encode(iter([1, 2])))) == [1, 2]
    assert decode(encode(object())) != decode(encode(object()))


def test_broken_hidden_tests_are_the_graders_fault() -> None:
    with pytest.raises(AgentCompassError, match="do not load") as failed:
        judged(RIGHT, tests="def check(candidate)\n")
    assert failed.value.code is Code.GRADER_CRASHED


def test_a_sandbox_without_python_is_the_graders_fault(tmp_path: Path) -> None:
    async def judge() -> None:
        async with sandbox(path_with(tmp_path / "bin", "sh", "ls")) as env:
            await judge_tests(env, UNITTESTS, 20)

    with pytest.raises(AgentCompassError, match="python3 is missing") as failed:
        asyncio.run(judge())
    assert failed.value.code is Code.GRADER_CRASHED


UNITTESTS = """
import unittest

class Adding(unittest.TestCase):
    def test_one(self):
        self.assertEqual(call("adding.add", 1, 2), 3)

    def test_big(self):
        self.assertEqual(call("adding.add", 10**30, b=1), 10**30 + 1)

class Refusing(unittest.TestCase):
    def test_text(self):
        with self.assertRaises(TypeError):
            call("adding.add", "a", 1)
"""
ADD = "def add(a, b):\n    return a + b\n"


def test_every_test_is_reported_by_name() -> None:
    judgement = in_workdir(UNITTESTS, {"adding.py": ADD})
    assert {t.name: t.passed for t in judgement.tests} == dict.fromkeys(
        names_of_tests(UNITTESTS), True
    )
    partly = in_workdir(UNITTESTS, {"adding.py": "def add(a, b):\n    return 3\n"})
    assert {t.name: t.passed for t in partly.tests} == {
        "Adding.test_one": True,
        "Adding.test_big": False,
        "Refusing.test_text": False,
    }
    assert partly.share == 1 / 3


def test_a_submission_that_cannot_be_imported_fails_every_test() -> None:
    for files in ({}, {"adding.py": "import os\nos._exit(0)\n"}, {"adding.py": "1/0\n"}):
        judgement = in_workdir(UNITTESTS, files)
        assert [t.passed for t in judgement.tests] == [False] * 3


def test_a_submission_that_breaks_python_fails_the_tests_that_follow(tmp_path: Path) -> None:
    variables, library = own_python(tmp_path / "own")
    breaking = f"import pathlib\npathlib.Path({str(library)!r}, 'json/__init__.py').unlink()\n"
    judgement = in_workdir(UNITTESTS, {"adding.py": breaking + ADD}, variables=variables)
    assert [test.passed for test in judgement.tests] == [True, False, False]
    assert "no longer starts" in judgement.tests[1].text


def test_a_hanging_test_does_not_cost_the_others() -> None:
    hang = "def add(a, b):\n    while a == 1: pass\n    return a + b\n"
    judgement = in_workdir(UNITTESTS, {"adding.py": hang}, timeout_seconds=1.5)
    assert {t.name: t.passed for t in judgement.tests} == {
        "Adding.test_one": False,
        "Adding.test_big": True,
        "Refusing.test_text": True,
    }


def test_planted_modules_and_start_files_do_not_reach_the_judge() -> None:
    planted = {
        "unittest.py": "class TestCase: pass\n",
        "json.py": "raise SystemExit(0)\n",
        "sitecustomize.py": "import os\nos._exit(0)\n",
        "conftest.py": "1/0\n",
        "result.json": '{"tests": []}',
    }
    judgement = in_workdir(UNITTESTS, {**planted, "adding.py": "def add(a, b):\n    return 0\n"})
    assert [t.passed for t in judgement.tests] == [False] * 3
    assert in_workdir(UNITTESTS, {"conftest.py": "1/0\n", "adding.py": ADD}).share == 1


def test_skipped_and_expected_failures_are_no_passes() -> None:
    tests = """
import unittest

class Odd(unittest.TestCase):
    def test_skipped(self):
        self.skipTest("no")

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()

    def test_sub(self):
        with self.subTest(1):
            self.fail("inner")
"""
    assert [t.passed for t in in_workdir(tests, {}).tests] == [False] * 3


def test_programs_are_run_with_their_input_and_killed_with_their_children() -> None:
    tests = """
import unittest

class Running(unittest.TestCase):
    def test_output(self):
        done = run("python3", "tool.py", "a b", stdin="h\u00e9\\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "a b h\u00e9\\n", "err"))

    def test_endless(self):
        run("python3", "endless.py")

    def test_flood(self):
        done = run("python3", "flood.py")
        self.assertNotEqual(done.returncode, 0)
"""
    files = {
        "tool.py": "import sys\nprint(sys.argv[1], input())\n"
        "sys.stderr.write('err')\nsys.exit(3)\n",
        "endless.py": "import subprocess\nsubprocess.run(['sleep', '600'])\n",
        "flood.py": "import os\nwhile True: os.write(1, b'x' * (1 << 20))\n",
    }
    judgement = in_workdir(tests, files, timeout_seconds=4)
    assert {t.name: t.passed for t in judgement.tests} == {
        "Running.test_output": True,
        "Running.test_endless": False,
        "Running.test_flood": True,
    }


def test_a_submission_that_had_no_processor_is_not_out_of_time() -> None:
    """The limit counts what the submission did, not how crowded the machine was."""
    busy = (
        "import os, time\n"
        "os.sched_setaffinity(0, {0}); os.nice(5)\n"
        "def solve(x):\n"
        "    end = time.process_time() + 0.2\n"
        "    while time.process_time() < end: pass\n"
        "    return x + 1\n"
    )
    burn = [sys.executable, "-c", "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"]
    # Each in a session of its own: the kernel shares a processor among sessions first.
    burners = [subprocess.Popen(burn, start_new_session=True) for _ in range(8)]
    try:
        judgement = judged(busy, "def check(f):\n    assert f(1) == 2\n", timeout_seconds=0.8)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert judgement.share == 1, judgement.tests


def test_a_judge_that_fails_by_itself_is_no_verdict() -> None:
    """Without a place to work in, for one: never the submission's zero."""

    async def judge() -> None:
        async with sandbox() as env:
            env.workdir = f"{env.workdir}/not/there"
            await judge_tests(env, UNITTESTS, 5)

    with pytest.raises(AgentCompassError) as failed:
        asyncio.run(judge())
    assert failed.value.code is Code.GRADER_CRASHED
