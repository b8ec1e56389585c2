"""A relay of TCP connections between a client and a server, which can hold back answers and cut the connections."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress


class Relay:
    """Forwards the connections to its own port to the port of a server on this machine."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: set[socket.socket] = set()
        self._answers = threading.Event()
        self._answers.set()
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Deliver no answer of the server from now on. Requests still reach it."""
        self._answers.clear()

    def interrupt(self) -> None:
        """Cut all connections. The client may connect again."""
        for connection in [*self._connections]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all connections, and accept no more."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.interrupt()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server))
                except ConnectionRefusedError:  # the server has ended
                    client.close()
                    continue
                self._connections |= {client, server}
                _start(self._forward, client, server)
                _start(self._forward, server, client)

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with closing(source), suppress(OSError):
            while content := source.recv(1 << 16):
                if sink.getpeername()[1] != self._server:
                    self._answers.wait()
                sink.sendall(content)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


def _start(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


@contextmanager
def relay(server: int) -> Iterator[Relay]:
    """Run a relay until the end of the block."""
    made = Relay(server)
    try:
        yield made
    finally:
        made.cut()
