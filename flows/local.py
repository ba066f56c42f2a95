"""Run an evaluation in this process, against the user's Prefect API or our local server."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from agentcompass.components.configuration.secrets import holding
from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows import server


def run_locally(
    request: RunRequest,
    secrets: Mapping[str, str],
    listen: Callable[[Progress], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> Outcome:
    """Carry out the request and tell how it ended.

    `secrets` are the values behind the request's references; `listen` hears the progress, `note`
    single lines for the user. Raises RequestError and PreflightRefused before anything is spent,
    ServerProblem if no Prefect API can be had, KeyboardInterrupt before the attempts began.
    """
    note = note or (lambda line: None)
    connect(note)
    # Prefect reads its settings when it is imported; from here on they stand.
    from agentcompass.flows.local_run import carry_out

    with holding(secrets):
        return asyncio.run(carry_out(request, tuple(secrets.values()), listen, note))


def connect(note: Callable[[str], None]) -> None:
    """Choose the API, start our server if it is ours, and set Prefect's client up for it."""
    if "prefect" in sys.modules:  # a program of the user's has chosen already
        return
    chosen = server.chosen_url()
    if chosen and not server.answers(chosen):
        note(f"the Prefect API at {chosen} does not answer; using the local server instead")
        chosen = None
    if chosen is None:
        if server.status() is None:
            note("starting the local Prefect server, once; it stays for later runs …")
        state = server.start()
        os.environ["PREFECT_HOME"] = state.home
        os.environ["PREFECT_API_URL"] = state.url
        # Harmless for a plain http address, and saves loading certificates for every client.
        os.environ.setdefault("PREFECT_API_TLS_INSECURE_SKIP_VERIFY", "true")
        os.environ.setdefault("PREFECT_CLIENT_CSRF_SUPPORT_ENABLED", "false")
        os.environ.setdefault("PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED", "false")
        note(f"Prefect UI: {state.ui_url}")
    settings = Path(__file__).with_name("logging.yml")
    os.environ.setdefault("PREFECT_LOGGING_SETTINGS_PATH", str(settings))
    os.environ.setdefault("DO_NOT_TRACK", "1")
