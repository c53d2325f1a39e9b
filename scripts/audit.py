"""Ask PyPI for advisories about all that is pinned: python scripts/audit.py PIP-AUDIT.

A finding fails. Where nobody answers, one line says that nothing was asked; no proof fails by it.
"""

from __future__ import annotations

import json
import subprocess
import sys


def main(program: str) -> int:
    """Print what is known, and return the exit code."""
    asked = subprocess.run(  # noqa: S603 - the program that the Makefile has installed
        [
            *(program, "--disable-pip", "--require-hashes", "-r", "requirements/test.txt"),
            *("--progress-spinner", "off", "--format", "json", "--timeout", "15"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        every = json.loads(asked.stdout)["dependencies"]
    except ValueError:
        every, said = [], (asked.stderr.strip().splitlines() or ["no answer"])[-1]
    known = [each for each in every if "vulns" in each]
    for each in known:
        for found in each["vulns"]:
            print(f"audit: {each['name']} {each['version']}: {found['id']}")
    if not known:
        said = every[0]["skip_reason"] if every else said
        print(f"audit: nothing was asked, as no advisories can be reached here: {said[:150]}")
    elif len(known) < len(every):
        print(f"audit: nothing is known of {len(every) - len(known)} of {len(every)} packages")
    return int(any(each["vulns"] for each in known))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
