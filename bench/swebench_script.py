"""A script for the stand-in model endpoint: agents that edit SWE-bench repositories by commands.

    python bench/swebench_script.py --data FILE [--wrong] INSTANCE… >script.json
    python -m tests.standins.model_endpoint --script script.json --port 8123

The first step looks around, the second makes the accepted change (`--wrong`: changes the same
files to no effect), the third submits.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

LOOK = "git log --oneline | head -3; git status --short | head"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    lines = Path(given.data).read_text(encoding="utf-8").split("\n")
    rows = {row["instance_id"]: row for row in map(json.loads, filter(str.strip, lines))}
    rules = [_rule(rows[name], given.wrong) for name in given.instances]
    json.dump({"rules": rules, "default": ["pong"]}, sys.stdout, indent=1)


def _rule(row: dict[str, Any], wrong: bool) -> dict[str, Any]:
    if wrong:
        files = re.findall(r"^diff --git a/.* b/(.*)$", row["patch"], re.MULTILINE)
        edit = f"for f in {' '.join(files)}; do echo '# looked at' >>$f; done"
    else:
        patch = row["patch"].rstrip("\n")
        edit = f"git apply - <<'END_OF_PATCH'\n{patch}\nEND_OF_PATCH"
    first_line = row["problem_statement"].strip().partition("\n")[0].strip()
    return {
        "match": re.escape(first_line),
        "replies": [_call("Let me look.", LOOK), _call("I see.", edit), _call("Done.", SUBMIT)],
    }


def _call(text: str, command: str) -> dict[str, Any]:
    return {
        "text": text,
        "tool_calls": [{"name": "bash", "arguments": {"command": command}}],
    }


if __name__ == "__main__":
    main()
