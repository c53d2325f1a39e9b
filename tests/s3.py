"""A store of objects for tests: moto's, on this machine."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.postgresql import free_port


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    """Run the store; the environment says where it is, as it would in production."""
    with store() as address:
        yield address


@contextmanager
def store(host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Run a store, behind a command that enters another network, if one is given."""
    port = free_port()
    address = f"http://{host}:{port}"
    process = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL"),  # it ends with the tests, however these end
            *(*inside, sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": f"127.0.0.1,{host}",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            _wait(address, process)
            yield address
        finally:
            process.kill()
            process.wait()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(1200):
        assert process.poll() is None
        try:
            opener.open(f"{address}/moto-api/", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return
    raise AssertionError("it did not start")


@pytest.fixture
def s3_url(s3_address: str) -> str:
    """Give the URL of a bucket of one's own."""
    return new_bucket(s3_address)


def new_bucket(s3_address: str) -> str:
    """Make a bucket; give the URL of a folder in it."""
    name = f"test-{secrets.token_hex(8)}"
    request = urllib.request.Request(f"{s3_address}/{name}", method="PUT")  # noqa: S310
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()
    return f"s3://{name}/meter"
