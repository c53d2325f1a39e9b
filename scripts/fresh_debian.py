"""Run the commands of docs/deploy.md, and no others, on a fresh Debian; print what they print.

python scripts/fresh_debian.py [--base debian.tar] WAY...      (as root; see WAYS)

Needs Debian's mmdebstrap and, for systemd, systemd-container; for container, buildah, podman and
runc. The fresh Debian lies in out/fresh and is removed at the end. The wheel and the units of this
tree are copied to where the page tells people to copy them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "fresh"
PAGE = ROOT / "docs" / "deploy.md"
BLOCK = re.compile(r"<!-- fresh: ([\w ]+) -->\n```sh\n(.*?)```", re.DOTALL)
"""Commands of the page, and the ways that they belong to."""
WHEELS = Path("/opt")
"""Where the page tells people to copy the wheel."""
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""All that Debian trusts; its ca-certificates adds those of this machine, which are copied."""
MACHINE = (
    *(
        "/etc/resolv.conf",
        "/etc/apt/sources.list",
        "/etc/apt/sources.list.d",
        "/etc/apt/apt.conf.d",
    ),
    *("/etc/pip.conf", "/usr/local/share/ca-certificates"),
)
"""How this machine reaches its package registries; a fresh machine would be told the same."""
PODMAN = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
"""
"""Else it asks for more files and processes than some machines allow."""
UNIT = """\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /fresh.sh
ExecStopPost=/bin/systemctl poweroff --no-block
StandardOutput=file:/fresh.log
StandardError=file:/fresh.log
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
"""


def commands(way: str) -> str:
    """Return the commands of the page for one way, as one script that stops where one fails."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    found = [text for ways, text in blocks if way in ways.split()]
    if not found:
        raise SystemExit(f"{way}: docs/deploy.md has no commands for it")
    told = "DEBIAN_FRONTEND=noninteractive"
    # Debian's pip prefers the variable of requests, which this machine may have set, to its own.
    told += f" PIP_CERT={AUTHORITIES} REQUESTS_CA_BUNDLE={AUTHORITIES}"
    return f"set -ex\nexport {told}\n" + "".join(found)


def fresh(base: Path, way: str) -> Path:
    """Unpack a fresh Debian that reaches the same registries as this machine."""
    folder = OUT / way
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run("tar", "-C", str(folder), "-xf", str(base))
    tell(folder)
    return folder


def bring(folder: Path) -> None:
    """Copy the wheel and the units of this tree, which people copy from where the source is."""
    for file in (*(ROOT / "dist").glob("easeml_meter-*.whl"), *(ROOT / "deploy/systemd").iterdir()):
        shutil.copy(file, folder / WHEELS.relative_to("/"))


def tell(folder: Path) -> None:
    """Copy how this machine reaches its registries."""
    for name in filter(Path.exists, map(Path, MACHINE)):
        target = folder / name.relative_to("/")
        if name.is_dir():
            shutil.copytree(name, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, target)


# Not by chroot alone: the kernel makes no user namespaces there, and the sandbox needs one.
ENTER = """
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
cd "$0"
mkdir old
pivot_root . old
exec chroot . sh -c 'umount -l /old; exec sh /fresh.sh'
"""


def by_command(base: Path) -> None:
    """Run the commands with a root and processes of their own, which end with them."""
    folder = fresh(base, "command")
    bring(folder)
    (folder / "fresh.sh").write_text(commands("command"))
    words = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER)
    _run(*words, str(folder))


def by_systemd(base: Path) -> None:
    """Boot the Debian with systemd, run the commands as its last unit, and power it off."""
    folder = fresh(base, "systemd")
    bring(folder)
    packages = (
        "apt-get update && apt-get install -y --no-install-recommends systemd systemd-sysv dbus"
    )
    _run("chroot", str(folder), "sh", "-ec", packages)
    (folder / "fresh.sh").write_text(commands("systemd") + "echo all commands ran\n")
    (folder / "etc/systemd/system/fresh.service").write_text(UNIT)
    _run("chroot", str(folder), "systemctl", "enable", "fresh")
    # Its exit code is that of the machine, not of the commands; these end with a line of their own.
    booting = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "-D")
    _run(*booting, str(folder), quiet=True)
    printed = (folder / "fresh.log").read_text(errors="replace")
    sys.stdout.write(printed)
    if not printed.endswith("all commands ran\n"):
        raise SystemExit("systemd: a command failed")


def by_container(base: Path) -> None:
    """Run the commands on this machine, with its Podman; only the base was made before."""
    for kind in ("container", "volume"):  # at the end it is removed
        asked = ["podman", kind, "exists", "meter"]
        if subprocess.run(asked, check=False).returncode == 0:  # noqa: S603  our own words
            raise SystemExit(f"container: podman has a {kind} meter: remove it first, or keep it")
    folder = fresh(base, "container")
    _run("tar", "-C", str(folder), "-cf", str(ROOT / "debian.tar"), ".")
    script = commands("container").replace("mmdebstrap --variant=minbase bookworm debian.tar\n", "")
    (OUT / "containers.conf").write_text(PODMAN)
    here = ("env", f"CONTAINERS_CONF={OUT / 'containers.conf'}")
    try:
        _run(*here, "sh", "-c", script)
    finally:
        (ROOT / "debian.tar").unlink()
        _run(*here, "podman", "rm", "--force", "--volumes", "meter")
        _run(*here, "podman", "volume", "rm", "--force", "meter")


WAYS = {"command": by_command, "systemd": by_systemd, "container": by_container}


def _run(*words: str, quiet: bool = False) -> None:
    print("$", *words[:6], flush=True)
    where = subprocess.DEVNULL if quiet else None
    subprocess.run(  # noqa: S603  our own words, and commands of our own page
        words, check=not quiet, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=where, stderr=where
    )


def main() -> None:
    """Run the ways that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", type=Path, default=ROOT / "out" / "debian.tar")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    given = parser.parse_args()
    if wrong := [way for way in given.ways if way not in WAYS]:
        parser.error(f"{wrong[0]!r} is no way: {', '.join(WAYS)}")
    if not any((ROOT / "dist").glob("*.whl")):
        raise SystemExit("there is no wheel: run make wheel first")
    if not given.base.exists():
        given.base.parent.mkdir(parents=True, exist_ok=True)
        _run("mmdebstrap", "--variant=minbase", "bookworm", str(given.base))
    try:
        for way in given.ways or WAYS:
            print(f"== {way}", flush=True)
            WAYS[way](given.base)
    finally:
        shutil.rmtree(OUT, ignore_errors=True)


if __name__ == "__main__":
    main()
