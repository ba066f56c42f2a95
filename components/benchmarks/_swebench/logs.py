"""Read what tests printed, where no reporter can watch the runner (other languages than Python).

With the `swebench` package the official parser of the repository reads it, in a process of its own
(importing that package loads a `.env` file and a dozen libraries). Without it, or for repositories
it does not know, lines in the forms of pytest's summary and of unittest's verbose output are read.
A line that is neither is no test; a test without a line has failed.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution

from agentcompass.components.benchmarks._swebench.grading import official_name, statuses
from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.benchmarks._swebench.test_run import Account
from agentcompass.components.contracts.errors import AgentCompassError, Code

PARSER_SECONDS = 300.0
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SUMMARY = re.compile(r"(PASSED|FAILED|ERROR|XFAIL|SKIPPED|XPASS) (\S+::.*)")
_VERBOSE = re.compile(r"(.+?) \.\.\. *(ok|OK|FAIL|ERROR|skipped|expected failure)?(.*)")
_WORDS = {"ok": "PASSED", "OK": "PASSED", "FAIL": "FAILED", "ERROR": "ERROR", "skipped": "SKIPPED"}
_BACKGROUND = """
import json, sys
from types import SimpleNamespace
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
request = json.load(sys.stdin)
parser = MAP_REPO_TO_PARSER.get(request["repo"])
spec = SimpleNamespace(**request)
json.dump(None if parser is None else parser(request["log"], spec), sys.stdout)
"""


async def with_parsed_output(account: Account, instance: Instance) -> Account:
    """The account with the outcomes its output tells. Raises grader.crashed."""
    found = None
    if _has_official_parsers():
        found = await asyncio.to_thread(_official, instance, account.output)
    if found is None:
        found = _under_both_names(instance.repo, parse(account.output))
    return account.model_copy(
        update={
            "outcomes": statuses(found),
            "started": True,
            "status": account.exit_code,
            "canary": "",
        }
    )


def parse(log: str) -> dict[str, str]:
    """Test → PASSED, FAILED, ERROR, SKIPPED or XFAIL. The worst line about a test counts."""
    found: dict[str, str] = {}
    waiting = ""
    for raw in log.split("\n"):
        line = _ANSI.sub("", raw).rstrip("\r \t")
        if summary := _SUMMARY.fullmatch(line):
            waiting = ""
            status, rest = summary.groups()
            # What follows a failed test's name is its message; PASSED has none.
            name = rest.split(" - ", 1)[0] if status in ("FAILED", "ERROR", "XFAIL") else rest
            _put(found, name.rstrip(), status)
        elif verbose := _VERBOSE.fullmatch(line):
            name, word, rest = verbose.groups()
            waiting = ""
            if word is None:
                waiting = name
            elif word == "skipped" or not rest.strip():
                _put(found, name.strip(), _WORDS.get(word, "XFAIL"))
            elif rest:
                waiting = name
        elif waiting and line.strip() in _WORDS:
            # Something was printed between the name and its result.
            _put(found, waiting.strip(), _WORDS[line.strip()])
            waiting = ""
    return found


def _under_both_names(repo: str, found: Mapping[str, str]) -> dict[str, str]:
    """Whole, and as the lists have them."""
    named = dict(found)
    for name, status in found.items():
        if (official := official_name(repo, name)) != name:
            _put(named, official, status)
    return named


def _put(found: dict[str, str], name: str, status: str) -> None:
    bad = ("FAILED", "ERROR")
    if found.get(name) not in bad:
        found[name] = status


def _has_official_parsers() -> bool:
    try:
        return bool(distribution("swebench"))
    except PackageNotFoundError:
        return False


def _official(instance: Instance, log: str) -> Mapping[str, str] | None:
    request = {"repo": instance.repo, "version": instance.version, "log": log}
    request |= {"instance_id": instance.instance_id}
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-c", _BACKGROUND],
                input=json.dumps(request).encode("ascii"),
                capture_output=True,
                timeout=PARSER_SECONDS,
                cwd=folder,
                env={"PATH": os.environ.get("PATH", ""), "HOME": folder, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired:
            raise AgentCompassError(
                Code.GRADER_TIMEOUT, "the official log parser did not end"
            ) from None
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"the official log parser failed: {reason[:300]}"
        )
    found: Mapping[str, str] | None = json.loads(done.stdout)
    return found
