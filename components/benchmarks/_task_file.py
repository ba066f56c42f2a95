"""Tasks written by hand: one YAML file each, holding everything from the prompt to the solution.

    kind: answer | files | repository
    category: code
    instruction: |            what the agent reads (a line on the answer's form is added by kind)
    files: {path: text}       what stands in the workdir; a mapping {text | base64, executable}
    commits: [{message, date, files, deleted}]        `repository` only, instead of `files`
    answers: [text, …]        `answer` only: the spellings that are right
    hidden_tests: |           unittest classes, or a function `grade()`; see _judge/judge.py
    solution: {answer | files | command}

The file's name is the task's id.
"""

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from agentcompass.components.benchmarks._git_repository import Commit, File
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.task import AnswerKey, Dataset, Sample, Solution, Task

ANSWER_FORM = """
Give the answer at the end of your final message, on a line of its own: `ANSWER: <answer>`
(or write that line to `answer.txt` in the working directory).
"""
FILES_FORM = """
Work in the current directory. What its files do when you end is what counts.
"""
REPOSITORY_FORM = """
Work in the current directory, a git repository. What counts is everything you changed since its
latest commit, committed or not. Python 3 with its standard library is there.
"""


def _file(value: object) -> object:
    """Text, or {text | base64, executable}, as a File."""
    if isinstance(value, str):
        return File(content=value.encode("utf-8"))
    if isinstance(value, dict):
        text, encoded = value.get("text"), value.get("base64")
        content = base64.b64decode(encoded) if encoded is not None else str(text).encode("utf-8")
        return File(content=content, mode=0o755 if value.get("executable") else 0o644)
    return value


def _seconds(value: object) -> object:
    if not isinstance(value, datetime):
        return value
    return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())


Files = dict[str, Annotated[File, BeforeValidator(_file)]]
Seconds = Annotated[int, BeforeValidator(_seconds)]


class CommitPart(Frozen):
    message: str
    date: Seconds
    files: Files = {}
    deleted: tuple[str, ...] = ()

    def commit(self) -> Commit:
        return Commit(self.message, self.date, self.files, self.deleted)


class SolutionPart(Frozen):
    answer: str | None = None
    files: Files = {}
    command: str | None = None


class TaskFile(Frozen):
    id: Annotated[str, AfterValidator(str.strip)]
    kind: Literal["answer", "files", "repository"]
    category: str
    instruction: str
    files: Files = {}
    commits: tuple[CommitPart, ...] = ()
    answers: tuple[str, ...] = ()
    hidden_tests: str = ""
    test_timeout_seconds: Annotated[float, Field(gt=0)] = 20
    """For each hidden test."""
    solution: SolutionPart
    content_hash: str
    """sha256 of the task's file."""

    @model_validator(mode="after")
    def _complete(self) -> "TaskFile":
        given = {
            "files": bool(self.files) and self.kind != "repository",
            "commits": bool(self.commits),
            "answers": bool(self.answers),
            "hidden_tests": bool(self.hidden_tests),
        }
        wanted = {"answer": {"answers"}, "files": {"hidden_tests"}}.get(
            self.kind, {"commits", "hidden_tests"}
        )
        if {name for name, there in given.items() if there} - {"files"} != wanted:
            raise ValueError(f"{self.id}: a task of kind {self.kind!r} has {sorted(wanted)}")
        return self

    @property
    def base(self) -> dict[str, File]:
        """The files in the workdir when the agent starts."""
        files = dict(self.files)
        for commit in self.commits:
            files = {k: v for k, v in files.items() if k not in commit.deleted} | commit.files
        return files


@cache
def task_files(folder: Path) -> tuple[TaskFile, ...]:
    """Every task of a folder, by name."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = []
    for path in sorted(folder.glob("*.yaml")):
        raw = path.read_bytes()
        value = yaml.load(raw, loader)  # noqa: S506 (a safe loader)
        digest = hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()
        found.append(TaskFile.model_validate({**value, "id": path.stem, "content_hash": digest}))
    return tuple(found)


def data_set(files: tuple[TaskFile, ...]) -> Dataset:
    digest = hashlib.sha256("".join(file.content_hash for file in files).encode()).hexdigest()
    return Dataset(
        samples=tuple(_sample(file) for file in files), source="built in", content_hash=digest
    )


def _sample(file: TaskFile) -> Sample:
    form = {"answer": ANSWER_FORM, "files": FILES_FORM}.get(file.kind, REPOSITORY_FORM)
    instruction = file.instruction.rstrip() + "\n" + form
    return Sample(
        task=Task(id=file.id, instruction=instruction, category=file.category),
        # Verification finds the rest by the task's id: it is this package's own.
        answer_key=AnswerKey(value={"answers": list(file.answers)}),
        content_hash=hashlib.sha256((file.content_hash + instruction).encode()).hexdigest(),
    )


def solution(file: TaskFile) -> Solution:
    part = file.solution
    return Solution(
        answer=part.answer,
        files={path: item.content for path, item in part.files.items()},
        command=part.command,
    )
