"""The steps of one build, each a command in a jail: lay the source out, evaluate, build, collect."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keel import sizes
from keel.sizes import KIB
from rift.drivers.boxes.local.groups import Made
from rift.drivers.boxes.local.mounts import Host
from rift.drivers.nix.local import expression, jail, told
from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.local.expression import STORE_PATH, Wanted
from rift.drivers.nix.local.jail import OUT_MOST, Command
from rift.drivers.nix.local.places import Place
from rift.drivers.nix.local.source import Source
from rift.drivers.nix.protocol import BuildError, BuildInterrupted
from rift_agent.__main__ import words

FLAKE = "path:/src"
END_SECONDS = 10.0
COLLECT_SECONDS = 3600.0
COLLECT = """
set -eu
cd /nix/var/nix || exit 0
rm -rf /nix/var/log gcroots profiles temproots
mkdir -p gcroots/rift
number=0
while read -r path; do
  number=$((number + 1))
  ln -s "$path" gcroots/rift/$number
done < /run/roots
exec nix-store --gc --quiet
"""
OVER = {
    "log": "It said more than {log}, and was ended for that",
    "out": "Its answer is larger than {out}",
    "disk": "All that is built for this repository takes more than its limit, {disk} (Rift:Environments:Disk)",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code, what it printed, and why it may have failed, a sentence for each reason."""

    code: int
    out: str
    why: tuple[str, ...]


class Jailed:
    """Runs commands in the jails of one build; what they say goes to `log`, a descriptor of the file `path`."""

    def __init__(self, config: NixConfig, host: Host, place: Place, made: Made, log: int, path: Path | None) -> None:
        self._config = config
        self._host = host
        self._place = place
        self._made = made
        self._log = log
        self._path = path
        self._began = 0
        self._source = ""

    async def lay_out(self, source: Source) -> None:
        """Bring the source into the work folder. Raises BuildError."""
        async with source.command(self._config, self._place.work / "src") as command:
            outcome = await self._run(command)
        if outcome.code:
            raise BuildError(self.failure("The source cannot be laid out", outcome))

    async def evaluate(self, system: str) -> Wanted:
        """What the flake asks for. Raises BuildError."""
        # What Nix does anyway; so it is known what errors call the flake's own folder.
        added = await self._run(self._nix("nix", "store", "add-path", "--name", "source", "/src"))
        if added.code:
            raise BuildError(self.failure("The source cannot be added to the store", added))
        self._source = added.out.strip() if STORE_PATH.fullmatch(added.out.strip()) else ""
        outcome = await self._run(
            self._nix(
                *("nix", "eval", "--json", "--no-write-lock-file", f"{FLAKE}#fixed-labs.rift"),
                *("--apply", expression.question(system)),
            )
        )
        if outcome.code:
            text = self.failure("The flake cannot be evaluated", outcome)
            if "does not provide attribute" in text and "fixed-labs.rift'" in text:
                raise BuildError(
                    "flake.nix speaks of fixed-labs, and its outputs have no fixed-labs.rift. "
                    f"Add fixed-labs.rift.{system} = {{ packages = [ … ]; }}; to them."
                )
            raise BuildError(text)
        return expression.wanted(outcome.out, system)

    async def realise(self, wanted: Wanted) -> tuple[str, ...]:
        """Build or fetch what a flake asks for; all that is to be kept in the store for it. Raises BuildError."""
        roots = dict.fromkeys((*wanted.paths, *wanted.also))
        if wanted.needs:
            outcome = await self._run(self._nix("nix-store", "--realise", *wanted.needs))
            if outcome.code:
                raise BuildError(self.failure("A package cannot be built", outcome))
            roots.update(dict.fromkeys(line for line in outcome.out.splitlines() if STORE_PATH.fullmatch(line)))
        return tuple(roots)

    async def collect(self, roots: tuple[str, ...]) -> None:
        """Remove all from the store that these do not need. Raises BuildError."""
        command = Command(("/bin/sh", "-c", COLLECT), texts={"/run/roots": "".join(f"{path}\n" for path in roots)})
        async with asyncio.timeout(COLLECT_SECONDS):
            outcome = await self._run(command)
        if outcome.code:
            raise BuildError(self.failure("What is not needed any more cannot be collected", outcome))

    def failure(self, sentence: str, outcome: Outcome | None = None) -> str:
        """A failure's whole text: the sentence, what the command said, and what else is known of it."""
        said = ""
        if self._path is not None:
            with self._path.open("rb") as file:
                file.seek(max(self._began, os.fstat(self._log).st_size - 4 * told.REASON_MOST))
                said = told.reason(file.read(), self._source)
        why = "".join(f"\n{sentence}." for sentence in outcome.why) if outcome else ""
        return f"{sentence}{':' if said else '.'}{why}" + (f"\n\n{said}" if said else "")

    def _nix(self, *words: str) -> Command:
        return Command(words, folders={"/src": self._place.work / "src"})

    async def _run(self, command: Command) -> Outcome:
        """Run one command to its end. Cancelled, it is gone with all that it started."""
        self._began = os.fstat(self._log).st_size
        left = max(64 * KIB, self._config.log_most - self._began)
        job = jail.job(self._config, self._host, self._place, self._made, command, self._log, left)
        process = await asyncio.create_subprocess_exec(
            *words(self._host.python, str(self._host.agent), "warden"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=tuple({self._log, *([] if command.feed is None else [command.feed])}),
            cwd="/",
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            answer = await process.stdout.read()
            await process.wait()
        finally:
            process.stdin.close()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()  # the jail dies with it
                await process.wait()
        if not answer and process.returncode and process.returncode < 0:
            raise BuildInterrupted(f"The build was ended by signal {-process.returncode}.")
        return self._outcome(answer)

    def _outcome(self, answer: bytes) -> Outcome:
        try:
            found: dict[str, Any] = json.loads(answer)
        except ValueError:
            raise BuildError("What watches over builds answered nothing of use.") from None
        if "error" in found:
            raise BuildInterrupted(f"The jail of the build cannot be made: {found['error']}.")
        why = []
        if over := found["over"]:
            limits = {
                "log": sizes.told(self._config.log_most),
                "out": sizes.told(OUT_MOST),
                "disk": sizes.told(self._config.disk),
            }
            why.append(OVER[over].format(**limits))
        if found["why"]:
            why.append(f"It ran {found['why']}")
        why += [sentence.rstrip(".") for sentence in found["refused"]]
        return Outcome(found["code"] or (1 if over else 0), found["out"], tuple(why))
