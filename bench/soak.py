"""`python -m bench.soak`: ten minutes of many boxes at work while the server is stopped and killed each minute.

Each box has a worker: an agent that runs commands, reads and writes files, waits for long commands, parks its box and
now and then takes a new one. Every command adds one line of its own to a file in its box, so that afterwards it is
known of each how often it ran. Counted, and to be zero: commands lost, commands run twice, wrong exit codes, wrong
output, wrong files, calls that were refused without a reason to be, and whatever is left when every task is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness import RIFT, Client, found, free_port, machine, start
from bench.left import left_behind, memory

SAMPLE = "sample/hello"
RESULTS = Path(__file__).with_name("results")
BOXES_A_TASK = 10
READ_MARKS = "cat ~/marks 2>/dev/null; true"
"""What ran in a box; nothing, where nothing did."""
AWAY = (OSError, EOFError, asyncio.IncompleteReadError)
"""What a client meets while the server is away."""


@dataclass
class Count:
    """What happened, and what must not."""

    calls: int = 0
    commands: int = 0
    parks: int = 0
    boxes: int = 0
    restarts: int = 0
    unanswered: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)

    def faults(self) -> dict[str, list[str]]:
        """By name, what should be empty."""
        return {name: getattr(self, name) for name in ("lost", "doubled", "wrong", "refused", "leaked")}


@dataclass
class Sent:
    """A command that was sent: what it should give, and what was answered. `status` is None while nobody answered."""

    mark: str
    exit: int
    size: int
    digest: str
    command: str | None = None
    status: str | None = None


class Worker:
    """One agent at one box at a time."""

    def __init__(self, number: int, port: int, token: str, task: str, count: Count) -> None:
        self._client = Client(port, token)
        self._task, self._count = task, count
        self._dice = random.Random(number)  # the same story in every run
        self._name, self._turn = f"w{number}", 0
        self.box = ""
        self._sent: list[Sent] = []
        self.file: str | None = None

    async def work(self, until: float) -> None:
        """Until a moment of the monotonic clock, and then to the end of what has begun."""
        await self._take()
        while time.monotonic() < until:
            act = self._dice.choices(
                (self._short, self._long, self._files, self._park, self._renew), (50, 15, 20, 10, 1)
            )[0]
            await act()
            await asyncio.sleep(self._dice.uniform(0.5, 3.0))
        await self._settle()
        self._client.close()

    async def _call(self, tool: str, **arguments: object) -> dict[str, object] | None:
        """A tool's structure; None when the server went away before it answered: nobody knows what became of it."""
        self._count.calls += 1
        try:
            result = await self._client.call(tool, **arguments)
        except AWAY:
            self._client.close()
            self._count.unanswered += 1
            await asyncio.sleep(0.5)
            return None
        except RuntimeError as error:
            if not re.match(r"\w+: 503 ", str(error)):
                self._count.refused.append(str(error)[:300])
            await asyncio.sleep(0.5)
            return None
        return dict(result.get("structuredContent") or {"text": result["content"][0]["text"]})

    async def _sure(self, tool: str, **arguments: object) -> dict[str, object]:
        """The same for a call that may be repeated: until it is answered."""
        while True:
            answer = await self._call(tool, **arguments)
            if answer is not None:
                return answer

    async def _take(self) -> None:
        before = {str(vm["id"]) for vm in await self._vms()}
        claimed: str | None = None
        while claimed is None:
            answer = await self._call("rift_vm_new", task=self._task, repo=SAMPLE, ref="main")
            claimed = found(r"b-[0-9a-f]{24}", answer) if answer else None
            if answer is None and len(await self._vms()) > len(before) + BOXES_A_TASK:
                raise RuntimeError("claims whose answers were lost took too many boxes")
        self.box, self._sent, self.file = claimed, [], None
        self._count.boxes += 1
        while True:
            status = next((vm["status"] for vm in await self._vms() if vm["id"] == self.box), "gone")
            if status == "running":
                return
            if status not in ("starting", "running"):
                self._count.wrong.append(f"{self.box} is {status}")
                await self._take()
                return
            await asyncio.sleep(0.3)

    async def _vms(self) -> list[dict[str, object]]:
        listed = await self._sure("rift_vm_ls", task=self._task)
        vms = listed["vms"]
        assert isinstance(vms, list)
        return vms

    async def _short(self) -> None:
        await self._run(self._dice.choice((0, 0, 0, 1, 7)), self._dice.choice((0, 10, 1000, 60_000, 300_000)), 0)

    async def _long(self) -> None:
        await self._run(0, self._dice.choice((0, 5000)), self._dice.uniform(2, 15))

    async def _run(self, exit: int, size: int, seconds: float) -> None:
        """One command: its line, then its output, a pause, its exit code; followed to its end."""
        self._turn += 1
        self._count.commands += 1
        mark = f"{self._name}.{self._turn}"
        output = (mark.encode() + b"-") * (size // (len(mark) + 1))
        sent = Sent(mark, exit, len(output), hashlib.sha256(output).hexdigest())
        self._sent.append(sent)
        printing = f"yes '{mark}-' | head -n {size // (len(mark) + 1)} | tr -d '\\n'" if output else "true"
        command = f"echo {mark} >> ~/marks; {printing}; sleep {seconds:.1f}; exit {exit}"
        answer = await self._call("rift_bash", task=self._task, vm=self.box, command=command, timeout=300, block_for=20)
        if answer is not None:
            sent.command = str(answer["command"])
            await self._follow(sent, answer)

    async def _follow(self, sent: Sent, answer: dict[str, object]) -> None:
        got = hashlib.sha256()
        while True:
            got.update(str(answer["output"]).encode())
            status, size, offset = str(answer["status"]), int(str(answer["size"])), int(str(answer["next_offset"]))
            lost = str(answer["reason"] or "").startswith("lost")
            if lost or (status != "has not finished" and offset >= size):
                break
            listed = [{"id": sent.command, "offset": offset}]
            answer = await self._sure("rift_output", task=self._task, commands=listed, block_for=20)
        sent.status = status
        if lost:
            self._count.lost.append(f"{sent.command}: {status} {answer['reason']}")
        elif status == "finished":
            if answer["exit"] != sent.exit:
                self._count.wrong.append(f"{sent.command}: exit {answer['exit']}, not {sent.exit}: {answer['reason']}")
            if size != sent.size or got.hexdigest() != sent.digest:
                self._count.wrong.append(f"{sent.command}: other output, {size} bytes, not {sent.size}")

    async def _files(self) -> None:
        """Write a file and read it back."""
        self._turn += 1
        content = f"{self._name} {self._turn}\n" * self._dice.choice((1, 50, 1000))
        wrote = await self._call("rift_write", task=self._task, vm=self.box, path="/home/dev/note", content=content)
        if wrote is None or wrote["status"] != "finished":
            self.file = None  # nobody knows which of the two it holds
            return
        self.file = content
        read = await self._call("rift_read", task=self._task, vm=self.box, path="/home/dev/note")
        if read is not None and read["status"] == "finished" and read["output"] != content:
            self._count.wrong.append(f"{self.box}: a file that was written reads otherwise")

    async def _park(self) -> None:
        open = next((vm["open_commands"] for vm in await self._vms() if vm["id"] == self.box), [])
        if not open and await self._call("rift_vm_suspend", task=self._task, vm=self.box) is not None:
            self._count.parks += 1

    async def _renew(self) -> None:
        await self._settle()
        await self._sure("rift_vm_destroy", task=self._task, vm=self.box)
        await self._take()

    async def _settle(self) -> None:
        """What the box says of every command that was sent to it."""
        while True:
            mine = next((vm for vm in await self._vms() if vm["id"] == self.box), None)
            if mine is None or not mine["open_commands"]:
                break
            await asyncio.sleep(0.5)
        answer: dict[str, object] | None = None
        while answer is None or answer["status"] != "finished":
            answer = await self._call(
                "rift_bash",
                task=self._task,
                vm=self.box,
                command="cat ~/marks 2>/dev/null; true",
                timeout=60,
                block_for=20,
            )
        ran = Counter(str(answer["output"]).split())
        for sent in self._sent:
            times = ran.pop(sent.mark, 0)
            if times > 1:
                self._count.doubled.append(f"{sent.mark} in {self.box}: {times} times")
            if times == 0 and sent.status == "finished":
                self._count.lost.append(f"{sent.mark} in {self.box}: finished, and never ran")
            if times and sent.status == "did not run":
                self._count.wrong.append(f"{sent.mark} in {self.box}: did not run, and ran")
        self._count.wrong += [f"{self.box}: a stranger's command {mark}" for mark in ran]
        if self.file is not None:
            read = await self._sure("rift_read", task=self._task, vm=self.box, path="/home/dev/note")
            if read["status"] == "finished" and read["output"] != self.file:
                self._count.wrong.append(f"{self.box}: its file is lost or another's")


async def soak(minutes: float, boxes: int, every: float) -> tuple[Count, list[dict[str, float]]]:
    """The story. What was counted, and what the processes' memory was each minute, in MiB."""
    data = Path(tempfile.mkdtemp(prefix="rift-soak-", dir="/var/tmp"))
    data.chmod(0o711)
    port, count, samples = free_port(), Count(), []
    environment = _without_caps(boxes)
    try:
        process, lines = start(data, port, environment)
        token = next(word for line in lines for word in line.split() if re.fullmatch(r"rift_[\w-]{43}", word))
        client = Client(port, token)
        tasks = [await client.task(f"soak {number}") for number in range(-(-boxes // BOXES_A_TASK))]
        client.close()
        until = time.monotonic() + minutes * 60
        workers = [
            asyncio.create_task(Worker(n, port, token, tasks[n // BOXES_A_TASK], count).work(until))
            for n in range(boxes)
        ]
        while time.monotonic() < until:
            await asyncio.sleep(min(every, max(0.0, until - time.monotonic())))
            samples.append(memory(data, process.pid))
            print(f"{count.commands} commands, {count.restarts} restarts: {samples[-1]}", flush=True)
            if time.monotonic() + every / 2 < until:
                process.send_signal(signal.SIGKILL if count.restarts % 2 else signal.SIGTERM)
                await asyncio.to_thread(process.wait, 60)
                count.restarts += 1
                process, _ = await asyncio.to_thread(start, data, port, environment)
        for worker in asyncio.as_completed(workers, timeout=300):
            await worker
        count.leaked += await _put_away(data, port, token, tasks)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        subprocess.run([str(RIFT), "down", "--data", str(data)], check=False, capture_output=True)
        shutil.rmtree(data, ignore_errors=True)
    return count, samples


def _without_caps(boxes: int) -> dict[str, str]:
    """The environment of a server that lets one person have so many boxes."""
    told = subprocess.run([str(RIFT), "settings", "--json"], check=True, capture_output=True, text=True).stdout
    caps = ("Rift:Boxes:PerPerson", "Rift:Boxes:PerOrganization", "Rift:Boxes:Most")
    there = {row["name"] for row in json.loads(told)}
    return {**os.environ, **{name.replace(":", "__"): str(3 * boxes) for name in caps if name in there}}


async def _put_away(data: Path, port: int, token: str, tasks: list[str]) -> list[str]:
    """Close everything; what is left of it after a minute."""
    client = Client(port, token)
    for task in tasks:
        await client.call("rift_task_close", task=task)
    await client.call("rift_unwatch", repo=SAMPLE, ref="main")
    client.close()
    until = time.monotonic() + 60
    while (left := left_behind(data)) and time.monotonic() < until:
        await asyncio.sleep(0.5)
    return left


def told(count: Count, samples: list[dict[str, float]], minutes: float, boxes: int) -> str:
    """The results as a page."""
    story = (
        f"{count.calls} calls, {count.commands} commands, {count.parks} parkings, {count.boxes} boxes claimed; "
        f"{count.unanswered} calls met a server that was away."
    )
    lines = [
        f"# Soak: {minutes:g} minutes, {boxes} boxes, {count.restarts} restarts of the server",
        "",
        story,
        "",
        "| must be zero | count |",
        "|---|---|",
        *(f"| {name} | {len(faults)} |" for name, faults in count.faults().items()),
        "",
        "| memory, MiB (shared pages counted once) | " + " | ".join(str(n + 1) for n in range(len(samples))) + " |",
        "|---|" + "---|" * len(samples),
        *(
            f"| {name} | " + " | ".join(f"{sample[name]:.0f}" for sample in samples) + " |"
            for name in (samples[0] if samples else ())
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it, print and keep what was found; exit code 1 when something is not zero."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--boxes", type=int, default=50)
    parser.add_argument("--every", type=float, default=60, help="seconds from one restart to the next")
    chosen = parser.parse_args()
    count, samples = asyncio.run(soak(chosen.minutes, chosen.boxes, chosen.every))
    page = told(count, samples, chosen.minutes, chosen.boxes)
    print(page)
    for name, faults in count.faults().items():
        for one in faults[:20]:
            print(f"{name}: {one}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "soak.md").write_text(page)
    kept = {"machine": machine(), "faults": {name: len(faults) for name, faults in count.faults().items()}}
    (RESULTS / "soak.json").write_text(json.dumps({**kept, "memory": samples}, indent=2) + "\n")
    raise SystemExit(1 if any(count.faults().values()) else 0)


if __name__ == "__main__":
    main()
