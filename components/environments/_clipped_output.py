"""A command's output in bounded memory: its head and its tail, and how much fell out between."""


class ClippedOutput:
    """Takes bytes as they come; keeps at most `limit_bytes` of them."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        if (room := self._head_limit - len(self._head)) > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-self._tail_limit :]
        if len(self._tail) > 4 * self._tail_limit:  # rarely: each cut moves the kept bytes
            del self._tail[: -self._tail_limit]

    def skip(self, count: int) -> None:
        """Bytes that were dropped before they could come here, between the head and the tail."""
        self._total += count

    def text(self) -> tuple[str, int]:
        """Decoded as UTF-8 with replacement, and the number of bytes dropped.

        Decoding waits until everything is joined, so that no character is cut by the way the
        bytes arrived; at the two edges of a gap characters cut in half are dropped whole.
        """
        tail = self._tail[-self._tail_limit :]
        if len(self._head) + len(tail) == self._total:
            return _decoded(self._head + tail), 0
        head, tail = _without_cut_end(self._head), _without_cut_start(tail)
        dropped = self._total - len(head) - len(tail)
        return f"{_decoded(head)}\n[… {dropped} bytes dropped …]\n{_decoded(tail)}", dropped


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", errors="replace")


def _without_cut_end(data: bytearray) -> bytearray:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue  # within a character
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _without_cut_start(data: bytearray) -> bytearray:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
