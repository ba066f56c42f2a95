"""Which paths belong to tests, to graders and to hidden answers."""

import re

_CODE = (
    "py|pyi|js|jsx|mjs|cjs|ts|tsx|go|rs|java|kt|scala|rb|php|c|cc|cpp|cs|swift|exs?|pl|t|sh|bats"
)
TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|specs|__tests__)(?:/|$)|(?:^|/)conftest\.py$"
    rf"|(?:^|/)test_[^/]+\.(?:{_CODE})$"
    rf"|(?:^|/)[^/]+(?:_test|_spec|\.test|\.spec|Tests?)\.(?:{_CODE})$"
)
_CACHE = re.compile(r"(?:^|/)(?:__pycache__|\.pytest_cache)(?:/|$)|\.pyc$")
HIDDEN_PLACES = ("/tests", "/solution", "/oracle", "/verifier", "/grader", "/logs/verifier")
"""Where benchmarks put tests, solutions and rewards that an agent is not meant to meet."""
HIDDEN_NAMES = (
    "test_outputs.py", "solution.sh", "solve.sh", "reward.txt", "reward.json", "answer_key*",
    "gold_patch*", "gold.patch", "test_patch.diff", "test.patch", "hidden_test*",
    "reference_solution*",
)  # fmt: skip
"""File names of the same, wherever they stand. `*` stands for anything."""


class Hidden:
    """The hidden paths of one task: those its instruction does not talk about itself."""

    def __init__(self, places: tuple[str, ...], names: tuple[str, ...], instruction: str) -> None:
        self._places = [p.rstrip("/") for p in places if not _mentioned(p.rstrip("/"), instruction)]
        kept = [n for n in names if n.rstrip("*") not in instruction]
        patterns = "|".join(re.escape(name).replace(r"\*", r"[^/]*") for name in kept)
        self._names = re.compile(f"(?:^|/)(?:{patterns})$") if kept else None

    def __contains__(self, path: str) -> bool:
        if any(path == place or path.startswith(place + "/") for place in self._places):
            return True
        return self._names is not None and self._names.search(path.rstrip("/")) is not None


def is_test(path: str) -> bool:
    """What Python and pytest keep beside tests is none."""
    return TEST_FILE.search(path) is not None and not _CACHE.search(path)


def _mentioned(place: str, instruction: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(place)}(?![\w-])", instruction) is not None
