from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path

import pyrage
import pytest

from easeml_meter.errors import InvalidInput, VaultError
from easeml_meter.vault.keys import (
    Identity,
    check_wrapped,
    fingerprint_key,
    read_recipient,
    unwrap,
    wrap,
)

SECRET = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"  # noqa: S105
PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
"""The key of age's own test vectors: 32 bytes of 0x42."""


def test_a_key_is_the_one_that_age_knows() -> None:
    assert Identity.parse(f"# a comment\n\n{SECRET}\n").recipient == PUBLIC


def test_a_new_key_is_kept_for_this_account_alone(tmp_path: Path) -> None:
    path = tmp_path / "meter.key"
    identity = Identity.new()
    identity.write(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["meter.key"]
    assert Identity.read(path).recipient == identity.recipient
    assert path.read_text().startswith(f"# public key: {identity.recipient}\nAGE-SECRET-KEY-1")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "meter.key"
    Identity.parse(SECRET).write(path)
    with pytest.raises(InvalidInput, match="already exists"):
        Identity.new().write(path)
    assert Identity.read(path).recipient == PUBLIC
    assert os.listdir(tmp_path) == ["meter.key"]


def test_a_key_written_meanwhile_is_not_overwritten_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "meter.key"
    path.write_text("somebody else's")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(InvalidInput, match="already exists"):
        Identity.new().write(path)
    assert path.read_text() == "somebody else's"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "meter.key"
    Identity.parse(SECRET).write(path)
    path.chmod(mode)
    with pytest.raises(InvalidInput, match="chmod 600") as caught:
        Identity.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", SECRET[:-1].encode(), f"{SECRET}\nx".encode()],
)
def test_what_is_no_key_is_refused_without_being_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meter.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="holds no age secret key") as caught:
        Identity.read(path)
    shown = "".join(traceback.format_exception(caught.value))
    assert "SECRET-KEY-1" not in shown


@pytest.mark.parametrize("path", ["missing.key", ".", "a\0b"])
def test_a_key_that_is_not_there_is_one_line(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidInput, match="key file") as caught:
        Identity.read(tmp_path / path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_secret_does_not_show() -> None:
    identity = Identity.parse(SECRET)
    assert repr(identity) == f"Identity(recipient='{PUBLIC}')"
    assert SECRET not in f"{identity} {identity!r} {vars(identity)!r}"
    with pytest.raises(TypeError):
        pickle.dumps(identity)


def test_public_keys_come_as_text_or_file(tmp_path: Path) -> None:
    path = tmp_path / "meter.pub"
    path.write_text(f"# the meter's\n{PUBLIC}\n")
    assert read_recipient(f" {PUBLIC}\n") == read_recipient(path) == PUBLIC


def test_a_secret_key_is_no_public_one(tmp_path: Path) -> None:
    path = tmp_path / "meter.key"
    Identity.parse(SECRET).write(path)
    with pytest.raises(InvalidInput, match="is a secret key") as caught:
        read_recipient(path)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", [PUBLIC[:-1], "age1", PUBLIC + "q"])
def test_a_wrong_public_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a public key is needed"):
        read_recipient(text)
    with pytest.raises(InvalidInput, match="a public key is needed"):
        wrap(b"", [text])


def test_the_fingerprint_key_is_stable_and_secret() -> None:
    identity = Identity.parse(SECRET)
    key = fingerprint_key(identity)
    assert key == fingerprint_key(Identity.parse(SECRET))
    # What `openssl dgst -sha256 -hmac` says; stored fingerprints hang on it.
    assert key.hex().startswith("9840a7c57e3134edae44c0a7e91d014d")
    assert key != fingerprint_key(Identity.new())


def test_wrapped_bytes_open_whole_or_not_at_all(meter_key: Identity) -> None:
    blob = wrap(b"predictions" * 9999, [meter_key.recipient])
    assert b"predictions" not in blob
    assert unwrap(blob, meter_key) == b"predictions" * 9999
    for wrong in (blob[:-1], blob + b"\0", blob[: len(blob) // 2], b""):
        with pytest.raises(VaultError, match="cannot be opened"):
            unwrap(wrong, meter_key)


def test_each_recipient_can_unwrap_and_nobody_else() -> None:
    keys = [Identity.new() for _ in range(3)]
    blob = wrap(b"data key", [key.recipient for key in keys])
    assert [unwrap(blob, key) for key in keys] == [b"data key"] * 3
    with pytest.raises(VaultError, match="cannot be opened"):
        unwrap(blob, Identity.new())
    with pytest.raises(InvalidInput, match="at least one"):
        wrap(b"data key", [])


def test_a_long_header_is_refused_before_it_is_parsed(meter_key: Identity) -> None:
    """Trying 1,000 recipients took ten seconds, in which the server answered nobody."""
    others = [pyrage.x25519.Identity.generate().to_public() for _ in range(200)]
    own = pyrage.x25519.Recipient.from_str(meter_key.recipient)
    blob = bytes(pyrage.encrypt(b"data key", [own, *others]))  # which this key would open
    with pytest.raises(VaultError, match="cannot be opened"):
        unwrap(blob, meter_key)


def test_what_was_wrapped_for_as_many_as_allowed_opens(meter_key: Identity) -> None:
    recipients = [meter_key.recipient, *(Identity.new().recipient for _ in range(99))]
    assert unwrap(wrap(b"data key", recipients), meter_key) == b"data key"
    with pytest.raises(InvalidInput, match="at most 100"):
        wrap(b"data key", [*recipients, PUBLIC])


def test_a_file_is_checked_without_keeping_what_is_in_it(tmp_path: Path) -> None:
    identity, path = Identity.new(), tmp_path / "wrapped.age"
    whole = wrap(bytes(200_000), [identity.recipient])
    path.write_bytes(whole)
    check_wrapped(path, identity)
    changed = bytearray(whole)
    changed[150_000] ^= 1
    for bad in (bytes(changed), whole[:-1], whole + b"x", whole[:100_000], b""):
        path.write_bytes(bad)
        with pytest.raises(VaultError, match="cannot be opened"):
            check_wrapped(path, identity)
    path.write_bytes(whole)
    with pytest.raises(VaultError):
        check_wrapped(path, Identity.new())
