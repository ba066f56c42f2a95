"""What a command line runs, told from what it only mentions."""

import random

import pytest

from agentcompass.components.analyzers._shell import commands


def run_by(line: str) -> list[tuple[str, ...]]:
    return [command.argv for command in commands(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git log --all", [("git", "log", "--all")]),
        ("echo 'git log' # git fsck", [("echo", "git log")]),
        ("cd a&&git log;git show", [("cd", "a"), ("git", "log"), ("git", "show")]),
        ("A=1 sudo -u x timeout 5 /usr/bin/git log", [("git", "log")]),
        ("if git diff; then ls; fi", [("git", "diff"), ("ls",), ("fi",)]),
        ("cat <<'EOF'\ngit log\nEOF\nls", [("cat",), ("ls",)]),
        ("a 2>&1 | b |& c", [("a",), ("b",), ("c",)]),
        ("find . | xargs -n 1 grep -l x", [("find", "."), ("grep", "-l", "x")]),
        ('a "$(git log)" `git show`', [("a", "$", "$"), ("git", "log"), ("git", "show")]),
        ("git \\\n log", [("git", "log")]),
        ('git commit -m "a; git log"', [("git", "commit", "-m", "a; git log")]),
        ("", []),
    ],
)
def test_programs_and_their_words(line: str, expected: list[tuple[str, ...]]) -> None:
    assert run_by(line) == expected


def test_what_a_shell_is_given_is_run() -> None:
    assert ("git", "log") in run_by("bash -lc 'cd x; git log'")
    assert ("git", "log") in run_by("sh <<EOF\ngit log\nEOF")
    assert ("git", "log") not in run_by("python <<EOF\ngit log\nEOF")


def test_where_output_and_input_go() -> None:
    cat, tee = commands("cat > a.txt <<'EOF' | tee b.txt\nhello\nEOF\n")
    assert (cat.outputs, cat.stdin, cat.into) == (("a.txt",), "hello", (("tee", "b.txt"),))
    assert tee.argv == ("tee", "b.txt")
    (patch,) = commands("patch -p1 < fix.diff 2> /dev/null")
    assert (patch.inputs, patch.outputs) == (("fix.diff",), ("/dev/null",))


def test_any_text_is_read_without_an_error() -> None:
    pieces = ["'", '"', "`", "$(", ")", "\\", "<<EOF", "\n", "EOF", "|", "&", ";", ">", "git ", "#"]
    chance = random.Random(5)
    for _ in range(2_000):
        commands("".join(chance.choices([*pieces, "a", " "], k=chance.randint(1, 30))))
