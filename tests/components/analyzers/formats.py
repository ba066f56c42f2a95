"""One course of events, told as the trajectories of different harnesses."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agentcompass.components.contracts.analysis import FinishedAttempt
from agentcompass.components.contracts.attempt import (
    Artifact,
    AttemptKey,
    AttemptRecord,
    Detail,
    Note,
    PhaseTimes,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.trajectory import (
    AgentInfo,
    AtifToolCall,
    Observation,
    ObservationResult,
    Step,
    StepMetrics,
    Trajectory,
)
from agentcompass.components.contracts.usage import Usage

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Run:
    """A command line and what came of it."""

    line: str
    output: str = ""
    code: int = 0


@dataclass(frozen=True)
class Write:
    path: str
    text: str


@dataclass(frozen=True)
class Edit:
    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Read:
    path: str
    text: str


@dataclass(frozen=True)
class Say:
    """A reply without a tool call."""

    text: str = ""
    reasoning: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    reminded: bool = True
    """The harness answers it with a message of its own."""


@dataclass(frozen=True)
class Call:
    """A call as it was sent, of whatever tool."""

    tool: str
    arguments: dict[str, Any]
    result: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


Move = Run | Write | Edit | Read | Say | Call
FORMATS = ("tool_agent", "mini_swe_agent", "claude_code", "codex", "openhands", "fenced")


def steps(style: str, moves: Sequence[Move], instruction: str) -> tuple[Step, ...]:
    told = [Step(step_id=1, source="user", message=instruction)]
    for move in moves:
        number = len(told) + 1
        told.append(_step(style, move, number))
        if isinstance(move, Say) and move.reminded:
            told.append(Step(step_id=number + 1, source="user", message="Call a tool."))
    return tuple(
        step.model_copy(
            update={"timestamp": (STARTED + timedelta(seconds=10 * step.step_id)).isoformat()}
        )
        for step in told
    )


def _step(style: str, move: Move, number: int) -> Step:
    if isinstance(move, Say):
        metrics = None if move.tokens is None else StepMetrics(completion_tokens=move.tokens)
        return Step(
            step_id=number,
            source="agent",
            message=move.text,
            reasoning_content=move.reasoning,
            metrics=metrics,
            extra=move.extra or None,
        )
    if style == "fenced":
        return _fenced(move, number)
    tool, arguments, result = _call(style, move)
    call_id = f"call-{number}"
    return Step(
        step_id=number,
        source="agent",
        message="",
        tool_calls=(AtifToolCall(tool_call_id=call_id, function_name=tool, arguments=arguments),),
        observation=Observation(
            results=(ObservationResult(source_call_id=call_id, content=result),)
        ),
        extra=move.extra if isinstance(move, Call) and move.extra else None,
    )


def _fenced(move: Move, number: int) -> Step:
    run = _as_command(move)
    shown = f"<returncode>{run.code}</returncode>\n<output>\n{run.output}\n</output>"
    return Step(
        step_id=number,
        source="agent",
        message=f"Next step {number}.\n\n```bash\n{run.line}\n```",
        observation=Observation(results=(ObservationResult(content=shown),)),
    )


def _call(style: str, move: Move) -> tuple[str, dict[str, Any], str]:
    if isinstance(move, Call):
        return move.tool, move.arguments, move.result
    if style == "mini_swe_agent" or (style == "codex" and isinstance(move, Read)):
        move = _as_command(move)
    if isinstance(move, Run):
        return _run(style, move)
    return _file(style, move)


def _run(style: str, run: Run) -> tuple[str, dict[str, Any], str]:
    if style == "tool_agent":
        shown = f"stdout:\n{run.output}" if run.output else "(no output)"
        return "shell", {"command": run.line}, f"exit code {run.code}\n{shown}"
    if style == "mini_swe_agent":
        shown = json.dumps({"returncode": run.code, "output": run.output})
        return "bash", {"command": run.line}, shown
    if style == "codex":
        shown = json.dumps({"output": run.output, "metadata": {"exit_code": run.code}})
        return "shell", {"command": ["bash", "-lc", run.line]}, shown
    if style == "openhands":
        shown = f"{run.output}\n[The command completed with exit code {run.code}.]"
        return "execute_bash", {"command": run.line, "is_input": "false"}, shown
    shown = f"Exit code {run.code}\n{run.output}" if run.code else run.output
    return "Bash", {"command": run.line, "description": "Run it"}, shown


def _file(style: str, move: Write | Edit | Read | Say) -> tuple[str, dict[str, Any], str]:
    if isinstance(move, Write):
        if style == "tool_agent":
            content = {"path": move.path, "content": move.text}
            return "write_file", content, f"wrote {len(move.text)} bytes to {move.path}"
        if style == "codex":
            body = "\n".join(f"+{line}" for line in move.text.splitlines())
            return "apply_patch", {"input": _patch(f"*** Add File: {move.path}", body)}, "Done!"
        if style == "openhands":
            create = {"command": "create", "path": move.path, "file_text": move.text}
            return "str_replace_editor", create, f"File created: {move.path}"
        return "Write", {"file_path": move.path, "content": move.text}, "File created"
    if isinstance(move, Edit):
        if style == "tool_agent":  # it has no edit tool
            return _run(style, _as_command(move))
        if style == "codex":
            lines = [f"-{line}" for line in move.old.splitlines()]
            lines += [f"+{line}" for line in move.new.splitlines()]
            head = f"*** Update File: {move.path}\n@@"
            return "apply_patch", {"input": _patch(head, "\n".join(lines))}, "Done!"
        if style == "openhands":
            edit = {"command": "str_replace", "path": move.path, "old_str": move.old}
            return "str_replace_editor", {**edit, "new_str": move.new}, "edited"
        edit = {"file_path": move.path, "old_string": move.old, "new_string": move.new}
        return "Edit", edit, "The file has been updated."
    assert isinstance(move, Read)
    if style == "tool_agent":
        return "read_file", {"path": move.path}, move.text
    if style == "openhands":
        return "str_replace_editor", {"command": "view", "path": move.path}, move.text
    return "Read", {"file_path": move.path}, move.text


def _patch(head: str, body: str) -> str:
    return f"*** Begin Patch\n{head}\n{body}\n*** End Patch"


def _as_command(move: Move) -> Run:
    if isinstance(move, Run):
        return move
    if isinstance(move, Write):
        return Run(f"cat > {move.path} <<'EOF'\n{move.text}\nEOF")
    if isinstance(move, Edit):
        script = (
            f"p = open({move.path!r}).read()\n"
            f'open({move.path!r}, "w").write(p.replace("""{move.old}""", """{move.new}"""))'
        )
        return Run(f"python3 - <<'EOF'\n{script}\nEOF")
    if isinstance(move, Read):
        return Run(f"cat {shlex.quote(move.path)}", move.text)
    if isinstance(move, Call):
        return Run(str(move.arguments.get("command", move.tool)), move.result)
    raise AssertionError(move)


def attempt(
    task_id: str,
    style: str,
    moves: Sequence[Move],
    *,
    instruction: str = "Make the area of a rectangle right.",
    index: int = 1,
    value: bool | None = False,
    answer: str | None = None,
    artifacts: Sequence[tuple[str, str]] = (),
    stop_reason: str = "finished",
    notes: Sequence[tuple[Code, str]] = (),
    failure: tuple[Code, str] | None = None,
    retried: Code | None = None,
    usage: Usage | None = None,
    times: PhaseTimes | None = None,
    others: Sequence[AttemptRecord] = (),
    definitions: tuple[dict[str, Any], ...] | None = None,
    tries: Sequence[tuple[Code, str]] = (),
    earlier_try: int | None = None,
) -> FinishedAttempt:
    """`tries`: why earlier ones failed; `earlier_try`: this is one of them, with this number."""
    key = AttemptKey(task_id=task_id, index=index, physical=earlier_try or 1 + len(tries))
    record = AttemptRecord(
        key=key,
        status="scored" if failure is None else "unscored",
        verdict=Verdict(correct=value) if failure is None else None,
        failure=None if failure is None else _note(*failure),
        notes=tuple(_note(*note) for note in notes),
        submission=Submission(
            answer=answer,
            stop_reason=stop_reason,
            artifacts=tuple(
                Artifact(name=path, path=path, sha256=content, size_bytes=1)
                for path, content in artifacts
            ),
        ),
        usage=usage or Usage(calls=3, input_tokens=1_000, output_tokens=100, cost_usd=0.01),
        times=times or PhaseTimes(setup_seconds=1, run_seconds=20, score_seconds=2),
        earlier_failures=(
            *(() if retried is None else (_note(retried, "before"),)),
            *(_note(*one) for one in tries),
        ),
    )
    detail = Detail(
        task_id=task_id,
        instruction=instruction,
        content_hash="0",
        planned=1 + len(others),
        attempts=(*others, record),
    )
    trajectory = Trajectory(
        session_id=task_id,
        agent=AgentInfo(name=style, version="1", tool_definitions=definitions),
        steps=steps(style, moves, instruction),
    )
    return FinishedAttempt(detail, record, trajectory, earlier_try)


def _note(code: Code, message: str) -> Note:
    return Note(code=code, phase=Phase.RUN, message=message)
