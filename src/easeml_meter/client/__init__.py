"""A meter at a server, with the verbs of a meter in a folder.

>>> from easeml_meter import connect
>>> meter = connect("https://meter.example.org", "spam")  # doctest: +SKIP
>>> print(meter.submit("test.csv", "validation.csv", model="m1"))  # doctest: +SKIP
"""

from __future__ import annotations

from easeml_meter.client.meter import RemoteMeter
from easeml_meter.client.meters import connect, create_meter, list_meters
from easeml_meter.client.submissions import Untold

__all__ = ["RemoteMeter", "Untold", "connect", "create_meter", "list_meters"]
