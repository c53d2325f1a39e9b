"""A server that listens on a port of this machine, and wires to it that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from tests.server.helpers import Served, serve

from easeml_meter.client import RemoteMeter, connect
from easeml_meter.server.worker import tasks
from easeml_meter.service.jobs import ThreadRunner


@dataclass
class Live:
    """A served site and where it listens."""

    served: Served
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def meter(self, user: str, meter: str | None = None, address: str = "") -> RemoteMeter:
        """Open a meter as one of the users."""
        return connect(address or self.address, meter, token=self.served.tokens[user])


@contextmanager
def live(folder: Path, *, working: bool = True, **settings: Any) -> Iterator[Live]:
    """Serve a site in threads of this process; unless `working`, what is queued waits."""
    settings = {"requests_per_second": 0, **settings}
    with serve(folder, **settings) as served, socket.create_server(("127.0.0.1", 0)) as bound:
        config = uvicorn.Config(served.app, log_config=None, lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        worker = ThreadRunner(served.site, *tasks(served.app.state.settings))
        thread.start()
        if working:
            worker.start()
            served.app.state.worker = worker
        try:
            yield Live(served, bound.getsockname()[1])
        finally:
            served.app.state.stopping.set()
            server.should_exit = True
            thread.join()
            if working:
                worker.stop()


@dataclass
class Wire:
    """A relay to a port, of which each connection can be cut.

    `cut` is asked, after each piece, with the number of the connection, from 0, and the bytes it
    has carried up and down; what it is asked about has been carried already.
    """

    port: int
    cut: Callable[[int, int, int], bool] = lambda number, up, down: False
    connections: int = 0
    sockets: list[socket.socket] = field(default_factory=list)

    def carry(self, client: socket.socket) -> None:
        number, self.connections = self.connections, self.connections + 1
        server = socket.create_connection(("127.0.0.1", self.port))
        self.sockets += [client, server]
        carried = [0, 0]

        def relay(source: socket.socket, sink: socket.socket, way: int) -> None:
            with contextlib.suppress(OSError):
                while piece := source.recv(1 << 14):
                    carried[way] += len(piece)
                    if way == 1 and self.cut(number, *carried):
                        break
                    sink.sendall(piece)
                    if way == 0 and self.cut(number, *carried):
                        break
            for each in (client, server):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

        down = threading.Thread(target=relay, args=(server, client, 1))
        down.start()
        relay(client, server, 0)
        down.join()
        client.close()
        server.close()


@contextmanager
def wire(port: int) -> Iterator[tuple[Wire, str]]:
    """Put a wire before a port; give it and the address of its other end."""
    found = Wire(port)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        threads: list[threading.Thread] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = bound.accept()
                    threads.append(threading.Thread(target=found.carry, args=(client,)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield found, f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            bound.shutdown(socket.SHUT_RDWR)
            for each in found.sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()
