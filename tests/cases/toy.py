"""The smallest task there is, "put N into answer.txt", and agents' moves for the stand-in model."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import CaptureLimits, Environment
from agentcompass.components.contracts.task import (
    AnswerKey,
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)
from tests.standins.model_script import Reply, RequestInfo

AGENTS = ("tool_agent", "mini_swe_agent")
LIMITS = CaptureLimits(max_bytes=8 * 1024 * 1024)


class Toy:
    """Tasks toy-1, toy-2, …, judged by a command in the agent's own sandbox."""

    primary: Primary = "correct"
    score_range = (0.0, 1.0)
    verification: Verification = "reuse"
    needs_sandbox = True
    prepares_grading = False

    def __init__(self, count: int = 1, *, setup: str = "", seconds: float | None = None) -> None:
        self.samples = tuple(_sample(n, seconds) for n in range(1, count + 1))
        self.setup = setup
        """A command that prepares each sandbox."""
        self.verified: list[str] = []
        """Ids of tasks, each time the verifier ran."""

    def load(self, data_dir: Path) -> Dataset:
        return Dataset(samples=self.samples, source="toy", content_hash="0")

    async def prepare(self, task: Task, env: Environment) -> None:
        if self.setup:
            done = await env.exec(self.setup)
            assert done.ok, done.stderr

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        if env is None:
            raise AgentCompassError(Code.FRAMEWORK_UNEXPECTED, "no sandbox")
        capture = await env.capture(".", LIMITS)
        for line in capture.left_out:
            desk.note(Code.ARTIFACT_LIMIT, line)
        saved = [desk.save(f.path, f.content, path=f.path, mode=f.mode) for f in capture.files]
        return submission.model_copy(update={"artifacts": tuple(saved)})

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        if env is None:
            raise AgentCompassError(Code.FRAMEWORK_UNEXPECTED, "no sandbox")
        self.verified.append(sample.task.id)
        done = await env.exec(f'test "$(cat answer.txt)" = {sample.answer_key.value["answer"]}')
        return Verdict(correct=done.ok)

    def solution(self, sample: Sample) -> Solution:
        return Solution(files={"answer.txt": str(sample.answer_key.value["answer"]).encode()})


def number(request: RequestInfo) -> int:
    """Of the toy task a request belongs to."""
    return int(request.first_user.partition("Put ")[2].partition(" into")[0])


def one_by_one(*replies: Reply) -> Callable[[RequestInfo], Reply]:
    """A script that gives these replies by the conversation's step."""
    return lambda request: replies[min(request.step, len(replies) - 1)]


def in_order(*replies: Reply) -> Callable[[RequestInfo], Reply]:
    """A script for one conversation that gives one reply after another, however it goes."""
    return lambda request: replies[min(request.number, len(replies)) - 1]


def shell(harness: str, command: str, text: str = "") -> Reply:
    """A reply that runs a command."""
    name = {"tool_agent": "shell", "mini_swe_agent": "bash"}[harness]
    return Reply(text=text, tool_calls=({"name": name, "arguments": {"command": command}},))


def put(harness: str, value: int = 1) -> Reply:
    """The move that solves a toy task."""
    return shell(harness, f"echo {value} > answer.txt")


def submit(harness: str, answer: str = "done") -> Reply:
    if harness == "tool_agent":
        return Reply(tool_calls=({"name": "submit", "arguments": {"answer": answer}},))
    marker = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    return shell(harness, f"echo {marker}; printf '%s' '{answer}'")


def told(harness: str, observation: str) -> str:
    """What an agent was shown of a command, in one form: exit code, then the output."""
    if harness == "tool_agent":
        ending, _, output = observation.partition("\n")
        for heading in ("stdout:\n", "stderr:\n"):
            output = output.replace(heading, "", 1)
        return f"{ending.removeprefix('exit code ')}: {output.removeprefix('(no output)')}"
    shown = json.loads(observation)
    output = shown.get("output") or shown.get("output_head", "") + shown.get("output_tail", "")
    return f"{shown['returncode']}: {output}"


def solving(harness: str, *before: Reply, value: int = 1) -> Sequence[Reply]:
    """These moves, then the right answer and the end."""
    return (*before, put(harness, value), submit(harness))


def _sample(value: int, seconds: float | None) -> Sample:
    instruction = f"Put {value} into answer.txt."
    return Sample(
        task=Task(id=f"toy-{value}", instruction=instruction, run_timeout_seconds=seconds),
        answer_key=AnswerKey(value={"answer": value}),
        content_hash=hashlib.sha256(instruction.encode()).hexdigest(),
    )
