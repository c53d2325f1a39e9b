"""Secret and public keys (age, X25519), and small payloads wrapped to them.

The one module that knows pyrage. A secret is never part of a repr, a string or an error.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyrage

from easeml_meter.errors import InvalidInput, VaultError, invalid
from easeml_meter.tables.source import stamp_of
from easeml_meter.tables.writing import new_file, replaced_file


@contextmanager
def opaque(what: str) -> Iterator[None]:
    """Turn whatever fails inside into one `VaultError` about `what`, the cause left out."""
    try:
        yield
    except MemoryError:  # this machine lacks something, and the file need not be damaged
        raise
    except Exception:
        raise VaultError(
            f"{what} cannot be opened: it is damaged, or was sealed for another meter, "
            "generation or key"
        ) from None


_LONGEST_KEY_FILE = 64 * 1024
_LONGEST_HEADER = 16 << 10
_END_OF_HEADER = b"\n--- "
MOST_RECIPIENTS = 100
"""So many recipients fit into a header that `unwrap` reads, with room to spare."""


_FINGERPRINTS = "FINGERPRINTS "
_FORMER = "FORMER "
# No comments: whoever overlooked them would take rows that have answered before for new ones.


@dataclass(frozen=True, eq=False)
class Identity:
    """A secret key. Whoever holds it opens what was sealed to its `recipient`.

    A key that took the place of another one keeps the secret under which rows are fingerprinted:
    the budget belongs to the rows. While things are sealed anew, it opens what the former key does.
    """

    recipient: str
    _key: pyrage.x25519.Identity = field(repr=False)
    _fingerprints: bytes | None = field(default=None, repr=False)
    _former: pyrage.x25519.Identity | None = field(default=None, repr=False)

    @classmethod
    def new(cls) -> Identity:
        """Make a fresh key."""
        return cls._of(pyrage.x25519.Identity.generate())

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Read a key in age's format: one AGE-SECRET-KEY-1 line, `#` comments beside it.

        Lines of its own say what a key has taken over from a former one.
        """
        lines = [line.strip() for line in text.splitlines()]
        given = [line for line in lines if line and not line.startswith("#")]
        kept = {word: _after(given, word) for word in (_FINGERPRINTS, _FORMER)}
        keys = [line for line in given if not line.startswith((_FINGERPRINTS, _FORMER))]
        if len(keys) == 1:
            try:
                former, secret = kept[_FORMER], kept[_FINGERPRINTS]
                key = cls._of(pyrage.x25519.Identity.from_str(keys[0]))
                return replace(
                    key,
                    _fingerprints=bytes.fromhex(secret) if secret else None,
                    _former=pyrage.x25519.Identity.from_str(former) if former else None,
                )
            except (pyrage.IdentityError, ValueError):
                pass
        raise InvalidInput("no age secret key found; make one with `meter key new`")

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read a key file, unless other accounts could read it too."""
        if not path.exists():
            raise InvalidInput(
                f"{path}: there is no key file, and without it nothing opens that was sealed for "
                "it: bring it back from a backup"
            )
        stamp_of(path, "key file")
        with open(path, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidInput(
                    f"key file {str(path)!r} is open to other accounts; run: chmod 600 {path}"
                )
            content = stream.read(_LONGEST_KEY_FILE)
        try:
            return cls.parse(content.decode())
        except (InvalidInput, UnicodeDecodeError):
            raise InvalidInput(
                f"{str(path)!r} holds no age secret key; make one with `meter key new`"
            ) from None

    def write(self, path: Path) -> None:
        """Keep the key in a new file that only this account can read; never overwrites."""
        with new_file(path, private=True) as stream:
            stream.write(self._text())

    def replace(self, path: Path) -> None:
        """Put the key in the place of the one in a file, whole or not at all."""
        with replaced_file(path, private=True) as stream:
            stream.write(self._text())

    def _text(self) -> bytes:
        lines = [f"# public key: {self.recipient}", str(self._key)]
        if self._fingerprints is not None:
            lines.append(f"{_FINGERPRINTS}{self._fingerprints.hex()}")
        if self._former is not None:
            lines.append(f"{_FORMER}{self._former}")
        return "\n".join([*lines, ""]).encode()

    def successor(self) -> Identity:
        """Make the key that takes the place of this one, and opens what this one does."""
        return replace(Identity.new(), _fingerprints=fingerprint_key(self), _former=self._key)

    @property
    def former(self) -> Identity | None:
        """The key whose place it is taking, while things are sealed anew."""
        if self._former is None:
            return None
        former = Identity._of(self._former)
        # It may have taken over the fingerprints itself: without them, rows that have answered
        # would be new to whoever restores a backup with it.
        derived = self._fingerprints in (None, fingerprint_key(former))
        return former if derived else replace(former, _fingerprints=self._fingerprints)

    def alone(self) -> Identity:
        """Return it without the former key."""
        return replace(self, _former=None)

    @property
    def _keys(self) -> list[pyrage.x25519.Identity]:
        return [key for key in (self._key, self._former) if key is not None]

    @classmethod
    def _of(cls, key: pyrage.x25519.Identity) -> Identity:
        return cls(str(key.to_public()), key)


def read_recipient(given: str | Path) -> str:
    """Return a public key given as `age1...` or as a file that holds one."""
    text = str(given).strip()
    if not text.startswith("age1"):
        stamp_of(text, "file of a public key")
        with open(text, "rb") as stream:
            lines = stream.read(_LONGEST_KEY_FILE).decode(errors="replace").splitlines()
        stripped = [line.strip() for line in lines]
        if any(line.startswith("AGE-SECRET-KEY") for line in stripped):
            raise InvalidInput(f"{text!r} is a secret key; hand out only its public key, age1...")
        text = next((line for line in stripped if line and not line.startswith("#")), "")
    return _recipient(text, given)


def _recipient(text: str, given: object) -> str:
    try:
        return str(pyrage.x25519.Recipient.from_str(text))
    except pyrage.RecipientError:
        raise invalid("recipient", str(given), "a public key is needed: age1...") from None


def _after(lines: Sequence[str], word: str) -> str:
    return next((line[len(word) :] for line in lines if line.startswith(word)), "")


def fingerprint_key(identity: Identity) -> bytes:
    """Return the secret under which this key's holder fingerprints rows (32 bytes).

    Labels have so little entropy that an unkeyed digest of them could be guessed; under this
    key a digest says nothing to whoever cannot open the test set anyway. It outlives the key that
    it was derived from, as the fingerprints do.
    """
    return identity._fingerprints or signing_key(identity)


def signing_key(identity: Identity) -> bytes:
    """Derive the secret with which this key's holder signs (32 bytes); no former key knows it."""
    secret = str(identity._key).encode()
    return hmac.new(secret, b"easeml-meter/1 fingerprints", hashlib.sha256).digest()


