"""Write pinned requirements with the hashes of their files, which pip then insists on.

python scripts/requirements.py VERSIONS OUT     VERSIONS: what pip freeze printed

The hashes are those that the package index lists: of every file that Python 3.11 may install, on
any machine. `make constraints` runs this.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
NOTE = "# The files that the project is tested with. Written by: make constraints\n"
_LINK = re.compile(r'href="[^"#]*/([^/"#]+)#sha256=([0-9a-f]{64})"')
_SOURCE = re.compile(r"\.(?:tar\.gz|tar\.bz2|zip)$")


def main(versions: Path, out: Path) -> None:
    """Write the requirements for these versions."""
    pins = [line.strip() for line in versions.read_text("utf-8").splitlines() if "==" in line]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(_pinned, pins))
    out.parent.mkdir(exist_ok=True)
    out.write_text(NOTE + "".join(found), encoding="utf-8")


def _pinned(pin: str) -> str:
    name, version = pin.split("==")
    page = f"{INDEX}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    with urllib.request.urlopen(page, timeout=60) as answer:  # noqa: S310  the index of pip
        links = _LINK.findall(answer.read().decode())
    hashes = sorted({digest for file, digest in links if _fits(file, version)})
    if not hashes:
        raise SystemExit(f"{pin}: {page} lists no file of that version")
    return " \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in hashes)]) + "\n"


def _fits(file: str, version: str) -> bool:
    """Whether a file is of this version, and for Python 3.11 or for any."""
    if not file.endswith(".whl"):
        return _SOURCE.sub("", file).rpartition("-")[2] == version
    parts = file.removesuffix(".whl").split("-")
    python, abi = parts[-3], parts[-2]
    return parts[1] == version and ("py3" in python or "cp311" in python or abi == "abi3")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
