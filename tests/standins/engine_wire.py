"""A Docker engine's socket, byte for byte a real engine's (taken-over connections as well), but
for chosen requests: refused, never answered, or carried out with their answer lost."""

import contextlib
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["refuse", "hang", "lose"]

_REQUEST = re.compile(rb"(GET|POST|PUT|DELETE|HEAD) (\S+) HTTP/1\.1\r\n")


@dataclass
class _Fault:
    pattern: re.Pattern[str]
    kind: Kind
    times: int


@dataclass
class EngineWire:
    host: str
    """`unix://…`"""
    requests: list[str] = field(default_factory=list)
    """Method and path of each."""
    _faults: list[_Fault] = field(default_factory=list)
    _open: list[socket.socket] = field(default_factory=list)

    def fail(self, pattern: str, kind: Kind, times: int = 1_000_000) -> None:
        """`refuse`: status 500; `hang`: no answer; `lose`: the engine does it, nobody hears."""
        self._faults.append(_Fault(re.compile(pattern), kind, times))

    def mend(self) -> None:
        self._faults.clear()

    def cut(self) -> None:
        """Every connection, as when the engine restarts."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def fault(self, block: bytes) -> Kind | None:
        found = _REQUEST.match(block)
        if found is None:
            return None
        line = f"{found[1].decode()} {found[2].decode()}"
        self.requests.append(line)
        for fault in self._faults:
            if fault.times and fault.pattern.search(line):
                fault.times -= 1
                return fault.kind
        return None


@contextlib.contextmanager
def engine_wire(engine_socket: str = "/var/run/docker.sock") -> Iterator[EngineWire]:
    with tempfile.TemporaryDirectory(prefix="wire-") as folder:
        address = str(Path(folder, "s"))
        wire = EngineWire(f"unix://{address}")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(128)

            def accept() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        client, _ = listener.accept()
                        _start(_Connection(wire, client, engine_socket).forward)

            _start(accept)
            try:
                yield wire
            finally:
                listener.shutdown(socket.SHUT_RDWR)
                wire.cut()


class _Connection:
    def __init__(self, wire: EngineWire, client: socket.socket, engine_socket: str) -> None:
        self._wire, self._client = wire, client
        self._engine = socket.socket(socket.AF_UNIX)
        self._engine.connect(engine_socket)
        self._deaf = False
        wire._open += [client, self._engine]
        _start(self.backward)

    def forward(self) -> None:
        with contextlib.suppress(OSError):
            while block := self._client.recv(65536):
                kind = self._wire.fault(block)
                if kind == "refuse":
                    body = b'{"message":"injected failure"}'
                    head = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json"
                    size = f"\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    self._client.sendall(head + size + body)
                    break
                if kind == "hang":
                    while self._client.recv(65536):
                        pass
                    break
                self._deaf = self._deaf or kind == "lose"
                self._engine.sendall(block)
            else:
                self._engine.shutdown(socket.SHUT_WR)
                return
        self._close()

    def backward(self) -> None:
        with contextlib.suppress(OSError):
            while block := self._engine.recv(65536):
                if self._deaf:
                    break
                self._client.sendall(block)
        self._close()

    def _close(self) -> None:
        for one in (self._client, self._engine):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _start(work: object) -> None:
    threading.Thread(target=work, daemon=True).start()  # type: ignore[arg-type]
