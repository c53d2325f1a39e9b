"""Forms with files: what curl sends is read, anything else is refused in one line."""

from __future__ import annotations

import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from easeml_meter.tables.multipart import Field, Malformed, boundary_of, read_form

TYPE = "multipart/form-data; boundary=edge"


def form(*parts: bytes, end: bytes = b"--edge--\r\n") -> bytes:
    return b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + end


def part(name: str, content: bytes = b"x", filename: str | None = None) -> bytes:
    file = "" if filename is None else f'; filename="{filename}"'
    return f'Content-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + content


@pytest.mark.parametrize(
    ("header", "boundary"),
    [
        (TYPE, b"edge"),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b:c"', b"a b:c"),
        ("multipart/form-data;boundary=x;more=1", b"x"),
        (f"multipart/form-data; boundary={'x' * 70}", b"x" * 70),
        ("application/x-tar", None),
        ("", None),
    ],
)
def test_boundaries(header: str, boundary: bytes | None) -> None:
    assert boundary_of(header) == boundary


@pytest.mark.parametrize("header", ["", "; boundary=", '; boundary=""', f"; boundary={'x' * 71}"])
def test_a_form_without_a_boundary_is_refused(header: str) -> None:
    with pytest.raises(Malformed, match="without a boundary"):
        boundary_of(f"multipart/form-data{header}")


def test_fields_and_files_are_read() -> None:
    body = form(
        part("command", b"python p.py"),
        part("test", b"a,b\r\n--edgy\r\n", "C:\\data\\test.csv"),
        part("files", b"", 'in/one "\\"two.bin'.replace('"', '\\"', 1)),
        b"content-type: text/csv\r\ncontent-disposition: form-data; filename=x.csv; name=plain"
        b"\r\n\r\n\r\n",
    )
    assert read_form(body, b"edge", 4) == [
        Field("command", None, b"python p.py"),
        Field("test", "test.csv", b"a,b\r\n--edgy\r\n"),
        Field("files", 'one ""two.bin', b""),
        Field("plain", "x.csv", b"\r\n"),
    ]
    assert read_form(b"--edge--", b"edge", 0) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no form"),
        (b"text before\r\n" + form(part("a")), "no form"),
        (b"--edgeX\r\n" + part("a") + b"\r\n--edge--", "no form"),
        (form(part("a"), end=b""), "ends too early"),
        (form(part("a"), end=b"--edge"), "no form"),
        (form(part("a"), end=b"--edge--\r\nmore"), "something after"),
        (form(b"\r\nx"), "without a name"),
        (b"--edge\r\n--edge--", "without a name"),
        (form(b'Content-Disposition: form-data; name="a"'), "without a name"),
        (form(b'Content-Disposition: attachment; name="a"\r\n\r\nx'), "without a name"),
        (form(part("")), "without a name"),
        (form(b'Content-Disposition: form-data; name="a"; name="b"\r\n\r\nx'), "two names"),
        (form(b"Content-Disposition: form-data; name=a\r\n" + part("b")), "two names"),
        (form(b"X: " + b"x" * 3000 + b"\r\n" + part("a")), "without a name"),
        (form(b"Content-Transfer-Encoding: base64\r\n" + part("a")), "encoded"),
        (form(part("a"), part("b"), part("c"), part("d")), "too many fields"),
    ],
)
def test_other_bodies_are_refused(body: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        read_form(body, b"edge", 3)


def test_what_clients_send_is_read(tmp_path: Path) -> None:
    """curl and httpx send it to a socket; what arrives there is read."""
    file = tmp_path / 'odd "name".csv'
    file.write_bytes(b"a\r\n1\r\n")
    arrived: list[tuple[str, bytes]] = []

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            arrived.append((self.headers["Content-Type"], self.rfile.read(length)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Keep) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        quoted = str(file).replace('"', '\\"')
        subprocess.run(
            ["curl", "-sS", "-F", f'test=@"{quoted}"', "-F", "command=a  b", address], check=True
        )
        httpx.post(
            address,
            files={"test": (file.name, file.read_bytes())},
            data={"command": "a  b"},
            trust_env=False,
        )
        server.shutdown()
    assert len(arrived) == 2
    for header, body in arrived:
        boundary = boundary_of(header)
        assert boundary is not None
        found = {field.name: field for field in read_form(body, boundary, 2)}
        assert found["test"] == Field("test", file.name, file.read_bytes())
        assert found["command"] == Field("command", None, b"a  b")
