"""Where a command's output ends, told within the output by a mark nobody else can know."""

from collections.abc import Callable

from agentcompass.components.environments._docker.stream import Sink

_FENCE = b"\x1e"
_LONGEST_BYTES = 4_096


class MarkedOutput:
    """A sink that passes output on without its marks: `\\x1e<nonce> <words>\\x1e`."""

    def __init__(self, nonce: str, sink: Sink, on_mark: Callable[[list[str]], None]) -> None:
        self._start = _FENCE + nonce.encode() + b" "
        self._sink = sink
        self._on_mark = on_mark
        self._held = b""

    def add(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        while (at := data.find(self._start)) >= 0:
            end = data.find(_FENCE, at + len(self._start))
            if end < 0 and len(data) - at > _LONGEST_BYTES:
                break  # no mark of ours
            if end < 0:
                self._pass(data[:at])
                self._held = data[at:]
                return
            self._pass(data[:at])
            words = data[at + len(self._start) : end]
            data = data[end + 1 :]
            self._on_mark(words.decode("ascii", "replace").split(" "))
        # The beginning of a mark may wait at the end.
        at = data.rfind(_FENCE, max(0, len(data) - len(self._start)))
        if at >= 0 and self._start.startswith(data[at:]):
            data, self._held = data[:at], data[at:]
        self._pass(data)

    def finish(self) -> None:
        """Nothing more comes: what looked like the beginning of a mark was none."""
        held, self._held = self._held, b""
        self._pass(held)

    def _pass(self, data: bytes) -> None:
        if data:
            self._sink(data)
