"""C10: names are unique, legal and short whatever the ids are; attempts do not see each other."""

import asyncio
import re

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.sandbox import SandboxLabel
from tests.components.environments.modal_sandboxes import (
    IMAGE,
    needs_sandboxes,
    provider,
    standin,
)
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes

IDS = ("UPPER", "a/b", "汉字" * 20, "x" * 199 + "y", "x" * 199 + "z")


def test_odd_and_equal_ids_side_by_side_in_two_providers(standin: ModalStandin) -> None:
    async def one(ours: object, task_id: str, index: int) -> str:
        label = SandboxLabel("same_run", AttemptKey(task_id=task_id, index=index))
        async with ours.open(IMAGE, label) as env:  # type: ignore[attr-defined]
            await env.write_file("mine", f"{id(ours)} {task_id} {index}".encode())
            await asyncio.sleep(0.2)
            return (await env.read_file("mine")).decode()

    async def run() -> None:
        wanted = [
            (ours, task_id, index)
            for ours in (provider(), provider())
            for task_id in IDS
            for index in (1, 2)
        ]
        found = await asyncio.gather(*(one(*each) for each in wanted))
        assert found == [f"{id(ours)} {task_id} {index}" for ours, task_id, index in wanted]

    asyncio.run(run())
    sandboxes = list(standin.sandboxes.values())
    names = {sandbox.definition.name for sandbox in sandboxes}
    assert len(names) == len(sandboxes) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,63}", name) for name in names)
    assert len({sandbox.tags["task"] for sandbox in sandboxes}) == len(IDS)
    for sandbox in sandboxes:
        assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,63}", text) for text in sandbox.tags.values())
