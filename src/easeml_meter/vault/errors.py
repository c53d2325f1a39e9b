"""The one error for everything that cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from easeml_meter.errors import VaultError


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
