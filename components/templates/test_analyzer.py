"""It finds what it is made to find, and says nothing of the rest."""

from agentcompass.components.contracts.analysis import FinishedAttempt, Report
from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Detail,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.trajectory import (
    AgentInfo,
    AtifToolCall,
    FinalMetrics,
    Step,
    Trajectory,
)
from agentcompass.components.templates.analyzer import Example, ExampleParameters


def finished(*tools: str) -> FinishedAttempt:
    """An attempt whose agent called these tools, one a step, and answered."""
    key = AttemptKey(task_id="task 1", index=2)
    record = AttemptRecord(
        key=key,
        status="scored",
        verdict=Verdict(correct=True),
        submission=Submission(answer="done"),
    )
    detail = Detail(
        task_id=key.task_id,
        instruction="Do it.",
        content_hash="0" * 64,
        planned=2,
        attempts=(record,),
    )
    calls = [
        (AtifToolCall(tool_call_id=f"c{number}", function_name=tool, arguments={}),)
        for number, tool in enumerate(tools)
    ]
    steps = tuple(
        Step(step_id=number, source="agent", message="", tool_calls=call)
        for number, call in enumerate([*calls, None], 1)
    )
    trajectory = Trajectory(
        session_id=str(key),
        agent=AgentInfo(name="agent", version="1"),
        steps=steps,
        final_metrics=FinalMetrics(total_steps=len(steps)),
    )
    return FinishedAttempt(detail, record, trajectory)


def report(*attempts: FinishedAttempt) -> Report:
    analyzer = Example(ExampleParameters())
    for attempt in attempts:
        analyzer.look_at(attempt)
    return analyzer.report()


def test_an_answer_out_of_nothing_is_found() -> None:
    said = report(finished("shell"), finished())
    assert [(one.task_id, one.attempt, one.kind) for one in said.findings] == [
        ("task 1", 2, "no_tools")
    ]
    assert said.numbers == {"attempts": 2, "without_tools": 1}
    assert "1 of 2" in said.markdown


def test_work_is_no_finding() -> None:
    assert report(finished("shell", "shell")).findings == ()
