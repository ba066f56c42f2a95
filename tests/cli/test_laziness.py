"""What need not load a heavy library does not."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "prefect",
    "litellm",
    "pandas",
    "pyarrow",
    "docker",
    "modal",
    "daytona",
    "huggingface_hub",
    "minisweagent",
    "openai",
    "anthropic",
)


def loaded_by(*arguments: str) -> set[str]:
    """Top-level modules in a fresh process after this command line."""
    script = (
        "import sys\n"
        "from agentcompass.cli.main import answer\n"
        f"code = answer({list(arguments)!r})\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    code, *modules = done.stderr.split()
    assert code == "0", done.stderr
    return set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("list", "benchmark"),
        ("list", "harness"),
        ("list", "env"),
        ("list", "analyzer"),
        ("list", "model-protocol"),
        ("config", "docs", "benchmark", "gsm8k"),
        ("config", "docs", "harness", "mini_swe_agent"),
        ("config", "docs", "env", "host_process"),
        ("config", "docs", "model-protocol", "openai-chat"),
        ("server", "--help"),
    ],
)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments).isdisjoint(HEAVY)


def test_help_needs_no_pydantic() -> None:
    assert "pydantic" not in loaded_by("--help")
    assert "pydantic" not in loaded_by("--version")


def test_listing_imports_no_component() -> None:
    script = (
        "import sys\n"
        "from agentcompass.cli.main import answer\n"
        "answer(['list', 'benchmark'])\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert "gsm8k" in done.stdout
    assert "agentcompass.components.benchmarks." not in done.stderr


def test_a_refused_request_has_not_loaded_prefect(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from agentcompass.cli.main import answer\n"
        "code = answer(['run', 'gsm8k', 'idle', 'm', '--benchmark-params', "
        f"""'{{"data_path": "{tmp_path}/nope.jsonl"}}'])\n"""
        "print(code, 'prefect' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["2", "False"]
