"""A meter at a server, with the verbs of a meter in a folder.

>>> from easeml_meter import connect
>>> meter = connect("https://meter.example.org", "spam")  # doctest: +SKIP
>>> print(meter.submit("test.csv", "validation.csv", model="m1"))  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from easeml_meter.client.meter import RemoteMeter
    from easeml_meter.client.meters import connect, create_meter, list_meters
    from easeml_meter.client.submissions import Untold

__all__ = ["RemoteMeter", "Untold", "connect", "create_meter", "list_meters"]

_HOMES = {"RemoteMeter": "meter", "Untold": "submissions"}


def __getattr__(name: str) -> object:
    """Import on first use: `client.gate` needs neither numpy nor httpx."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'meters')}"), name)
