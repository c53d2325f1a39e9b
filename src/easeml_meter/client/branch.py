"""The ledger of a gate on a branch of its own, for jobs that start from nothing.

It is fetched before a look, and pushed before the answer is shown. Git refuses the push if another
job came first: then nobody has seen the answer, the look of the other job stands, and this one can
be asked again.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from easeml_meter.errors import MeterError, invalid

_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "meter"), ("EMAIL", "meter@localhost"))
}


class NotPushed(MeterError):
    """The answer was not shown, since the ledger that has it could not be pushed."""

    exit_code, word = 4, "not-pushed"


class Branch:
    """A branch of the remote that the repository of this folder was cloned from.

    Args:
        name: The branch; the first push makes it.
        folder: Some folder of the repository.
        ledger: Where the ledger is while it is in use, in a folder of its own, as a .jsonl file.
            Other ledgers of the branch come beside it; on the branch they stay as they are.

    Raises:
        InvalidInput: this is no name of a branch.
        MeterError: the branch cannot be fetched.
    """

    def __init__(self, name: str, folder: Path, ledger: Path) -> None:
        self.name, self.folder, self.ledger = name, folder, ledger
        self.parent = ""
        if self._git("check-ref-format", "--branch", name, fails=True) is None:
            raise invalid("branch", name[:40], "a name of a branch")
        if ledger.suffix != ".jsonl":
            raise invalid("ledger", ledger.name, "a name that ends in .jsonl")
        self._ref = f"refs/heads/{name}"
        if not self._git("ls-remote", "origin", self._ref):
            return
        self._git("fetch", "--quiet", "--no-tags", "origin", self._ref)
        self.parent = self._git("rev-parse", "FETCH_HEAD") or ""
        for file in (self._git("ls-tree", "--name-only", self.parent) or "").splitlines():
            if file.endswith(".jsonl"):  # other ledgers, too: they may ask the same cases
                text = self._git("cat-file", "blob", f"{self.parent}:{file}") or ""
                ledger.with_name(file).write_bytes(text.encode())

    def push(self, message: str) -> None:
        """Push the ledger; one that has not changed stays as it is.

        Raises:
            NotPushed: it was refused: the ledger of the remote is as before, or another job's.
        """
        if not self.ledger.exists():
            return
        blob = self._git("hash-object", "-w", "--no-filters", str(self.ledger.absolute()))
        kept = (self._git("ls-tree", self.parent) or "").splitlines() if self.parent else []
        entry = f"100644 blob {blob}\t{self.ledger.name}"
        if entry in kept:
            return
        others = [line for line in kept if not line.endswith(f"\t{self.ledger.name}")]
        tree = self._git("mktree", given="\n".join([*others, entry]) + "\n") or ""
        parents = ("-p", self.parent) if self.parent else ()
        commit = self._git("commit-tree", tree, *parents, "-m", message)
        if self._git("push", "--quiet", "origin", f"{commit}:{self._ref}", fails=True) is None:
            raise NotPushed(
                f"the ledger could not be pushed to {self.name}: no answer is shown, and none was "
                "used; ask again, and see that this job may push there"
            )

    def _git(self, *arguments: str, given: str = "", fails: bool = False) -> str | None:
        """Return what Git prints; None if it fails and that is expected."""
        try:
            done = subprocess.run(  # noqa: S603 (a list of arguments, none of which is an option)
                ["git", "-C", str(self.folder), *arguments],  # noqa: S607 (the Git of this job)
                input=given,
                capture_output=True,
                encoding="utf-8",
                check=False,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **_NOBODY},
            )
        except OSError as error:
            raise MeterError(f"git cannot be run: {error.strerror}") from None
        if done.returncode == 0:
            return done.stdout if arguments[0] == "cat-file" else done.stdout.strip()
        if fails:
            return None
        said = " ".join(done.stderr.split())[:200]
        raise MeterError(f"branch {self.name}: git {arguments[0]} failed: {said}")
