"""Commands load only what they use."""

from __future__ import annotations

import subprocess
import sys


def test_help_does_not_load_the_client() -> None:
    code = (
        "import sys; from easeml_meter.cli import meter; "
        "meter.main(['status', '--help'], standalone_mode=False); "
        "assert not {'httpx', 'easeml_meter.client', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
