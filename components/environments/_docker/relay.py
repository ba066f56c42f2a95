"""What runs in the relay container: it opens ports in a sandbox's network and hands them out.

Given to a bare interpreter as `-c`, so it stands alone: only `sys` and the socket extension. It
shares the network namespace of the sandbox, binds the loopback ports and passes the sockets
themselves through the unix socket of the host (SCM_RIGHTS). From then on they are served by our
own process; a socket stays in the network it was made in.
"""

import _socket
import sys


def main(door: str, count: int) -> None:
    ports = []
    for _ in range(count):
        port = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        port.bind(("127.0.0.1", 0))
        ports.append(port)
    host = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    host.connect(door)
    numbers = b"".join(port.fileno().to_bytes(4, sys.byteorder) for port in ports)
    host.sendmsg([b"ports"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    host.recv(1)  # returns when the host has them, or is dead


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
