"""From what the tests did to a verdict: every expected test by name, and whether it can be so.

The names of SWE-bench's lists are what the official log parsers make of test ids: cut at the first
white space, with this and that removed by repository. `official_name` does the same to real ids,
so that structured outcomes meet the lists. Tests that share a cut name must all pass.
"""

import re
from collections.abc import Mapping, Sequence

from agentcompass.components.benchmarks._judge import printable
from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.benchmarks._swebench.test_run import Account, Outcome
from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.frozen import Frozen

SHOWN_TESTS = 40
SHOWN_CHARACTERS = 1500
MOST_STATUS = 5
"""The highest a watched runner ends with: pytest, when it found no tests."""
_PROGRESS = re.compile(r"\[ *\d+%\]")
"""In two lists of SWE-bench Verified: the end of a line of pytest's, taken for a test's name."""
_OPTIONS = re.compile(r"(.*?)\[(.*)\]")
_NO_CONTROL = {code: None for code in range(1, 32)}
_SHORT_OPTIONS = ("psf/requests", "pydicom/pydicom", "pylint-dev/pylint")
_WITHOUT_CONTROL = ("astropy/astropy", "scikit-learn/scikit-learn", "sphinx-doc/sphinx")
_WHOLE_NAMES = ("django/django", "sympy/sympy")


class Grade(Frozen):
    correct: bool
    evidence: tuple[Evidence, ...]
    metrics: dict[str, float | bool]
    tampering: tuple[str, ...] = ()
    """Why the run's results cannot be what the tests did."""


def grade(instance: Instance, account: Account) -> Grade:
    """Missing, skipped and unparsed tests have failed."""
    passed, reasons = _tests(instance.repo, account)
    tampering = contradictions(account)
    evidence: list[Evidence] = []
    shares: dict[str, float] = {}
    for label, listed in (
        ("FAIL_TO_PASS", instance.fail_to_pass),
        ("PASS_TO_PASS", instance.pass_to_pass),
    ):
        # A watched run has tests only. A list of nothing else is left as it is: it asks for them.
        tests = [name for name in listed if not account.canary or not _PROGRESS.fullmatch(name)]
        names = tests or listed
        for name in sorted({*listed} - {*names}):
            text = "a progress mark of pytest's and no test: it does not count"
            evidence.append(Evidence(name=name, text=text))
        failed = [name for name in names if not passed.get(name)]
        good = len(names) - len(failed)
        shares[label.lower()] = good / len(names) if names else 1.0
        text = f"{good} of {len(names)} passed"
        evidence.append(Evidence(name=label, passed=not failed, text=text))
        for name in failed[:SHOWN_TESTS]:
            shown = printable(reasons.get(name) or _why_missing(account))[-SHOWN_CHARACTERS:]
            evidence.append(Evidence(name=_short(name), passed=False, text=shown))
        if len(failed) > SHOWN_TESTS:
            text = f"and {len(failed) - SHOWN_TESTS} more failed"
            evidence.append(Evidence(name=f"{label}, the rest", passed=False, text=text))
    resolved = all(share == 1 for share in shares.values()) and not account.timed_out
    if not _came_to_its_end(account) and not account.timed_out and account.started:
        resolved = False
        text = f"the test runner ended before its end (exit code {account.exit_code})"
        text += "; the sandbox's memory limit was met" if account.out_of_memory else ""
        evidence.append(Evidence(name="test run", passed=False, text=text))
    for reason in tampering:
        evidence.append(Evidence(name="test run", passed=False, text=reason))
    return Grade(
        correct=resolved and not tampering,
        evidence=tuple(evidence),
        metrics=dict(shares),
        tampering=tampering,
    )


def contradictions(account: Account) -> tuple[str, ...]:
    """What the run says about itself that cannot all be true."""
    found: list[str] = []
    if not account.started or not account.canary:  # not watched: there is only its output
        return ()
    if account.status is None:
        if account.exit_code == 0 and not account.timed_out:
            found.append("the runner's process left with exit code 0 before the tests had ended")
        return tuple(found)
    failures = _failures(account)
    if account.exit_code == 0 and (failures or account.broken):
        found.append("exit code 0 although tests failed")
    if account.exit_code != account.status:
        found.append(
            f"the runner said it ended with {account.status}, its process with {account.exit_code}"
        )
    if account.status not in range(MOST_STATUS + 1):
        found.append(f"the runner said it ended with {account.status}, which is none of its words")
    if any(item.when == "call" and item.outcome == "passed" for item in _canary(account)):
        found.append("a test that cannot pass was reported as passed")
    passes = any(item.outcome == "passed" for item in account.outcomes)
    if account.canary_added is None and passes:
        found.append("tests were reported before the runner had begun with them")
    # One that stops at a failure (-x) does not come to it.
    if account.canary_added and not _canary(account) and account.status in (0, 1) and not failures:
        found.append("the runner said it ran all tests, but not the one that fails on purpose")
    if account.strangers:
        found.append(f"{account.strangers} other processes tried to report results")
    forged = [i for i in account.outcomes if i.raised and i.outcome == "passed" and not i.expected]
    if forged:
        found.append(f"{_short(forged[0].name)} raised {forged[0].raised} and was said to pass")
    twice: dict[tuple[str, str], set[str]] = {}
    for item in account.outcomes:
        twice.setdefault((item.name, item.when), set()).add(item.outcome)
    for (name, _), outcomes in twice.items():
        # Names that are no ids (a docstring's first line, a bare function's) may well repeat.
        if "::" in name and {"passed", "failed"} <= outcomes:
            found.append(f"{_short(name)} was reported as passed and as failed")
            break
    return tuple(found)


