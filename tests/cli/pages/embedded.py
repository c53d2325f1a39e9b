"""Write the files of docs/embedded.md to this folder, as `meter demo` does."""

from __future__ import annotations

from pathlib import Path

from easeml_meter.demo.story import write_tutorial

if __name__ == "__main__":
    write_tutorial(Path("tutorial"))
    for path in Path("tutorial").iterdir():
        path.rename(path.name)
    Path("tutorial").rmdir()
