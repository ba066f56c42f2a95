"""How agents talk, call tools and use the network."""

from typing import Any

from agentcompass.components.contracts.errors import Code
from tests.components.analyzers.corpus_parts import (
    CHECK,
    LOOK,
    OLD,
    SOLVE,
)
from tests.components.analyzers.formats import Call, Edit, Run, Say, Write


def network(plant: Any) -> None:
    plant(
        "few words before other calls",
        "fenced",
        [Run(f"python check_{n}.py", f"{n}") for n in range(6)],
    )
    plant(
        "packages",
        "tool_agent",
        [Run("pip install -q requests && npm ci", "added"), SOLVE],
        "network:packages",
    )
    plant(
        "on this machine only",
        "mini_swe_agent",
        [
            Run(
                "curl -s http://127.0.0.1:8000/up; pip install --no-index x; pip list",
                "ok",
            )
        ],
    )
    plant(
        "requests in Python",
        "codex",
        [
            Run(
                "python -c \"import requests; print(requests.get('https://example.org/a').text)\"",
                "hello",
            )
        ],
        "network:web",
    )
    plant(
        "pages that never came",
        "tool_agent",
        [
            Run("curl -s https://example.org/a"),
            Run("curl -sSf https://example.org/b", "curl: (22) returned error: 404", 22),
            Run("wget -qO- https://example.org/c", code=8),
        ],
        "network:refused",
    )
    plant(
        "a page into a file, and words sent out",
        "openhands",
        [Run("curl -s https://example.org/a -o a"), Run("curl -s -d @notes https://example.org/b")],
        "network:web",
    )
    plant(
        "a script that would call",
        "claude_code",
        [Write("fetch.py", "import requests\nrequests.get('https://example.org/a')\n")],
    )
    plant(
        "a search",
        "claude_code",
        [Call("WebSearch", {"query": "area of a rectangle"}, "w * h")],
        "network:web",
    )


def replies(plant: Any) -> None:
    loop = "I will check it again. "
    plant(
        "cut off at the end",
        "chat",
        [Say("The answer is", extra={"finish_reason": "length"}, reminded=False)],
        "truncation:last_reply",
        answer="The answer is",
        stop_reason="length",
    )
    plant(
        "cut off, went on",
        "tool_agent",
        [Say("Let me think", extra={"finish_reason": "length"}), SOLVE],
        "truncation:reply",
    )
    plant(
        "cut off, another's word",
        "claude_code",
        [Say("So", extra={"stop_reason": "max_tokens"}, reminded=False)],
        "truncation:last_reply",
    )
    plant(
        "a complete answer",
        "chat",
        [Say("42", extra={"finish_reason": "stop"}, reminded=False)],
        answer="42",
        value=True,
    )
    plant(
        "outgrew the model",
        "mini_swe_agent",
        [SOLVE],
        "truncation:context_window",
        "failures:model.context_window",
        notes=[(Code.MODEL_CONTEXT_WINDOW, "8192 tokens")],
    )
    plant(
        "empty answer",
        "chat",
        [Say("", reminded=False)],
        "empty_steps:empty_answer",
        "failures:submission.empty",
        answer="",
        notes=[(Code.SUBMISSION_EMPTY, "no text")],
    )
    plant("empty, went on", "tool_agent", [Say(""), SOLVE], "empty_steps:empty")
    plant(
        "only reasoning",
        "chat",
        [Say("", "It is 42.", reminded=False)],
        "empty_steps:reasoning_only",
    )
    plant("reasoning split off", "codex", [Say("", "First look.", reminded=False), LOOK, SOLVE])
    plant(
        "cannot stop",
        "chat",
        [Say("Well. " + loop * 30, reminded=False)],
        "repetition:text",
        answer="?",
    )
    plant(
        "cannot stop reasoning",
        "chat",
        [Say("6", "Hmm, 汉字循环。" * 60, reminded=False)],
        "repetition:text",
        answer="6",
    )
    plant(
        "a long list",
        "chat",
        [
            Say(
                "\n".join(f"{n}. item number {n * n} costs {n * 7} euros" for n in range(80)),
                reminded=False,
            )
        ],
        answer="80",
    )
    plant(
        "the same words",
        "tool_agent",
        [Say("I am done with the task now.")] * 3
        + [Say("I am done with the task now.", reminded=False)],
        "repetition:same_message",
        "malformed_calls:no_call",
        "failures:harness.format",
        notes=[(Code.HARNESS_FORMAT, "4 replies in a row called no tool")],
    )
    plant(
        "calls in words, until it gave up",
        "tool_agent",
        [Run("ls", "a.py"), *(Say(f"I run it: <tool_call>{n}</tool_call>") for n in range(3))],
        "malformed_calls:gave_up",
        "malformed_calls:in_text",
        "failures:harness.format",
        notes=[(Code.HARNESS_FORMAT, "3 replies in a row called no tool")],
    )


def calls(plant: Any) -> None:
    bad = {"problem": "Expecting value", "raw_arguments": '{"command": ls'}
    plant("the same call", "openhands", [Run("ls", "a.py")] * 5, "repetition:same_call")
    plant("a cycle", "codex", [Run("ls", "a.py"), Run("cat a.py", "x")] * 4, "repetition:cycle")
    plant("polling a log", "mini_swe_agent", [Run("tail -1 log", f"line {n}") for n in range(8)])
    plant("waiting", "claude_code", [Run("sleep 60", "")] * 8)
    plant(
        "tests again and again, with edits",
        "tool_agent",
        [move for n in range(4) for move in (Edit("shapes/area.py", OLD, f"v{n}"), CHECK)],
    )
    plant(
        "broken JSON",
        "tool_agent",
        [
            Call(
                "shell",
                {},
                "error: the arguments are not a JSON object (x). Nothing was run.",
                {"malformed_calls": [{"tool_call_id": "call-2", **bad}]},
            ),
            SOLVE,
        ],
        "malformed_calls:broken_json",
    )
    plant(
        "broken JSON, mini",
        "mini_swe_agent",
        [
            Call(
                "bash",
                {},
                "Tool call error:\n\n<error>\nError parsing tool call arguments: x.\n</error>",
            ),
            SOLVE,
        ],
        "malformed_calls:broken_json",
    )
    plant(
        "no such tool",
        "claude_code",
        [
            Call(
                "python",
                {"code": "1"},
                "<tool_use_error>Error: No such tool available: python</tool_use_error>",
            )
        ],
        "malformed_calls:unknown_tool",
    )
    plant(
        "missing argument",
        "codex",
        [Call("shell", {"workdir": "/"}, "…"), SOLVE],
        "malformed_calls:wrong_arguments",
        definitions=(
            {
                "type": "function",
                "function": {"name": "shell", "parameters": {"required": ["command"]}},
            },
            {"type": "function", "function": {"name": "apply_patch", "parameters": {}}},
        ),
    )
    plant(
        "a call in the text",
        "chat",
        [Say('<tool_call>{"name": "shell"}</tool_call>', reminded=False)],
        "malformed_calls:in_text",
    )
    plant(
        "a program's own complaint",
        "tool_agent",
        [Run("x", "error: there is no tool 'x'; Unknown tool", 1)],
    )