def wrap(payload: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt `payload` so that each of `recipients` can open it."""
    if not recipients:
        raise invalid("recipients", list(recipients), "at least one public key is needed")
    distinct = list(dict.fromkeys(recipients))
    if len(distinct) > MOST_RECIPIENTS:
        raise invalid("recipients", len(distinct), f"at most {MOST_RECIPIENTS} public keys")
    keys = [pyrage.x25519.Recipient.from_str(_recipient(text, text)) for text in distinct]
    return bytes(pyrage.encrypt(payload, keys))


def unwrap(blob: bytes, identity: Identity, what: str = "the encrypted content") -> bytes:
    """Decrypt what `wrap` made, or raise the one opaque `VaultError`."""
    with opaque(what):
        _check_header(blob[:_LONGEST_HEADER])
        return bytes(pyrage.decrypt(blob, identity._keys))


def check_wrapped(path: Path, identity: Identity, what: str = "the encrypted content") -> None:
    """Raise the one `VaultError` unless every byte of a file opens; little of it is in memory."""
    with opaque(what), path.open("rb") as source, open(os.devnull, "wb") as nowhere:
        _check_header(source.read(_LONGEST_HEADER))
        source.seek(0)
        pyrage.decrypt_io(source, nowhere, identity._keys)


def _check_header(beginning: bytes) -> None:
    # Trying the stanzas of a header takes quadratic time, and holds the interpreter: 95 KB of
    # them stop a server for ten seconds. So a header must end early, or it is not parsed.
    if _END_OF_HEADER not in beginning:
        raise ValueError("the header is too long")
