"""Write the files of docs/embedded.md to this folder, as `meter demo` does."""

from __future__ import annotations

from pathlib import Path

from easeml_meter.demo import tutorial

if __name__ == "__main__":
    tutorial.write(Path("tutorial"))
    for path in Path("tutorial").iterdir():
        path.rename(path.name)
    Path("tutorial").rmdir()
