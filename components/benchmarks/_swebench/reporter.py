"""Tells the warden what the test runner really sees, test by test, over a socket.

Runs inside the sandbox, in the test runner's own process, under the instance's Python (3.5 or
newer, standard library only). Loaded as a pytest plugin, or as a script that starts another
runner (unittest, Django's, SymPy's) after hooking into it. The warden appends a last line to this
text that calls `start` with a socket's path and a secret.

pytest and unittest are given one more test, at the end, that fails. A run in which it passes, or
is not heard of, was made up or did not come to its end. The tests find nothing here by its name.
"""

# Old Pythons read this.
# mypy: ignore-errors
# ruff: noqa: UP004, PTH100, PTH109, PTH118, PTH119, PTH120, PTH122, SIM102, SIM105
import contextlib
import json
import os
import socket
import sys
import types

TEXT_LIMIT = 4000
SYMPY_RUNNERS = ("sympy.testing.runtests", "sympy.utilities.runtests")


def start(path, token, canary):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    connection.sendall(token.encode("ascii") + b"\n")
    owner = os.getpid()

    def say(event, **facts):
        # A forked child that runs on has this too, but is not the runner.
        if os.getpid() == owner:
            line = json.dumps(dict(facts, event=event)).encode("ascii") + b"\n"
            with contextlib.suppress(OSError):
                connection.sendall(line)

    _restore_environment()
    say("hello", python=sys.version.split()[0], script=__name__ == "__main__")
    if __name__ == "__main__":
        _run_script(sys.argv[1:], say, canary)
    else:
        plugin = sys.modules[__name__] = types.ModuleType(__name__)
        plugin.pytest_configure = lambda config: config.pluginmanager.register(
            _pytest_reporter(say, canary), "agentcompass-reporter"
        )


def _restore_environment():
    """Programs that the tests start must not load this again."""
    here = os.path.dirname(os.path.abspath(__file__))
    name = os.path.splitext(os.path.basename(__file__))[0]
    plugin = ("PYTEST_ADDOPTS", " ", ("-p", name))
    for variable, separator, ours in (("PYTHONPATH", os.pathsep, (here,)), plugin):
        parts = os.environ.get(variable, "").split(separator)
        left = separator.join(part for part in parts if part and part not in ours)
        os.environ.pop(variable, None)
        if left:
            os.environ[variable] = left
    sys.path[:] = [part for part in sys.path if os.path.abspath(part or ".") != here]


# pytest ------------------------------------------------------------------------------------------


def _pytest_reporter(say, name):
    import pytest

    seen = {}

    class Reporter(object):
        def pytest_sessionstart(self, session):
            if session.config.pluginmanager.hasplugin("dsession"):
                say("collected", canary=False)  # by the processes of pytest-xdist

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, session, items):
            yield
            canary = _pytest_canary(items[-1], name) if items else None
            if canary is not None:
                items.append(canary)
            say("collected", canary=canary is not None)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item):
            outcome = yield
            error = getattr(outcome, "excinfo", None)
            seen[item.nodeid] = error[0].__name__ if error else ""

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            failed = report.outcome == "failed"
            say(
                "test",
                name=report.nodeid,
                when=report.when,
                outcome=report.outcome,
                expected=hasattr(report, "wasxfail"),
                raised=seen.get(report.nodeid, "") if report.when == "call" else "",
                text=str(report.longrepr)[-TEXT_LIMIT:] if failed else "",
            )

        def pytest_collectreport(self, report):
            if report.failed:
                say("broken", name=report.nodeid, text=str(report.longrepr)[-TEXT_LIMIT:])

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(self, session, exitstatus):
            say("finish", status=int(exitstatus))

    return Reporter()


def _pytest_canary(neighbour, name):
    import pytest

    def canary():
        raise AssertionError("this test fails on purpose")

    parent = neighbour.getparent(pytest.Module)
    if parent is None:
        return None
    if hasattr(pytest.Function, "from_parent"):
        return pytest.Function.from_parent(parent, name=name, callobj=canary)
    return pytest.Function(name, parent, callobj=canary)


# unittest and Django -----------------------------------------------------------------------------


