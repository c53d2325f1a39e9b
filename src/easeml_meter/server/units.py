"""Units of systemd for a server and for its workers, hardened as far as the sandbox allows."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

from easeml_meter.errors import invalid
from easeml_meter.server.settings import Settings

ACCOUNT = "meter"
"""The account that the units run as."""
_PATIENCE = 30
"""Seconds after shutdown_seconds before systemd kills what is left."""

_BASE = """\
[Unit]
Description=easeml-meter: {kind}
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
Type=exec
User={account}
Group={account}
# What is wrong with the machine is in the journal, whether or not the server starts.
ExecStartPre=-{program} doctor --settings {settings}
ExecStart={program} {kind} --settings {settings}
Restart=on-failure
RestartSec=2
# Only the program itself is asked to stop: a model that is told to end on hidden rows would be
# answered with "no reading", and charged.
KillMode=mixed
TimeoutStopSec={seconds}
UMask=0077
LimitNOFILE=8192
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
# With PostgreSQL the server runs no models, so it needs no namespaces.
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


class Kind(StrEnum):
    """What a unit runs: the name of its command."""

    SERVER = "serve"
    WORKER = "worker"


def unit(kind: Kind, settings: Settings, file: Path | None) -> str:
    """Return the unit that runs a command with the settings in a file.

    Raises:
        InvalidInput: no file was given, or a path is relative: a service has no folder to start in.
    """
    if file is None:
        raise invalid("settings", None, "--print-systemd needs --settings FILE with all settings")
    places = [settings.folder, settings.key_file.parent]
    if "://" not in settings.files_place:
        places.append(Path(settings.files_place))
    for place in places:
        if not place.is_absolute():
            raise invalid("folder", str(place), "a service needs absolute paths in its settings")
    program = Path(sys.prefix) / "bin" / "meter"
    models = kind is Kind.WORKER or settings.database_url.startswith("sqlite")
    outside = [each for each in sorted({*places}) if not each.is_relative_to(settings.folder)]
    return (
        _BASE.format(
            kind=kind,
            account=ACCOUNT,
            program=program,
            settings=file.absolute(),
            seconds=settings.shutdown_seconds + _PATIENCE,
            writable=" ".join(map(str, (settings.folder, *outside))),
            # A program that was installed in a home must stay readable.
            home="read-only" if program.parts[1] in ("home", "root") else "yes",
        )
        + (_WITH_MODELS if models else _WITHOUT_MODELS)
        + _INSTALL
    )
