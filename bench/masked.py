"""100 MiB of output while the box's agent masks secrets in it; beside the same command with none."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import time

from bench.harness import Client, Row, System, percentile

SAMPLE = "sample/hello"
COUNTS = (5, 100)
LENGTHS = (32, 40, 64)
"""How long the secrets are, in turn, as tokens are: many of them are looked for the quicker, the longer all are."""
TURNS = 5


async def masked(system: System) -> list[Row]:
    """The rate of `cat` with 5 and with 100 secrets; all output beside them comes as it was, and no value does."""
    client = system.client()
    task = await client.task("masked")
    box = await client.box(task, SAMPLE)
    await client.bash(task, box, "head -c 104857600 /dev/urandom > /home/dev/blob")
    wanted = (await client.bash(task, box, "sha256sum < /home/dev/blob"))["output"].split()[0]
    plain, same = await _rate(system, client, task, box, wanted)
    rows, names = [], []
    for count in COUNTS:
        while len(names) < count:
            names.append(f"BENCH_{len(names)}")
            value = secrets.token_urlsafe(64)[: LENGTHS[len(names) % len(LENGTHS)]]
            await asyncio.to_thread(system.rift, "secret", "set", SAMPLE, names[-1], given=value)
        shown = await client.bash(task, box, f'echo "${names[-1]}"; printf %s "${names[-1]}" | wc -c')
        hidden = shown["output"].split() == ["***", str(LENGTHS[count % len(LENGTHS)])]
        ours, kept = await _rate(system, client, task, box, wanted)
        ratio, what = ours / plain, f"100 MiB of output, {count} secrets"
        rows += [
            Row(f"{what}, rate", f"{ours:.0f} MiB/s", f"none: {plain:.0f} MiB/s", ratio, "≥ 0.7 ×", ratio >= 0.7),
            Row(f"{what}, bytes", json.dumps({"masked": hidden, "identical": kept and same}), "SHA-256", None,
                "both", hidden and kept and same),
        ]  # fmt: skip
    for name in names:
        await asyncio.to_thread(system.rift, "secret", "rm", SAMPLE, name)
    await client.call("rift_task_close", task=task)
    return rows


async def _rate(system: System, client: Client, task: str, box: str, wanted: str) -> tuple[float, bool]:
    """MiB a second from the call to its answer, and whether what is kept of the output is what was printed."""
    taken, same = [], True
    for _ in range(TURNS):
        os.sync()  # what was written before is not waited for
        began = time.perf_counter()
        answer = await client.bash(task, box, "cat /home/dev/blob")
        taken.append(time.perf_counter() - began)
        same = same and spooled(system, box, answer["command"]) == wanted
    return 100 / percentile(taken, 0.5), same


def spooled(system: System, box: str, command: str) -> str:
    """The SHA-256 of what is kept of a command's output on the host."""
    number, hashed = command.rpartition(".")[2], hashlib.sha256()
    parts = (system.box_folder(box) / "spool").glob(f"{number}.*")
    for part in sorted(parts, key=lambda one: int(one.name.rpartition(".")[2])):
        hashed.update(part.read_bytes())
    return hashed.hexdigest()
