"""What of a line worked, whose files they are, and which lines of a network tool count."""

import pytest

from agentcompass.components.analyzers._actions import Action, actions
from agentcompass.components.analyzers._keys import keys
from agentcompass.components.analyzers._outcomes import failed, left
from agentcompass.components.analyzers._own import Own
from agentcompass.components.analyzers._written import changes
from agentcompass.components.analyzers.repetition import repeated
from tests.components.analyzers.formats import FORMATS, Run, attempt


def acted(line: str, output: str = "", code: int = 0, style: str = "mini_swe_agent") -> Action:
    (action,) = actions(attempt("t", style, [Run(line, output, code)]))
    return action


@pytest.mark.parametrize("style", FORMATS)
def test_what_is_left_of_an_output(style: str) -> None:
    assert left(acted("git log --all", style=style)) == ""
    assert left(acted("git show x", "fatal: bad object x", 128, style)) == ""
    assert left(acted("ls /x || echo none", "ls: cannot access '/x': No such file\nnone", 0)) == ""
    assert left(acted("cat a; ls /x", "line\nls: cannot access '/x'", 2, style)) == "line"
    trace = 'Traceback (most recent call last):\n  File "a", line 1\nFileNotFoundError: a'
    assert left(acted("python a.py", trace, 1, style)) == ""


@pytest.mark.parametrize(
    ("line", "output", "code", "fails"),
    [
        ("git show x", "fatal: bad object x", 128, True),
        ("git show x > f && pytest", "1 failed", 1, False),
        ("git show x > f; pytest", "fatal: bad object x\n1 failed", 1, True),
        ("git show x; git show y", "fatal: bad object x\ndiff", 0, False),
        ("cd /nope && git show x; pytest", "bash: cd: /nope: No such file or directory", 1, True),
        ("git diff origin/main --exit-code", "+ a line of it", 1, False),
        ("cd /repo && git fetch", "could not read", 1, True),
        ("git show x | grep -q y", "", 1, False),
    ],
)
def test_the_exit_code_is_that_of_the_last_command(
    line: str, output: str, code: int, fails: bool
) -> None:
    action = acted(line, output, code)
    looks = [one for one in action.commands if one.program == "git"]
    assert failed(action, looks[0], alike=len(looks)) is fails


def test_a_path_that_was_refused() -> None:
    action = acted("cat /tests/a; pytest", "cat: /tests/a: Permission denied\n1 failed", 1)
    assert failed(action, action.commands[0], "/tests/a")
    assert not failed(action, action.commands[0], "/tests/b")


@pytest.mark.parametrize(
    ("made", "asked", "own"),
    [
        ("cat > /app/solve.sh", "cd /app && cat solve.sh", True),
        ("cd /app && cat > solve.sh", "cat /app/solve.sh", True),
        ("cat > solve.sh", "cat /app/solve.sh", True),
        ("cat > solve.sh", "cat /oracle/solve.sh", False),
        ("cat > /app/solve.sh", "cd /oracle && cat solve.sh", False),
        ("cat > /tmp/solve.sh", "cat solve.sh", False),
        ("cat > a/solve.sh", "cat b/solve.sh", False),
        ("cat > /app/solve.sh", "cat *.sh", True),
        ("cat > /app/solve.py", "cat *.sh", False),
    ],
)
def test_own_files_by_other_names(made: str, asked: str, own: bool) -> None:
    making, asking = acted(f"{made} <<'EOF'\nx\nEOF"), acted(asked)
    mine = Own(["/oracle"])
    for change in changes(making):
        mine.add(change.path, making)
    assert mine.has(asking.commands[-1].words[0], asking) is own


def test_a_pattern_that_meets_given_files_is_not_own() -> None:
    mine, action = Own(), acted("ls")
    mine.add("tests/test_mine.py", action)
    assert mine.has("tests/test_*.py", action, ["tests/test_mine.py"])
    assert not mine.has("tests/test_*.py", action, ["tests/test_given.py"])


@pytest.mark.parametrize(
    ("line", "text", "old", "partial"),
    [
        ("sed -i 's/a/b/;s#c#d#' f", "b\nd", "a\nc", True),
        ("sed -i '/gone/d' f", "", "gone", True),
        ("sed -i -e 's/a/b/' f", "b", "a", True),
        ("sed -i '1i import x' f", "1i import x", "", True),
        ("echo x >> f", "x", "", True),
        ("echo x > f", "x", "", False),
        ("echo x | tee -a f", "x", "", True),
    ],
)
def test_what_a_command_writes(line: str, text: str, old: str, partial: bool) -> None:
    change = next(one for one in changes(acted(line)) if one.path == "f")
    assert (change.text, change.old, change.partial) == (text, old, partial)


def test_keys_told_from_names() -> None:
    assert list(keys("api_key=self.settings.providers.openai_v1")) == []
    assert list(keys("api_key='q7Zk3mV9xT2.bN8cR5wY1aL6dF4g'")) != []
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MjQyIn0.dozjgNryP4J3jVmNHl0w5N"
    assert list(keys(f"access_token={token}")) == [token]


def test_repetition_needs_letters_and_is_counted_apart() -> None:
    grid = "\n".join(" ".join("0" * 30) for _ in range(8))
    assert repeated(f"{grid}\nis it", 8, 300) is None
    assert repeated(grid, 8, 300) is None
    assert repeated("0 " * 3_000, 8, 300) is not None
    # fifteen overlapping passages, one of them apart from the others
    assert repeated("very " * 24 + "and then it ends otherwise.", 8, 100) is None
    loop = "I will now look at the file again to be sure. "
    assert repeated(loop * 10 + "Then I stopped.", 8, 300) is not None
