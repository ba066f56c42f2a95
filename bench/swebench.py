"""Do real SWE-bench instances come out as they must? Oracle resolved; idle and a wrong patch not.

    python bench/swebench.py --data FILE --mirrors DIR --env docker|host_process INSTANCE…
        [--python '/opt/python/{version}/bin/python3'] [--image IMAGE] [--wrong] [--keep-data DIR]

Prepared with git_clone from local mirrors (DIR/owner__name). Says what each took, in seconds.
`--sdist INSTANCE=FILE` makes the mirror of an instance from a source archive of the version that
holds its fix: the accepted change and its tests are taken back, the rest becomes the base commit.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from agentcompass.components.contracts.attempt import AttemptKey  # noqa: E402
from agentcompass.components.contracts.requirements import Requirements  # noqa: E402
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel  # noqa: E402
from agentcompass.components.contracts.task import Sample  # noqa: E402
from agentcompass.components.registry import registry  # noqa: E402
from tests.conformance.benchmark import Tried, attempt, play  # noqa: E402

WRONG = "for f in $(git ls-files '*.py' | head -1); do echo '# nothing' >>$f; done"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--mirrors", required=True)
    parser.add_argument("--env", default="docker")
    parser.add_argument("--env-params", default="{}")
    parser.add_argument("--params", default="{}")
    parser.add_argument("--requirements", default="{}")
    parser.add_argument("--what", default="oracle,idle,wrong")
    parser.add_argument("--keep-data", default="")
    parser.add_argument("--sdist", action="append", default=[])
    given = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    if given.sdist:
        given.data, given.mirrors = _from_archives(given, Path(scratch.name))
    parameters = {
        "data_path": given.data,
        "preparation": "git_clone",
        "repo_url_template": str(Path(given.mirrors).resolve() / "{repo_dashed}"),
        "sample_ids": given.instances,
        **json.loads(given.params),
    }
    component = registry.load("benchmarks", "swebench_verified")
    benchmark = component.create(component.parameters(**parameters))
    environment = registry.load("environments", given.env)
    provider = environment.create(environment.parameters(**json.loads(given.env_params)))
    required = Requirements(**json.loads(given.requirements))
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(given.keep_data or folder)
        samples = {s.task.id: s for s in benchmark.load(data_dir).samples}
        for name in given.instances:
            for what in given.what.split(","):
                asyncio.run(_try(benchmark, samples[name], what, provider, required))


def _from_archives(given: argparse.Namespace, folder: Path) -> tuple[str, str]:
    """A data set and mirrors of only these instances."""
    wanted = dict(item.split("=", 1) for item in given.sdist)
    rows = []
    for line in Path(given.data).read_text(encoding="utf-8").split("\n"):
        row = json.loads(line) if line.strip() else {}
        if row.get("instance_id") in wanted:
            mirror = folder / "mirrors" / row["repo"].replace("/", "__")
            with tarfile.open(wanted[row["instance_id"]]) as archive:
                archive.extractall(mirror, filter="data")
            [inside] = mirror.iterdir()
            for patch in (row["test_patch"], row["patch"]):
                _git(inside, "apply", "-R", "--whitespace=nowarn", "-", stdin=patch)
            _git(inside, "init", "-q")
            _git(inside, "add", "-A", "-f")
            _git(inside, "commit", "-q", "-m", "base")
            inside.rename(mirror.with_name("moved"))
            mirror.rmdir()
            mirror.with_name("moved").rename(mirror)
            commit = _git(mirror, "rev-parse", "HEAD").strip()
            rows.append({**row, "base_commit": commit, "environment_setup_commit": commit})
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(data), str(folder / "mirrors")


def _git(folder: Path, *words: str, stdin: str = "") -> str:
    who = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout


async def _try(
    benchmark: Any, sample: Sample, what: str, provider: Any, required: Requirements
) -> None:
    def sandbox() -> AbstractAsyncContextManager[Environment]:
        label = SandboxLabel(run_id="bench", attempt=AttemptKey(task_id=sample.task.id, index=1))
        opened: AbstractAsyncContextManager[Environment] = provider.open(required, label)
        return opened

    async def wrong(env: Environment) -> None:
        await env.exec(WRONG)

    began = time.monotonic()
    tried: Tried | str
    try:
        if what == "oracle":
            tried = await play(benchmark, sample, benchmark.solution(sample), sandbox)
        else:
            tried = await attempt(benchmark, sample, sandbox, wrong if what == "wrong" else None)
    except Exception as error:  # shown, and the next one is tried
        tried = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    if isinstance(tried, str):
        print(f"{sample.task.id} {what}: {tried} ({seconds:.0f} s)", flush=True)
        return
    verdict = tried.verdict
    parts = [f"{e.name}: {e.text}" for e in verdict.evidence if e.name.endswith("_TO_PASS")]
    notes = [f"{note.code}: {note.message}" for note in verdict.notes]
    print(
        f"{sample.task.id} {what}: resolved={verdict.correct} {parts} {notes} ({seconds:.0f} s)",
        flush=True,
    )
    if verdict.correct != (what == "oracle"):
        for item in verdict.evidence:
            print("   ", item.passed, item.name, item.text[-1500:])


if __name__ == "__main__":
    main()
