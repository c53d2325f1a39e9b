"""Write the bill of materials (CycloneDX 1.6, JSON): python scripts/sbom.py FILE.

It lists what is installed of the dependencies of easeml-meter with all its extras, which is what
`make test` runs with, and the vendored JavaScript with its digests.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OWN = "easeml-meter"
VENDORED = {
    "src/easeml_meter/server/web/static/htmx.min.js": ("htmx.org", "4.0.0", "0BSD"),
    "src/easeml_meter/server/web/static/age.js": ("age-encryption", "0.3.1", "BSD-3-Clause"),
    "tests/e2e/axe.min.js": ("axe-core", "4.14.0", "MPL-2.0"),
}
"""Files of others, each with its package at npm, version and license."""


def normalized(name: str) -> str:
    """Return the name of a package as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(found: Distribution) -> set[str]:
    """Return what a distribution asks for, extras included; what is not installed is none of it."""
    words = (re.match(r"[\w.-]+", each) for each in found.requires or ())
    return {normalized(word[0]) for word in words if word}


def installed() -> dict[str, Distribution]:
    """Return the distributions that can be reached from ours."""
    found: dict[str, Distribution] = {}
    waiting = [OWN]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue
        waiting += sorted(needed(found[name]))
    return found


def reference(found: Distribution) -> str:
    """Return the package URL of a distribution."""
    return f"pkg:pypi/{normalized(found.metadata['Name'])}@{found.version}"


def component(found: Distribution) -> dict[str, Any]:
    """Describe a package."""
    kind = "application" if normalized(found.metadata["Name"]) == OWN else "library"
    described = {
        "type": kind,
        "bom-ref": reference(found),
        "name": found.metadata["Name"],
        "version": found.version,
        "purl": reference(found),
    }
    license_of = found.metadata.get("License-Expression")
    return described | ({"licenses": [{"expression": license_of}]} if license_of else {})


def vendored(path: str) -> dict[str, Any]:
    """Describe a file of others."""
    name, version, license_of = VENDORED[path]
    digest = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
    return {
        "type": "file",
        "bom-ref": path,
        "name": path,
        "version": version,
        "licenses": [{"expression": license_of}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "pedigree": {
            "ancestors": [
                {"type": "library", "name": name, "purl": f"pkg:npm/{name}@{version}"},
            ]
        },
    }


def bill() -> dict[str, Any]:
    """Return the bill of materials."""
    found = installed()
    own = found.pop(OWN)
    packages = [found[name] for name in sorted(found)]
    edges = [
        {
            "ref": reference(each),
            "dependsOn": sorted(reference(found[name]) for name in needed(each) & found.keys()),
        }
        for each in (own, *packages)
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": component(own),
        },
        "components": [*map(component, packages), *map(vendored, sorted(VENDORED))],
        "dependencies": edges,
    }


if __name__ == "__main__":
    destination = Path(sys.argv[1])
    destination.parent.mkdir(parents=True, exist_ok=True)
    destination.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")
    print(destination)
