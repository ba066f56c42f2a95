"""The judge's end of the process that runs the submission: questions, answers, deadlines.

Runs inside the sandbox (Python 3.8 or newer, standard library only).
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from agentcompass.components.benchmarks._judge.starvation import Starvation
from agentcompass.components.benchmarks._judge.submission import write_all
from agentcompass.components.benchmarks._judge.values import decode, encode

STARTUP_SECONDS = 60.0
POLL_SECONDS = 0.5
MOST_STARVED = 5
"""The limit stretches by so many times itself where there are too few processors."""
PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24  # linux/prctl.h
CAP_SYS_PTRACE = 19  # linux/capability.h
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024


_libc = ctypes.CDLL(None)  # before any fork


def process_option(option: int, value: int) -> None:
    """prctl(2), where there is one."""
    with contextlib.suppress(AttributeError):
        _libc.prctl(option, value, 0, 0, 0)


class Broken(BaseException):
    """The grader itself cannot work; not the submission's fault."""


class SubmissionTimeout(BaseException):
    """The submission ran over its time. Not an Exception, so that no test swallows it."""


class SubmissionGone(BaseException):
    """The submission's process ended, or answered with something unreadable."""


class SubmissionError(Exception):
    """The submission raised an exception that is not a built-in one."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name


class Candidate:
    """Started at the first question; all its questions share one deadline."""

    submission_ran = False
    """For all of them: code of the submission was at work here, and may have broken python3."""

    def __init__(self, bundle: dict[str, Any]) -> None:
        self.bundle = bundle
        self.timeout_seconds: float = bundle["request"]["timeout_seconds"]
        self.workdir: str | None = bundle["request"].get("workdir")
        self.process: subprocess.Popen[bytes] | None = None
        self.questions = self.answers = -1
        self.deadline: float | None = None
        self.pending = b""
        self.starvation = Starvation()

    def ask(self, **question: Any) -> Any:
        """The value of a call; exceptions of built-in types rise as themselves."""
        if "args" in question:
            try:
                question["args"] = [encode(value) for value in question["args"]]
                question["kwargs"] = {k: encode(v) for k, v in question["kwargs"].items()}
            except Exception as error:
                raise Broken(f"a test's argument cannot be sent: {error!r}") from error
        if self.process is None:
            self.start()
        self.send(question)
        answer = self.receive(self.time_left)
        if "error" in answer:
            raise_again(str(answer["error"]), str(answer.get("message", "")))
        try:
            return decode(answer.get("value"))
        except Exception:
            raise SubmissionGone("the submission answered with something unreadable") from None

    def start(self) -> None:
        theirs_in, self.questions = os.pipe()
        self.answers, theirs_out = os.pipe()
        handles = [str(theirs_in), str(theirs_out)]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", self.bundle["loader"], *handles],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.workdir,
            env=plain_environment(),
            pass_fds=(theirs_in, theirs_out),
            start_new_session=True,
            # Also as root it may then not look into processes that have more rights: the judge.
            preexec_fn=lambda: process_option(PR_CAPBSET_DROP, CAP_SYS_PTRACE),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.send({"sources": self.bundle["sources"], "main": self.bundle["submission_main"]})
        give_up = time.monotonic() + STARTUP_SECONDS
        try:
            self.receive(lambda: give_up - time.monotonic())
        except (SubmissionTimeout, SubmissionGone) as error:
            starved = self.starvation.seconds > STARTUP_SECONDS / 2
            if starved or not Candidate.submission_ran:
                raise Broken("python3 does not start a second time") from error
            raise SubmissionGone("python3 no longer starts since the submission ran") from error
        Candidate.submission_ran = True

    def time_left(self) -> float:
        """Counted from the first use, without the time its processes waited for a processor: a
        crowded machine is not the submission's fault."""
        if self.deadline is None:
            self.deadline = time.monotonic() + self.timeout_seconds
        left = self.deadline - time.monotonic()
        if left > POLL_SECONDS or self.process is None:
            return left
        self.starvation.look(self.process.pid)
        return left + min(self.starvation.seconds, MOST_STARVED * self.timeout_seconds)

    def send(self, question: dict[str, Any]) -> None:
        try:
            write_all(self.questions, json.dumps(question).encode("ascii") + b"\n")
        except OSError:
            raise SubmissionGone("the submission's process ended early") from None

    def receive(self, time_left: Callable[[], float]) -> dict[str, Any]:
        while b"\n" not in self.pending:
            if (left := time_left()) <= 0:
                raise SubmissionTimeout(f"over its time of {self.timeout_seconds:g} s")
            if not select.select([self.answers], [], [], min(left, POLL_SECONDS))[0]:
                self.look()
                continue
            chunk = os.read(self.answers, 1 << 20)
            if not chunk:
                raise SubmissionGone("the submission's process ended early")
            self.pending += chunk
            if len(self.pending) > ANSWER_LIMIT_BYTES:
                raise SubmissionGone("the submission returned too much data")
        line, _, self.pending = self.pending.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise SubmissionGone("the submission answered with something unreadable")
        return answer

    def run(self, argv: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the submission in its folder. Output over 64 MB ends it."""
        from tempfile import TemporaryFile  # as all that comes late, imported by then: see judge.py

        words = [sys.executable, "-B", *argv[1:]] if argv[0] == "python3" else list(argv)
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode("utf-8"))
            given.seek(0)
            process = subprocess.Popen(
                words,
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=self.workdir,
                env=plain_environment(),
                preexec_fn=limit_output,
                start_new_session=True,
            )
            Candidate.submission_ran = True
            before, self.process = self.process, process
            try:
                self.wait(process)
            finally:
                self.process = before
                kill_group(process.pid)
                process.wait()
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        return subprocess.CompletedProcess(words, process.returncode, *texts)

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        while (left := max(self.time_left(), 0.0)) > 0 or process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(min(left, POLL_SECONDS), 0.01))
                return
            self.look()
            if left <= 0:
                raise SubmissionTimeout(f"over its time of {self.timeout_seconds:g} s")

    def look(self) -> None:
        if self.process is not None:
            self.starvation.look(self.process.pid)

    def kill(self) -> None:
        if self.process is not None:
            kill_group(self.process.pid)
            self.process.wait()
            os.close(self.questions)
            os.close(self.answers)
            self.process = None


def plain_environment() -> dict[str, str]:
    """The sandbox's own variables, but nothing that steers Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}


def limit_output() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ANSWER_LIMIT_BYTES, ANSWER_LIMIT_BYTES))


def kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def raise_again(type_name: str, message: str) -> None:
    kind = getattr(builtins, type_name, None)
    error = None
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(TypeError):  # UnicodeDecodeError and its like need more arguments
            error = kind(message)
    raise error or SubmissionError(type_name, message)
