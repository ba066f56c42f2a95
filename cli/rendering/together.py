"""The progress of several runs as one."""

from agentcompass.cli.rendering.progress import Listen
from agentcompass.components.contracts.progress import Progress, summed


class TogetherProgress:
    """Hands each run a function to report to, and shows their sum."""

    def __init__(self, show: Listen) -> None:
        self._show = show
        self._latest: list[Progress | None] = []

    def listener(self) -> Listen:
        number = len(self._latest)
        self._latest.append(None)

        def listen(progress: Progress) -> None:
            self._latest[number] = progress
            self._show(summed([part for part in self._latest if part is not None]))

        return listen
