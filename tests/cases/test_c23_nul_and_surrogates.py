"""NUL, half characters and odd separators reach every store as clean text, escapes intact (C23)."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas
import pytest

from agentcompass.components.contracts.attempt import AttemptKey, Submission, Verdict
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Sample
from tests.cases.rig import Ran, ask, measure, problems
from tests.cases.strict_json import strict
from tests.cases.toy import AGENTS, Toy, in_order, shell, submit
from tests.flows.program import agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

LITERAL = "\\u0000"
"""Six characters, as they stand in somebody's source code."""
HALF = "half \ud83d pair"
ODD = r"""
printf 'nul>\0<\n'; printf 'line>\xe2\x80\xa8<\n'; printf 'code>%s<\n' '\u0000'
touch "$(printf 'bad\200name')"; ls; printf '%s' '\u0000' > code.py; echo 1 > answer.txt
"""


def documents(ran: Ran) -> dict[str, str]:
    """Every JSON file of the run, read strictly (the rig has done so), as text."""
    return {
        str(path.relative_to(ran.folder)): path.read_text(encoding="utf-8")
        for path in ran.folder.rglob("*.json")
        if "artifacts" not in path.parts
    }


@pytest.mark.parametrize("harness", AGENTS)
def test_odd_output_and_odd_replies_are_graded_and_stored(tmp_path: Path, harness: str) -> None:
    odd = shell(harness, ODD, text=HALF)
    script = in_order(odd, Reply(text=f"{HALF} {LITERAL}"), submit(harness, f"{LITERAL} end"))
    with ModelServer(script) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy())
        assert len(endpoint.requests) == 3
    record = ran.record("toy-1")
    assert (record.status, record.value) == ("scored", 1.0)
    assert record.submission is not None
    assert record.submission.answer == f"{LITERAL} end"

    observed = ran.shown("toy-1")[0]
    if harness == "mini_swe_agent":  # which shows results as JSON, with escapes of its own
        observed = json.loads(observed)["output"]
        observed = observed.replace("\0", "\ufffd")
    assert "nul>\ufffd<" in observed
    assert "line>\u2028<" in observed
    assert f"code>{LITERAL}<" in observed
    assert "bad\ufffdname" in observed
    agent = [step for step in ran.steps("toy-1") if step.source == "agent"]
    assert agent[0].message == "half \ufffd pair"
    assert agent[1].message == f"half \ufffd pair {LITERAL}"
    found = documents(ran)
    trajectory = strict(found["tasks/toy-1/attempt-1/trajectory.json"])
    assert trajectory["extra"]["replaced_characters"] >= 2
    assert set(found) >= {
        "run.json",
        "metrics.json",
        "analysis/failures.json",
        "tasks/toy-1/detail.json",
        "tasks/toy-1/attempt-1/checkpoint.json",
    }

    code = next(a for a in record.submission.artifacts if a.path == "code.py")
    stored = ran.store.artifacts(AttemptKey(task_id="toy-1", index=1)).read(code)
    assert stored.decode() == LITERAL
    assert [n.code for n in record.notes if "bad" in n.message] == ["artifact.limit"]
    assert pandas.read_parquet(ran.store.folder.attempts_parquet)["status"].tolist() == ["scored"]


@contextmanager
def logged() -> Iterator[list[str]]:
    """What the program logs in this block, kept out of pytest's own report: its parallel runner
    dies of half a character."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    logger, keeper = logging.getLogger("agentcompass"), Keeper()
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.propagate = True
        logger.removeHandler(keeper)


def storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


COMPLAINT = f"bad \0 {HALF} {LITERAL}\u2028 field"
BODY = json.dumps({"error": {"message": COMPLAINT}})


def test_an_endpoints_odd_complaint_is_stored_too(tmp_path: Path) -> None:
    with ModelServer(lambda _: Reply(status=400, body=BODY)) as endpoint, logged() as told:
        ran = measure(ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url), Toy())
    assert ran.codes() == {"toy-1 #1": "model.bad_request"}
    failure = ran.record("toy-1").failure
    assert failure is not None
    assert LITERAL in failure.message
    assert LITERAL in documents(ran)["metrics.json"].replace("\\\\", "\\")
    table = pandas.read_parquet(ran.store.folder.attempts_parquet)
    assert table["status"].tolist() == ["unscored"]
    assert [line for line in told if LITERAL in line]
    assert [ascii(line) for line in told if not storable(line)] == []


class Crashing(Toy):
    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        raise ValueError(COMPLAINT)


def test_a_graders_odd_complaint_is_stored_too(tmp_path: Path) -> None:
    """Prefect keeps the message as well: as a log line, and as the state of a task run."""
    with logged() as told:
        ran = measure(ask(tmp_path, "quickstart", "oracle"), Crashing())
    assert ran.codes() == {"toy-1 #1": "grader.crashed"}
    assert [line for line in told if LITERAL in line]
    assert [ascii(line) for line in told if not storable(line)] == []


@pytest.mark.usefixtures("prefect_home")
def test_a_whole_run_prints_no_traceback_and_is_recorded(tmp_path: Path) -> None:
    def answer(request: RequestInfo) -> Reply:
        if request.first_user == "ping":
            return Reply(text="pong")
        return Reply(status=400, body=BODY)

    with ModelServer(answer) as endpoint:
        words = ["run", "quickstart", "openai_chat", "m", "--model-api-key", "none", "--json"]
        words += ["--model-base-url", endpoint.base_url, "--benchmark-params", '{"limit": 1}']
        ended = agentcompass(*words, cwd=tmp_path)
    assert ended.exit_code == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Logging error" not in ended.stderr
    assert "not recorded" not in ended.stderr
    assert LITERAL in ended.stderr
    assert [f["code"] for f in ended.document["metrics"]["failures"]] == ["model.bad_request"]


def test_a_data_set_with_half_a_character(tmp_path: Path) -> None:
    rows = [{"question": f"{HALF}: \0 {n}?", "answer": f"{LITERAL} #### {n}"} for n in range(2)]
    data = tmp_path / "questions.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="ascii")
    with ModelServer(lambda request: Reply(text=f"{HALF} \0 #### 1")) as endpoint:
        request = ask(
            tmp_path,
            "gsm8k",
            "openai_chat",
            endpoint.base_url,
            benchmark_params={"data_path": str(data)},
        )
        ran = measure(request)
        assert all("half \ufffd pair" in r.first_user for r in endpoint.requests)
    assert ran.metrics.headline.value == 0.5


@pytest.mark.parametrize("odd", ["nul\0", "half\ud83d"], ids=["nul", "half"])
def test_an_id_that_no_file_can_hold_is_refused_before_anything_is_spent(
    tmp_path: Path, odd: str
) -> None:
    row = {"task_id": odd, "prompt": "def f():\n", "entry_point": "f"}
    row |= {"test": "def check(f):\n    pass\n", "canonical_solution": "    pass\n"}
    data = tmp_path / "problems.jsonl"
    data.write_text(json.dumps(row), encoding="ascii")
    params = {"data_path": str(data), "seed": 0}
    with pytest.raises(RequestError, match="id"):
        problems(ask(tmp_path, "humaneval", "oracle", benchmark_params=params))
