"""Machines with a network of their own between them, which can be cut."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol


class Stopped(Protocol):
    """What stands still while nothing is to be heard of it, where no network can be cut."""

    def send(self, what: signal.Signals) -> None:
        """Send it a signal."""


class Loopback:
    """All on this machine, where no other network can be made: only the folders are apart."""

    def address(self, role: str) -> str:
        return "127.0.0.1"

    def inside(self, role: str) -> tuple[str, ...]:
        return ()

    def cut(self, role: str, machine: Stopped) -> None:
        """Let nothing be heard of a machine."""
        machine.send(signal.SIGSTOP)

    def mend(self, role: str, machine: Stopped) -> None:
        machine.send(signal.SIGCONT)


class Namespaces(Loopback):
    """A network namespace for each machine, joined by a bridge in one more."""

    def __init__(self, roles: Sequence[str]) -> None:
        self.roles = roles
        self.tag = secrets.token_hex(4)
        self.hub = f"meter-{self.tag}"
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        self.subnet = f"10.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}"
        ip("-n", self.hub, "addr", "add", f"{self.subnet}.1/24", "dev", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        self._reach_from_here()
        for role in roles:
            name = self._name(role)
            ip("netns", "add", name)
            ends = ("type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self.hub, "link", "add", role, *ends)
            ip("-n", self.hub, "link", "set", role, "master", "bridge", "up")
            ip("-n", name, "addr", "add", f"{self.address(role)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def _reach_from_here(self) -> None:
        """Let the tests themselves be one more machine."""
        ends = ("type", "veth", "peer", "name", "tests", "netns", self.hub)
        ip("link", "add", self.hub, *ends)
        ip("-n", self.hub, "link", "set", "tests", "master", "bridge", "up")
        ip("addr", "add", f"{self.subnet}.250/24", "dev", self.hub)
        ip("link", "set", self.hub, "up")

    def _name(self, role: str) -> str:
        return f"{self.hub}-{role}"

    def address(self, role: str) -> str:
        return f"{self.subnet}.{self.roles.index(role) + 2}"

    def inside(self, role: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._name(role))

    def cut(self, role: str, machine: Stopped) -> None:
        ip("-n", self.hub, "link", "set", role, "down")

    def mend(self, role: str, machine: Stopped) -> None:
        ip("-n", self.hub, "link", "set", role, "up")

    def close(self) -> None:
        for name in (*map(self._name, self.roles), self.hub):
            ip("netns", "del", name)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def network(roles: Sequence[str]) -> Iterator[Loopback]:
    """Make a network of machines; the tests can speak to each of them."""
    if os.geteuid() != 0 or not _namespaces_can_be_made():
        yield Loopback()
        return
    made = Namespaces(roles)
    try:
        yield made
    finally:
        made.close()


def _namespaces_can_be_made() -> bool:
    name = f"meter-{secrets.token_hex(4)}"
    try:
        ip("netns", "add", name)
        try:
            ip("-n", name, "link", "add", "x", "type", "bridge")
            ip("-n", name, "link", "add", "y", "type", "veth", "peer", "name", "z")
        finally:
            ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
