"""A server of the suite's own, as in production: behind nginx, on PostgreSQL with a worker."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from redteam.target import Target

USUAL = ("setpriv", "--pdeathsig", "TERM", "prlimit", "--nofile=1024:4096")
"""It ends with the suite, and has as many open files as a service has by default."""
PROXY = "127.0.0.9"
"""The address that the proxy asks from."""
SERVED = ("--port=0", "--disk-bytes-per-meter=300000000", f"--trusted-proxy={PROXY}")
"""Less than a server has by default, so that it can be filled."""
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
CONFIGURED = Path(__file__).parents[1] / "deploy" / "nginx.conf"
MARK = "redteam-mark"
"""What stands in the server's environment, where no submitted program may find it."""
METER = (sys.executable, "-c", "from easeml_meter.cli import main; main()")


@contextlib.contextmanager
def started(folder: Path, postgresql: str = "") -> Iterator[Target]:
    """Run a server in a folder until the block ends, with the limits that it has by default."""
    shared = ["--folder", str(folder / "site"), "--log-level", "warning"]
    shared += ["--database", postgresql] if postgresql else []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_process(folder / "server.log", "serve", *shared, *SERVED))
        assert server.stdout is not None
        token = server.stdout.readline().split()[-1]
        address = server.stdout.readline().split()[-1]
        processes = [server.pid]
        if postgresql:
            worker = stack.enter_context(_process(folder / "worker.log", "worker", *shared))
            assert worker.stdout is not None
            worker.stdout.readline()
            processes.append(worker.pid)
        (folder / "scratch").mkdir()
        front = stack.enter_context(proxied(folder, address))
        yield Target(address, token, tuple(processes), front, folder / "scratch")


@contextlib.contextmanager
def proxied(folder: Path, address: str, **instead: str) -> Iterator[str]:
    """Run nginx before a server, with `deploy/nginx.conf` but for TLS and paths; give its address.

    `instead`: other values of settings.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = CONFIGURED.read_text(encoding="utf-8")
    for old, new in (
        ("/tmp/", f"{folder}/"),  # noqa: S108 - a path in the container
        ("/dev/stdout short", "off"),
        ("listen 8443 ssl;", f"listen 127.0.0.1:{port}; proxy_bind {PROXY};"),
        ("set $api api;", "set $api 127.0.0.1;"),
        ("$api:8080", f"$api:{address.rpartition(':')[2]}"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    text = re.sub(r" *ssl_certificate.*\n", "", text)
    for name, value in instead.items():
        text, count = re.subn(rf"\b{name} [^;]*;", f"{name} {value};", text, count=1)
        assert count, name
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    words = [NGINX, "-e", "stderr", "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as running:  # noqa: S603
        try:
            for _ in range(200):
                with socket.socket() as asked:
                    if asked.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()


@contextlib.contextmanager
def _process(log: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own server
            [*USUAL, *METER, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"METER_MARK": MARK},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