def _came_to_its_end(account: Account) -> bool:
    """By its own word, and with the test that was added as its last one, or with a failure that
    stopped it (-x).

    That test may have been skipped: it shares the marks of the module it was added to.
    """
    if account.canary and account.canary_added:
        return account.status in (0, 1) and bool(_canary(account) or _failures(account))
    return account.status is not None


def _failures(account: Account) -> list[Outcome]:
    return [item for item in account.outcomes if item.outcome in ("failed", "error")]


def _canary(account: Account) -> list[Outcome]:
    return [item for item in account.outcomes if account.canary in item.name]


def official_name(repo: str, name: str) -> str:
    """What the official log parser of the repository calls the test of this id."""
    if repo in _WHOLE_NAMES or "::" not in name:
        return name
    if repo in _WITHOUT_CONTROL:
        name = re.sub(r"\[(\d+)m", "", name).translate(_NO_CONTROL)
    if repo == "matplotlib/matplotlib":
        name = name.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3")
    name = name.split()[0]
    options = _OPTIONS.search(name) if repo in _SHORT_OPTIONS else None
    if options:
        main, option = options.groups()
        if option.startswith("/") and not option.startswith("//") and "*" not in option:
            option = "/" + option.rpartition("/")[2]
        name = f"{main}[{option}]"
    return name


def _tests(repo: str, account: Account) -> tuple[dict[str, bool], dict[str, str]]:
    """Official name → whether it passed, and the reason where it did not."""
    by_test: dict[str, list[Outcome]] = {}
    for item in account.outcomes:
        by_test.setdefault(item.name, []).append(item)
    passed: dict[str, bool] = {}
    reasons: dict[str, str] = {}
    for name, items in by_test.items():
        # A log parser's names are the lists' already.
        official = official_name(repo, name) if account.canary else name
        good, reason = _good(items)
        if good is None:  # skipped: says nothing about a namesake
            reasons.setdefault(official, reason)
            continue
        passed[official] = passed.get(official, True) and good
        if not good:
            reasons[official] = reason
    return passed, reasons


def _good(items: Sequence[Outcome]) -> tuple[bool | None, str]:
    """Over a test's set-up, call and tear-down; None: it did not really run."""
    # pytest-rerunfailures tells a failure that it tries again as `rerun`: the last one counts.
    items = [item for item in items if item.outcome != "rerun"]
    bad = [item for item in items if item.outcome in ("failed", "error")]
    if bad:
        return False, bad[0].text or bad[0].outcome
    call = [item for item in items if item.when == "call"]
    if any(
        item.outcome == "xfailed" or (item.outcome == "skipped" and item.expected) for item in items
    ):
        return True, ""
    if any(
        item.outcome == "xpassed" or (item.outcome == "passed" and item.expected) for item in call
    ):
        return None, "passed although it was expected to fail"
    if call and all(item.outcome == "passed" for item in call):
        return True, ""
    return None, "skipped" if any(i.outcome == "skipped" for i in items) else "did not run"


def _why_missing(account: Account) -> str:
    if account.timed_out:
        return "not reached in time"
    if not account.started:
        return f"the test runner did not start: {account.output.strip()[-800:]}"
    if account.broken:
        first = account.broken[0]
        return f"{first.name} could not be loaded: {first.text[-800:]}"
    return "no such test was reported"


def _short(name: str) -> str:
    return printable(name if len(name) <= 300 else f"{name[:200]}…{name[-80:]}")


def statuses(outcomes: Mapping[str, str]) -> tuple[Outcome, ...]:
    """What a log parser found, as outcomes."""
    words = {"PASSED": "passed", "XFAIL": "xfailed", "SKIPPED": "skipped", "ERROR": "error"}
    return tuple(
        Outcome(name=name, outcome=words.get(status, "failed")) for name, status in outcomes.items()
    )
