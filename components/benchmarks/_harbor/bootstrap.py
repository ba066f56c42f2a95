"""Whether a verifier ever got to its tests, told from what it printed.

A verifier that first downloads its tools, fails, and goes on to write 0 has judged nothing. What
an agent's own program prints looks much the same; lines that are surely its own do not count.
"""

import re
from collections.abc import Collection, Iterator

from agentcompass.components.benchmarks._harbor.rewards import Report

_RAN = re.compile(
    r"test session starts|^collected \d+ items?|\b\d+ (passed|failed)\b|^Ran \d+ tests? in"
    r"|^(not )?ok \d",
    re.MULTILINE,
)
_TOOLS = (
    "curl|wget|uv|uvx|pytest|py\\.test|pip3?|python3?|apt-get|apt|apk|npm|npx|node|git|tox|nox|bats"
)
_INSIDE = r"localhost|127\.|::1|0\.0\.0\.0|\.local\b|\.test\b|\.internal\b|\.lan\b"
"""Addresses of services that a task asks for: not reaching them is the agent's failure."""
_NO_TOOL = re.compile(
    rf"(^|[\s:])({_TOOLS}): (command )?not found$|No module named '?_?(pytest|uv|pip)\b"
    r"|Unable to locate package|Could not find a version that satisfies|No matching distribution"
    r"|No interpreter found for Python|\.local/bin/env: No such file"
)
_UNREACHED = re.compile(
    rf"(?!.*({_INSIDE}))([Cc]ould not resolve|Temporary failure (in name )?resol"
    r"|Name or service not known|Failed to fetch\b|error sending request|unable to resolve host)"
)
_FETCHES = re.compile(r"curl|wget|\buvx?\b|\bpip|\bapt|\bapk\b|\bnp[mx]\b|\bgit\b|https?://|urllib")
_FETCHER_SAYS = re.compile(r"(curl|wget|fatal|error|warning|npm \w+|e|w|err)\b:?", re.IGNORECASE)
_BEFORE_PYTEST = re.compile(
    r"^error:|^ERROR: |^E: |^curl: \(\d+\)|^wget: |ModuleNotFoundError|ImportError|bad interpreter"
)
_MISSING = re.compile(
    r"(?P<name>[\w.+-]+): (command )?not found$|python[\d.]*: No module named '?(?P<module>\w+)"
)
_COMPILER = re.compile(r"^error(\[E\d+\]|: (could not compile|aborting due|linking with))")
_SHELL_SAYS = re.compile(r"(?P<path>/[^\s:]+): (line )?\d+: ")
_FRAME = re.compile(r'\s+File "(?P<path>[^"]+)", line \d+')
_INSTALLED = re.compile(r"/(site-packages|dist-packages|\.local|\.venv|\.cache)/")


def bootstrap_failure(
    output: str, script: str, report: Report, *, workdir: str = "/", gone: Collection[str] = ()
) -> str | None:
    """The line that says why no test ever ran; None if tests ran, or nothing speaks against it.

    An error of a missing tool or a dead network must stand in the output; where the script would
    start pytest and pytest did not start, any installer's error will do, and any missing program
    that starts it. A script that finds the agent's work missing before it starts any test has
    judged; so has one that misses a program of `gone`, which the agent removed.
    """
    if report.tests or _RAN.search(output):
        return None
    fetches = not script or _FETCHES.search(script)
    told = None
    for line in _graders_lines(re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines(), workdir):
        unreached = _UNREACHED.search(line) and (fetches or _FETCHER_SAYS.match(line))
        sign = _NO_TOOL.search(line) or ("pytest" in script and _BEFORE_PYTEST.search(line))
        if (unreached or sign or _starts_pytest(line, script)) and not misses(line, gone):
            told = line
    return told[:300] if told else None


def _starts_pytest(line: str, script: str) -> bool:
    """The line tells of a missing program or module with which the script would start pytest.

    Another one that is not there may be what the agent was asked to make.
    """
    missing = _MISSING.search(line)
    if missing is None:
        return False
    name = re.escape(missing["name"] or missing["module"])
    return re.search(rf"\b{name}\b.*\bpytest\b", script) is not None


def misses(output: str, gone: Collection[str]) -> bool:
    """One of these programs is told to be missing."""
    names = "|".join(map(re.escape, gone))
    missing = rf"\b({names})['\u2019]?: ((command )?not found|bad interpreter|No such file)"
    return bool(gone) and re.search(missing, output) is not None


def _graders_lines(lines: list[str], workdir: str) -> Iterator[str]:
    """But for those of shells and Python that ran a program in the workdir, and of compilers."""
    within = False  # a traceback
    agents = False
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            within, agents = True, False
        elif within and line[:1].isspace():
            frame = _FRAME.match(line)
            agents = agents or (frame is not None and _agents(frame["path"], workdir))
        elif within and agents:
            within = False
        else:
            within = False
            said = _SHELL_SAYS.match(line)
            below = lines[number + 1].strip() if number + 1 < len(lines) else ""
            compiler = _COMPILER.match(line) or below.startswith("-->")
            if not compiler and not (said and _agents(said["path"], workdir)):
                yield line.strip()


def _agents(path: str, workdir: str) -> bool:
    inside = path.startswith(workdir.rstrip("/") + "/") and workdir != "/"
    return inside and not path.startswith("/tests/") and not _INSTALLED.search(path)
