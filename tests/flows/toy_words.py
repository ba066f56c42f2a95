"""A benchmark whose grader reads its rules from a file; not installed, but found on PYTHONPATH."""

import json
import os
from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: toy-words\nVersion: 1\n"
ENTRY_POINTS = "[agentcompass.benchmarks]\ntoy_words = toy_words_benchmark:COMPONENT\n"

MODULE = '''
"""Say the word that is asked for."""

import hashlib
import json
import os
from pathlib import Path

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.task import AnswerKey, Dataset, Sample, Solution, Task


def rules():
    return json.loads(Path(os.environ["TOY_RULES"]).read_text())


class ToyParameters(BenchmarkParameters):
    sandbox: bool = False
    """Judge in a fresh sandbox."""


class ToyWords:
    primary = "correct"
    score_range = (0.0, 1.0)
    needs_sandbox = False
    prepares_grading = False

    def __init__(self, parameters):
        self.verification = "fresh" if parameters.sandbox else "none"

    def load(self, data_dir):
        told = rules()
        key = str(told.get("key"))
        samples = tuple(
            Sample(
                task=Task(
                    id=word,
                    instruction=told.get("say", "Say ") + word,
                    category=word[0],
                    verification=told.get("verification", {}).get(word),
                ),
                answer_key=AnswerKey(value={"answer": word}),
                content_hash=hashlib.sha256((word + key).encode()).hexdigest(),
            )
            for word in ("apple", "avocado", "banana", "blueberry")
        )
        return Dataset(samples=samples, source="toy", content_hash="0" * 64)

    async def prepare(self, task, env):
        """Nothing to put in place."""

    async def collect(self, task, env, submission, desk):
        return submission

    async def verify(self, sample, submission, env, desk):
        told = rules()
        if sample.task.id in told.get("crash", ()):
            raise ValueError("the grader is broken")
        accepted = told["accept"].get(sample.task.id, [sample.task.id])
        answer = submission.answer.strip()
        if env is not None:
            answer = (await env.exec(["echo", answer])).stdout.strip()
        return Verdict(correct=answer in accepted)

    def solution(self, sample):
        return Solution(answer=sample.task.id)


COMPONENT = Component(
    version=os.environ.get("TOY_VERSION", "1"), create=ToyWords, parameters=ToyParameters
)
'''


def toy_words(folder: Path) -> dict[str, str]:
    """Put it into this folder; the variables that let a process find it."""
    place = folder / "toy"
    info = place / "toy_words-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (place / "toy_words_benchmark.py").write_text(MODULE.lstrip())
    write_rules(folder, accept={})
    earlier = os.environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(place), earlier))),
        "TOY_RULES": str(folder / "rules.json"),
    }


def write_rules(folder: Path, **rules: object) -> None:
    """`accept`: task → answers that count; `crash`: tasks whose grader fails; `key`: goes into
    every content hash; `say`: begins every instruction; `verification`: task → mode."""
    (folder / "rules.json").write_text(json.dumps(rules))
