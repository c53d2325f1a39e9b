"""Units of systemd for a server and for its workers, hardened as far as the sandbox allows."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from easeml_meter.errors import invalid
from easeml_meter.server.settings import Settings, on_disk

ACCOUNT = "meter"
"""The account that the units run as."""
ENVIRONMENT_FILE = Path("/etc/meter.env")
"""Where a machine keeps the variables that are no settings; it need not exist."""
_PATIENCE = 30
"""Seconds after shutdown_seconds before systemd kills what is left."""

_START = """\
[Unit]
Description=easeml-meter: {kind}
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
Type={type}
User={account}
Group={account}
# Variables of S3 (AWS_...). systemd reads it, so it may be root's alone.
EnvironmentFile=-{environment}
"""

_LASTING = """\
# What is wrong with the machine is in the journal, whether or not the server starts.
ExecStartPre=-{program} doctor --settings {settings}
ExecStart={program} {kind} --settings {settings}
Restart=on-failure
RestartSec=2
# Only the program itself is asked to stop: a model that is told to end on hidden rows would be
# answered with "no reading", and charged.
KillMode=mixed
TimeoutStopSec={seconds}
LimitNOFILE=8192
"""

_ONCE = """\
ExecStart={program} {kind} --settings {settings} {words}
Nice=10
IOSchedulingClass=idle
"""

_HARDENED = """\
UMask=0077
ReadWritePaths={writable}

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
"""

_WITHOUT_MODELS = """\
# No model runs here, so no namespaces are needed.
PrivateUsers=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=prlimit64 setpriority
"""

_WITH_MODELS = """\
# Submitted models run here. Their sandbox makes namespaces and mounts its own /proc, which the
# kernel allows only where nothing hides parts of /proc: so ProtectKernelTunables,
# ProtectKernelLogs, ProtectProc, ProcSubset, ProtectHostname and PrivateUsers stay off.
RestrictNamespaces=user mnt pid net ipc uts cgroup
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallFilter=@system-service @mount seccomp sethostname
"""

_INSTALL = """
[Install]
WantedBy=multi-user.target
"""


TIMER = """\
[Unit]
Description=easeml-meter: a backup every night

[Timer]
Unit=meter-backup.service
OnCalendar=daily
RandomizedDelaySec=1h
# After a night when the machine was off.
Persistent=yes

[Install]
WantedBy=timers.target
"""
"""The timer that starts the unit of backups, meter-backup.service."""


class Kind(StrEnum):
    """What a unit runs: the name of its command."""

    SERVER = "serve"
    WORKER = "worker"
    BACKUP = "backup"


def unit(
    kind: Kind, settings: Settings, file: Path | None, words: Sequence[str] = (), to: str = ""
) -> str:
    """Return the unit that runs a command with the settings in a file.

    A backup has more words, and the place that it goes `to`: if that is a folder, it is written.

    Raises:
        InvalidInput: no file was given, or a path is relative: a service has no folder to start in.
    """
    if file is None:
        raise invalid("settings", None, "--print-systemd needs --settings FILE with all settings")
    places = [settings.folder, settings.key_file.parent]
    places += [Path(each) for each in (settings.files_place, to) if each and "://" not in each]
    if settings.database.startswith("sqlite"):  # its journal and the server's lock lie beside it
        places.append(Path(on_disk(settings.database) or "").parent)
    for place in places:
        if not place.is_absolute():
            raise invalid("folder", str(place), "a service needs absolute paths in its settings")
    program = Path(sys.prefix) / "bin" / "meter"
    once = kind is Kind.BACKUP
    models = kind is Kind.WORKER or (not once and settings.database_url.startswith("sqlite"))
    outside = [each for each in sorted({*places}) if not each.is_relative_to(settings.folder)]
    text = "".join(
        (
            _START,
            _ONCE if once else _LASTING,
            _HARDENED,
            _WITH_MODELS if models else _WITHOUT_MODELS,
            # A timer starts it, and nothing else does.
            "" if once else _INSTALL,
        )
    )
    return text.format(
        kind=kind,
        type="oneshot" if once else "exec",
        account=ACCOUNT,
        environment=ENVIRONMENT_FILE,
        program=program,
        settings=file.absolute(),
        words=" ".join(map(_quoted, words)).replace("$", "$$"),
        seconds=settings.shutdown_seconds + _PATIENCE,
        writable=" ".join(_quoted(str(each)) for each in (settings.folder, *outside)),
        # What lies in a home is out of reach with "yes", also what may be written.
        home="read-only" if any(map(_in_home, (program, file.absolute(), *places))) else "yes",
    )


def _in_home(path: Path) -> bool:
    return path.parts[1:2] in (("home",), ("root",))


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back; % would stand for something else."""
    word = word.replace("%", "%%")
    if not re.search(r"[\s\"'\\]", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