def _hook_unittest(say, canary):
    import functools
    import traceback
    import unittest

    state = {"result": None}

    class Canary(unittest.TestCase):
        def runTest(self):
            raise AssertionError("this test fails on purpose")

        def __str__(self):
            return canary

    def name_of(result, test):
        describe = getattr(result, "getDescription", str)
        return describe(test).split("\n")[-1].strip()

    def hook(method, outcome):
        original = getattr(unittest.TestResult, method)

        @functools.wraps(original)
        def hooked(self, test, *rest):
            if self is state["result"]:
                text = ""
                error = rest[-1] if rest and isinstance(rest[-1], tuple) else None
                if error and outcome in ("failed", "error"):
                    text = "".join(traceback.format_exception(*error))[-TEXT_LIMIT:]
                if method == "addSubTest" and error is None:
                    return original(self, test, *rest)
                say("test", name=name_of(self, test), when="call", outcome=outcome, text=text)
            return original(self, test, *rest)

        setattr(unittest.TestResult, method, hooked)

    for method, outcome in (
        ("addSuccess", "passed"),
        ("addFailure", "failed"),
        ("addError", "error"),
        ("addSkip", "skipped"),
        ("addExpectedFailure", "xfailed"),
        ("addUnexpectedSuccess", "failed"),
        ("addSubTest", "failed"),
    ):
        hook(method, outcome)

    runner = unittest.TextTestRunner
    make, run = runner._makeResult, runner.run

    def make_result(self):
        result = make(self)
        if state["result"] is None:
            state["result"] = result
        return result

    def run_all(self, test):
        if state["result"] is not None:  # a test that tests a test runner
            return run(self, test)
        # Django's parallel suite has dealt out its tests already.
        open_ended = isinstance(test, unittest.BaseTestSuite) and not hasattr(test, "subsuites")
        if open_ended:
            test.addTest(Canary())
        say("collected", canary=open_ended)
        result = run(self, test)
        say("finish", status=0 if result.wasSuccessful() else 1)
        return result

    runner._makeResult, runner.run = make_result, run_all


# SymPy -------------------------------------------------------------------------------------------


def _hook_sympy(say):
    """Its runner's class is hooked as soon as its module is imported."""
    import importlib.abc
    import importlib.util
    import traceback

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name not in SYMPY_RUNNERS:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            sys.meta_path.insert(0, self)
            if spec is None or spec.loader is None:
                return None
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                hook(getattr(module, "PyTestReporter", None))

            spec.loader.exec_module = exec_module
            return spec

    state = {"test": ""}

    def hook(reporter):
        if reporter is None or getattr(reporter, "_hooked", False):
            return
        reporter._hooked = True

        def follow(method, outcome):
            original = getattr(reporter, method)

            def hooked(self, *words):
                text = ""
                bad = outcome in ("failed", "error")
                if bad and words and isinstance(words[-1], tuple):
                    text = "".join(traceback.format_exception(*words[-1]))[-TEXT_LIMIT:]
                if method == "entering_test":
                    if not state["test"]:
                        say("collected", canary=False)  # its runner takes no more tests
                    state["test"] = words[0].__name__
                elif method == "import_error":
                    say("broken", name=str(words[0]), text=text)
                else:
                    say("test", name=state["test"], when="call", outcome=outcome, text=text)
                return original(self, *words)

            setattr(reporter, method, hooked)

        for method, outcome in (
            ("entering_test", ""),
            ("test_pass", "passed"),
            ("test_fail", "failed"),
            ("test_exception", "error"),
            ("test_skip", "skipped"),
            ("test_xfail", "xfailed"),
            ("test_xpass", "xpassed"),
            ("import_error", "error"),
        ):
            follow(method, outcome)
        finish = reporter.finish

        def finished(self):
            good = finish(self)
            say("finish", status=0 if good else 1)
            return good

        reporter.finish = finished

    sys.meta_path.insert(0, Finder())


# Starting another runner -------------------------------------------------------------------------


def _run_script(words, say, canary):
    """`FILE args` or `-m MODULE args`, as Python itself would run them."""
    import runpy

    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        _hook_unittest(say, canary)
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv, folder = words, os.path.dirname(os.path.abspath(words[0]))
    sys.path.insert(0, folder)
    if os.path.basename(folder) == "bin":
        _hook_sympy(say)
    else:
        _hook_unittest(say, canary)
    runpy.run_path(words[0], run_name="__main__")
