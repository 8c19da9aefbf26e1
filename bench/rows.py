"""The rows. Each measures ours and its floor or peer in the same run, one after the other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from bench.floors import Peer, jail_words, owner, peer, run_as, run_times
from bench.harness import HANDLE, RIFT, Client, Row, System, folder, found, percentile, shown, start, timed
from bench.heads import heads
from bench.layers import layers
from bench.ledger import ledger
from bench.masked import masked, spooled
from bench.parked import parked

SAMPLE = "sample/hello"
MIB = 1024 * 1024


async def command(system: System) -> list[Row]:
    """`rift_bash true`: authenticated, leased, durably recorded, audited; beside starting a bare jail, and a peer."""
    client = system.client()
    task = await client.task("bench")
    box = await client.box(task, SAMPLE)
    with folder() as scratch:
        jail = [*jail_words(system.box_folder(box), scratch), "true"]
        floor = run_times(jail, owner(system.box_folder(box)), 100)
        ours = await timed(200, lambda: client.bash(task, box, "true"))
        floor += run_times(jail, owner(system.box_folder(box)), 100)
    p50 = percentile(ours, 0.5) / percentile(floor, 0.5)
    p95 = percentile(ours, 0.95) / percentile(floor, 0.95)
    beside = f"bwrap true: {shown(floor)}"
    rows = [
        Row("rift_bash true, 1 caller, p50", shown(ours), beside, p50, "≤ 1.0 ×", p50 <= 1.0),
        Row("rift_bash true, 1 caller, p95", shown(ours), beside, p95, "≤ 2 ×", p95 <= 2),
    ]
    boxes = [box, await client.box(task, SAMPLE)]
    eight = await _eight(system, task, boxes)
    async with peer() as port:
        other = Peer(port, "bench")
        await other.session()
        alone = await timed(200, other.run)
        together = await _eight_peer(port)
    for name, mine, theirs in (("1 caller", ours, alone), ("8 callers", eight, together)):
        ratio = percentile(mine, 0.5) / percentile(theirs, 0.5)
        met = ratio < 1 and percentile(mine, 0.95) < percentile(theirs, 0.95)
        rows.append(Row(f"rift_bash true, {name}", shown(mine), f"SWE-ReX: {shown(theirs)}", ratio, "faster", met))
    await client.call("rift_task_close", task=task)
    return rows


async def _eight(system: System, task: str, boxes: list[str]) -> list[float]:
    """Eight callers, four to a box: a box runs four commands at once."""

    async def caller(number: int) -> list[float]:
        client = system.client()
        return await timed(50, lambda: client.bash(task, boxes[number % 2], "true"), 5)

    return [one for many in await asyncio.gather(*(caller(number) for number in range(8))) for one in many]


async def _eight_peer(port: int) -> list[float]:
    """Eight callers of the peer; its one shell session takes one command after the other."""

    lock = asyncio.Lock()

    async def caller() -> list[float]:
        client = Peer(port, "bench")

        async def once() -> None:
            async with lock:  # a second command in a session that runs one is an error there
                await client.run()

        return await timed(50, once, 5)

    return [one for many in await asyncio.gather(*(caller() for _ in range(8))) for one in many]


async def warm_claim(system: System) -> list[Row]:
    """`rift_vm_new` with a warm box there; beside one indexed UPDATE that is durable on the same Postgres."""
    client = system.client()
    await client.call("rift_watch", repo=SAMPLE, ref="main", warm=20)
    await _until_ready(system, 20)
    task = await client.task("bench")
    alone = []
    for _ in range(10):
        await _until_ready(system, 20)
        began = time.perf_counter()
        await client.call("rift_vm_new", task=task, repo=SAMPLE, ref="main")
        alone.append(time.perf_counter() - began)
    await client.call("rift_task_close", task=task)
    await _until_ready(system, 20)
    floor = _updates(system)
    tasks = [await client.task("bench") for _ in range(20)]

    async def claim(handle: str) -> tuple[float, str]:
        other = system.client()
        await other.call("rift_task_ls")
        began = time.perf_counter()
        answer = await other.call("rift_vm_new", task=handle, repo=SAMPLE, ref="main")
        return time.perf_counter() - began, json.dumps(answer)

    claims = await asyncio.gather(*(claim(handle) for handle in tasks))
    together = [taken for taken, _ in claims]
    ids = {text[text.index("b-") : text.index("b-") + 26] for _, text in claims}
    for handle in tasks:
        await client.call("rift_task_close", task=handle)
    await client.call("rift_watch", repo=SAMPLE, ref="main", warm=1)
    one = percentile(alone, 0.5)
    many = percentile(together, 0.95)
    beside = f"UPDATE: {shown(floor)}"
    return [
        Row("warm claim, p50", shown(alone), beside, one / percentile(floor, 0.5), "≤ 20 ms", one <= 0.020),
        Row("20 claims at once, p95", shown(together), beside, None, "≤ 200 ms", many <= 0.200),
        Row("20 claims at once, boxes", f"{len(ids)} different", "20", None, "no box twice", len(ids) == 20),
    ]


async def _until_ready(system: System, count: int) -> None:
    client = system.client()
    for _ in range(1200):
        answer = json.dumps(await client.call("rift_repos", org="personal"))
        if f'"ready": {count}' in answer or f'\\"ready\\": {count}' in answer or f"ready {count}" in answer:
            client.close()
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"the pool did not come to {count} ready boxes in two minutes")


def _updates(system: System) -> list[float]:
    from keel.postgres import EmbeddedPostgres

    taken = []
    with psycopg.connect(EmbeddedPostgres(system.data).url("rift_owner"), autocommit=True) as connection:
        connection.execute("CREATE TABLE bench (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO bench SELECT n, 0 FROM generate_series(1, 1000) n")
        for turn in range(220):
            began = time.perf_counter()
            connection.execute("UPDATE bench SET n = n + 1 WHERE id = %s", (turn,))
            if turn >= 20:
                taken.append(time.perf_counter() - began)
        connection.execute("DROP TABLE bench")
    return taken


async def cold_start(system: System) -> list[Row]:
    """A box of a 100 MiB repository with no warm one there; beside `git clone --shared` and `bwrap true`."""
    client = system.client()
    with folder() as place:
        place.chmod(0o755)
        origin = place / "big"
        _repository(origin)
        system.rift("repo", "add", "bench/big", str(origin))
        await client.call("rift_watch", repo="bench/big", ref="main", warm=0)
        task = await client.task("bench")
        sample = await client.box(task, SAMPLE)
        scratch = place / "scratch"
        scratch.mkdir()
        words = [*jail_words(system.box_folder(sample), scratch), "true"]
        ours, floor = [], []
        for turn in range(6):
            os.sync()  # what was written before is not waited for by either
            began = time.perf_counter()
            subprocess.run(["git", "clone", "-q", "--shared", str(origin), str(place / f"c{turn}")], check=True)
            run_as(words, owner(system.box_folder(sample)))
            floor.append(time.perf_counter() - began)
            os.sync()
            began = time.perf_counter()
            box = await client.box(task, "bench/big")
            ours.append(time.perf_counter() - began)
            await client.call("rift_vm_destroy", task=task, vm=box)
        await client.call("rift_task_close", task=task)
        await client.call("rift_unwatch", repo="bench/big", ref="main")
    ratio = percentile(ours, 0.5) / percentile(floor, 0.5)
    return [Row("cold start, 100 MiB", shown(ours), f"clone + bwrap: {shown(floor)}", ratio, "≤ 2 ×", ratio <= 2)]


def _repository(path: Path) -> None:
    path.mkdir()
    for number in range(100):
        (path / f"file{number}.bin").write_bytes(os.urandom(MIB))
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-qm", "100 MiB"]):
        subprocess.run(["git", *words], cwd=path, check=True)


async def resume(system: System) -> list[Row]:
    """The first command on a parked box against one on a running box; beside SIGCONT to a stopped process."""
    client = system.client()
    task = await client.task("bench")
    box = await client.box(task, SAMPLE)
    running = await timed(50, lambda: client.bash(task, box, "true"), 5)
    parked = []
    for _ in range(30):
        await client.call("rift_vm_suspend", task=task, vm=box)
        began = time.perf_counter()
        await client.bash(task, box, "true")
        parked.append(time.perf_counter() - began)
    await client.call("rift_task_close", task=task)
    more = percentile(parked, 0.5) - percentile(running, 0.5)
    ours = f"{more * 1000:.1f} ms more than on a running box ({shown(parked)})"
    floor = _continued()
    met = more - percentile(floor, 0.5) <= 0.020
    return [Row("resume of a parked box", ours, f"SIGCONT: {shown(floor)}", None, "≤ 20 ms more", met)]


def _continued() -> list[float]:
    """Stop and continue a process that answers: from the signal to its answer."""
    taken = []
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    answers = process.stdout.fileno()
    for _ in range(30):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.stdin.write(b"x")
        process.stdin.flush()
        began = time.perf_counter()
        process.send_signal(signal.SIGCONT)
        os.read(answers, 1)
        taken.append(time.perf_counter() - began)
    process.kill()
    process.wait()
    return taken


async def output(system: System) -> list[Row]:
    """100 MiB of output from one command, kept byte for byte; beside `bwrap … cat` into a file."""
    client = system.client()
    task = await client.task("bench")
    box = await client.box(task, SAMPLE)
    home = system.box_folder(box) / "home"
    await client.bash(task, box, "head -c 104857600 /dev/urandom > /home/dev/blob")
    wanted = (await client.bash(task, box, "sha256sum < /home/dev/blob"))["output"].split()[0]
    agent = int((system.box_folder(box) / "agent.pid").read_text().split()[0])
    rates, floors, peak, same = [], [], 0, True
    with folder() as scratch:
        words = [*jail_words(system.box_folder(box), scratch), "cat", "/home/dev/blob"]
        for _ in range(5):
            os.sync()  # what was written before is not waited for by either
            began = time.perf_counter()
            with (scratch / "out").open("wb") as out:
                run_as(words, owner(system.box_folder(box)), out)
            floors.append(time.perf_counter() - began)
            os.sync()
            began = time.perf_counter()
            answer = await client.bash(task, box, "cat /home/dev/blob")
            rates.append(time.perf_counter() - began)
            peak = max(peak, _memory(agent, "VmHWM"))
            same = same and spooled(system, box, answer["command"]) == wanted
    assert home.exists()
    await client.call("rift_task_close", task=task)
    ratio = percentile(floors, 0.5) / percentile(rates, 0.5)
    ours, beside = f"{100 / percentile(rates, 0.5):.0f} MiB/s", f"bwrap cat: {100 / percentile(floors, 0.5):.0f} MiB/s"
    return [
        Row("100 MiB of output, rate", ours, beside, ratio, "≥ 0.7 ×", ratio >= 0.7),
        Row("100 MiB of output, agent's memory", f"{peak / 1024:.1f} MiB", "—", None, "< 40 MiB", peak < 40 * 1024),
        Row("100 MiB of output, bytes", "identical" if same else "DIFFERENT", "SHA-256", None, "identical", same),
    ]


async def idle(system: System) -> list[Row]:
    """What a box costs that does nothing: agent, bwrap and init."""
    client = system.client()
    task = await client.task("bench")
    box = await client.box(task, SAMPLE)
    await client.bash(task, box, "true")
    agent = int((system.box_folder(box) / "agent.pid").read_text().split()[0])
    family = [agent, *_descendants(agent)]
    await asyncio.sleep(1)
    before = sum(_cpu(pid) for pid in family)
    await asyncio.sleep(10)
    used = sum(_cpu(pid) for pid in family) - before
    resident = sum(_memory(pid, "VmRSS") for pid in family) / 1024
    proportional = sum(_proportional(pid) for pid in family) / 1024
    await client.call("rift_task_close", task=task)
    ours = f"{resident:.1f} MiB resident ({proportional:.1f} MiB with shared pages counted once)"
    return [
        Row("idle box, memory", ours, "—", None, "≤ 20 MiB", resident <= 20, {"processes": len(family)}),
        Row("idle box, CPU in 10 s", f"{used * 1000:.0f} ms", "—", None, "0 %", used <= 0.01),
    ]


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _memory(pid: int, what: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1])
    return 0


def _proportional(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def task_tools(system: System) -> list[Row]:
    """new, ls, attach, release in turn, from eight callers at once, everything included."""
    taken: list[float] = []

    async def once(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        began = time.perf_counter()
        answer = await client.call(tool, **arguments)
        taken.append(time.perf_counter() - began)
        return answer

    async def caller() -> None:
        client = system.client()
        for _ in range(20):
            opened = found(HANDLE, await once(client, "rift_task_new", name="bench"))
            await once(client, "rift_task_ls")
            attached = await once(client, "rift_task_attach", task=opened.partition(".")[0], takeover=True)
            await once(client, "rift_task_release", task=found(HANDLE, attached))

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(8)))
    rate = len(taken) / (time.perf_counter() - began)
    p50 = percentile(taken, 0.5)
    return [
        Row("task tools, 8 callers, rate", f"{rate:.0f} calls/s", "—", None, "≥ 300/s", rate >= 300),
        Row("task tools, 8 callers, p50", shown(taken), "—", None, "≤ 15 ms", p50 <= 0.015),
    ]


async def start_up(system: System) -> list[Row]:
    """`rift up` on data that was set up before: from the command to the first answer."""
    with folder() as place:
        place.chmod(0o711)
        port = system.port + 1
        process, _ = start(place, port)
        process.send_signal(signal.SIGINT)
        process.wait(30)
        _down(place)
        taken = []
        for _ in range(3):
            began = time.perf_counter()
            process, _ = start(place, port)
            taken.append(time.perf_counter() - began)
            process.send_signal(signal.SIGINT)
            process.wait(30)
            _down(place)
    slowest = max(taken)
    return [Row("rift up, set up before", shown(taken), "—", None, "≤ 6 s", slowest <= 6)]


def _down(place: Path) -> None:
    subprocess.run([str(RIFT), "down", "--data", str(place)], check=True, capture_output=True)


ROWS = {
    "command": command,
    "warm": warm_claim,
    "cold": cold_start,
    "resume": resume,
    "output": output,
    "masked": masked,
    "idle": idle,
    "tasks": task_tools,
    "start": start_up,
    "parked": parked,
    "layers": layers,
    "ledger": ledger,
    "heads": heads,
}
