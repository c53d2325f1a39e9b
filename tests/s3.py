"""A store of objects for tests: moto's, or s3rver, which keeps large objects in files.

moto reads a whole object for each range of it that is asked for. `METER_S3RVER` names the program
of s3rver (`npm install s3rver`), for tests of large ones.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest
from tests.postgresql import free_port

_PATIENT = {"config_kwargs": {"read_timeout": 900}}


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
    program, secret = os.environ.get("METER_S3RVER"), "S3RVER"
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": secret,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        "NO_PROXY": f"127.0.0.1,{host}",
        # A store on a busy machine takes minutes to put the pieces of a large object together.
        "FSSPEC_S3": json.dumps(_PATIENT),
    }
    with (
        tempfile.TemporaryDirectory(prefix="meter-s3-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        words = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
        if program:
            words = [program, "-d", folder, "-a", host, "-p", str(port), "--silent"]
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setitem(fsspec.config.conf, "s3", _PATIENT)
        process = subprocess.Popen(
            # It ends with the tests, however these end.
            ["setpriv", "--pdeathsig", "KILL", *inside, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # fsspec remembers file systems with the address that they were made with.
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        try:
            _wait(address, process)
            yield address
        finally:
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            process.kill()
            process.wait()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(1200):
        assert process.poll() is None
        try:
            opener.open(f"{address}/moto-api/", timeout=5).close()
        except urllib.error.HTTPError:  # another store answers that it has no such bucket
            return
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
