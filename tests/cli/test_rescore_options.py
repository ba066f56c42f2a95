"""What `rescore` is not given comes from the run, and from the configuration what is not the run's.

Its doings are tested in tests/flows."""

from pathlib import Path
from typing import Any

import pytest

from agentcompass.cli.rescore import AS_THE_RUN, rescore
from agentcompass.cli.run_command import RunOption
from agentcompass.components.execution import rescoring
from agentcompass.components.results import finished_run
from tests.cli.conftest import Cli

SAID = """\
runtime:
  provider_limits: {docker: 3, modal: 5}
  env_open_qps: {docker: 0.5}
  log_level: ERROR
  progress: none
  timeout_seconds: 9
  results_dir: elsewhere
  reuse: latest
"""


class Asked(Exception):
    pass


@pytest.fixture
def asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the request is made of."""
    found: dict[str, Any] = {}

    def request(source: object, into: str, **given: Any) -> None:
        found.update(given)
        raise Asked

    monkeypatch.setattr(finished_run, "open_run_folder", lambda typed: typed)
    monkeypatch.setattr(rescoring, "rescore_request", request)
    (home / "agentcompass.yaml").write_text(SAID, encoding="utf-8")
    return found


def test_limits_and_how_it_talks_come_from_the_configuration(
    cli: Cli, asked: dict[str, Any]
) -> None:
    cli("rescore", "run", "--provider-limit", "modal=1", "--log-level", "debug")
    assert asked["runtime"] == {
        "provider_limits": {"docker": 3, "modal": 1},
        "env_open_qps": {"docker": 0.5},
        "log_level": "DEBUG",
        "progress": "none",
        "recipe_dirs": [],
    }
    assert asked["execution"] == {}


def test_the_help_says_which_settings_are_the_runs() -> None:
    shown = {one.opts[0]: one.shown_default for one in rescore.params if isinstance(one, RunOption)}
    told = {name for name, default in shown.items() if default == "as the run had"}
    assert told == {name.partition("/")[0] for name in AS_THE_RUN}
    assert shown["--provider-limit"] == "128 per provider"
