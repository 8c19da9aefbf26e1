"""Heads that move at GitHub, a stand-in here, until their boxes are warm; and a repository with a long past."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.behaviour.github.whole import TEAM, Whole, whole
from tests.github.model import Repo
from tests.github.standin import StandIn

from bench.floors import jail_words, owner, run_as
from bench.harness import ALONE, Client, Row, System, folder, percentile, shown

TURNS, REFS = 5, 20
MIB = 1024 * 1024
GIB_FILES = 64
"""A GiB of history: so many commits, each of which changes one file of 16 MiB."""


async def heads(system: System) -> list[Row]:
    """A push at GitHub told by a webhook, until a box of the new head is warm; beside git and bwrap by themselves."""
    with StandIn() as github, whole(github, ALONE | {"Rift__Boxes__PerPerson": "1000"}) as rift:
        await rift.connect_all()
        client = Client(rift.rift.port, rift.rift.token)
        return [*await _moves(rift, client), *await _big(rift, client)]


async def _moves(rift: Whole, client: Client) -> list[Row]:
    github = rift.github
    repo = github.make_repo("acme/app", {f"file{number}": "x\n" * 1000 for number in range(100)})
    await rift.watch(repo)
    await _warm(client, repo, {"main": github.head(repo) or ""})
    box = await rift.take(repo)
    ours, floor = [], []
    with folder() as place, folder() as scratch:
        place.chmod(0o755)
        mirror = _mirror(rift, repo, place)
        jail = [*jail_words(rift.rift.data / "boxes" / box, scratch), "true"]
        user = owner(rift.rift.data / "boxes" / box)

        def alone(name: str) -> None:
            subprocess.run(["git", "-C", str(mirror), "fetch", "-q", "origin"], check=True)
            subprocess.run(["git", "clone", "-q", "--shared", str(mirror), str(place / name)], check=True)
            run_as(jail, user)

        for turn in range(TURNS + 1):  # the first does not count
            taken = await _until_warm(rift, client, repo, ["main"])
            began = time.perf_counter()
            alone(f"turn{turn}")
            if turn:
                ours.append(taken)
                floor.append(time.perf_counter() - began)
        branches = [f"branch-{number:02}" for number in range(REFS)]
        for branch in branches:
            github.push_from_outside(repo, branch, onto=github.head(repo))
            await rift.watch(repo, branch)
        await _warm(client, repo, github.branches(repo))
        many = await _until_warm(rift, client, repo, branches)
        began = time.perf_counter()
        for branch in branches:
            alone(branch)
        many_alone = time.perf_counter() - began
    for branch in branches:
        await client.call("rift_unwatch", repo=repo.full, ref=branch)
    await rift.close()
    ratio, together = percentile(ours, 0.5) / percentile(floor, 0.5), many / many_alone
    said = f"{many:.1f} s until the last ({many / REFS * 1000:.0f} ms each)"
    beside = f"git fetch + clone + bwrap: {shown(floor)}"
    return [
        Row("head moved to warm box", shown(ours), beside, ratio, "told", None),
        Row(f"{REFS} watched refs moving at once", said, f"{REFS} × that, one by one: {many_alone:.1f} s", together,
            "told", None),
    ]  # fmt: skip


async def _until_warm(rift: Whole, client: Client, repo: Repo, branches: list[str]) -> float:
    """Move these branches, tell of all at once, and wait for warm boxes at the new heads: seconds since the telling."""
    github = rift.github
    github.hooks.hold()
    moved = {branch: github.push_from_outside(repo, branch) for branch in branches}
    began = time.perf_counter()
    github.hooks.release()
    await _warm(client, repo, moved)
    return time.perf_counter() - began


async def _warm(client: Client, repo: Repo, wanted: dict[str, str], within: float = 300) -> None:
    """Wait until each of these branches has a warm box at this commit."""

    def so(watched: dict[str, Any]) -> bool:
        return all(watched.get(ref, {}).get("head") == head and watched[ref]["ready"] for ref, head in wanted.items())

    await _until(client, repo, so, within)


async def _until(client: Client, repo: Repo, so: Callable[[dict[str, Any]], bool], within: float) -> None:
    until = time.perf_counter() + within
    while time.perf_counter() < until:
        listed = (await client.call("rift_repos", org=TEAM))["structuredContent"]["repositories"]
        watched = {one["ref"]: one for each in listed if each["repository"] == repo.full for one in each["watched"]}
        if so(watched):
            return
        await asyncio.sleep(0.02)
    raise RuntimeError(f"{repo.full} did not come to it within {within:.0f} s: {watched}")


def _mirror(rift: Whole, repo: Repo, place: Path) -> Path:
    """A bare mirror as Rift has one, of the same repository over the same HTTP."""
    assert rift.installation is not None
    token = rift.github.installation_token(rift.installation).value
    url = f"{rift.github.url.replace('://', f'://x-access-token:{token}@')}/{repo.full}.git"
    mirror = place / "mirror.git"
    subprocess.run(["git", "clone", "-q", "--mirror", url, str(mirror)], check=True)
    return mirror


async def _big(rift: Whole, client: Client) -> list[Row]:
    """A claim on a repository whose history is a GiB: a warm box, then a cold one; beside a clone that borrows."""
    github = rift.github
    repo = github.make_repo("acme/big", {"big.bin": os.urandom(16 * MIB)})
    for _ in range(GIB_FILES - 1):
        github.push_from_outside(repo, files={"big.bin": os.urandom(16 * MIB)})
    # As GitHub has it: packed before anybody asks. Looking for likenesses in random bytes would take minutes.
    subprocess.run(["git", "-C", str(repo.folder), "repack", "-adq", "--window=0"], check=True)
    await rift.until(lambda found: repo.full in found)
    began = time.perf_counter()
    while not await _watched(client, repo):
        await asyncio.sleep(0.5)  # it is being read for the first time, and the call says to come back
    await _warm(client, repo, {"main": github.head(repo) or ""}, 900)
    first = time.perf_counter() - began
    warm = await _claims(rift, client, repo)
    await client.call("rift_watch", repo=repo.full, ref="main", warm=0)
    await _until(client, repo, lambda watched: not watched["main"]["ready"], 60)
    cold = await _claims(rift, client, repo)
    floor = []
    with folder() as place, folder() as scratch:
        place.chmod(0o755)
        mirror = _mirror(rift, repo, place)
        box = await rift.take(repo)
        home = rift.rift.data / "boxes" / box
        jail = [*jail_words(home, scratch), "true"]
        for turn in range(3):
            began = time.perf_counter()
            subprocess.run(["git", "clone", "-q", "--shared", str(mirror), str(place / f"c{turn}")], check=True)
            run_as(jail, owner(home))
            floor.append(time.perf_counter() - began)
        size = int(
            subprocess.run(["du", "-sm", str(home)], check=True, capture_output=True, text=True).stdout.split()[0]
        )
    await rift.close()
    ratio, claimed = percentile(cold, 0.5) / percentile(floor, 0.5), percentile(warm, 0.5)
    beside, what = f"clone + bwrap: {shown(floor)}", "1 GiB repository,"
    return [
        Row(f"{what} read the first time", f"{first:.1f} s until a warm box", "—", None, "told", None),
        Row(f"{what} claim of a warm box", shown(warm), "—", None, "≤ 20 ms", claimed <= 0.020),
        Row(f"{what} a cold start", shown(cold), beside, ratio, "≤ 2 ×", ratio <= 2),
        Row(f"{what} what a box of it takes", f"{size} MiB", "16 MiB of files", None, "< 100 MiB", size < 100),
    ]


async def _watched(client: Client, repo: Repo) -> bool:
    try:
        await client.call("rift_watch", repo=repo.full, ref="main", warm=1)
    except RuntimeError as refusal:
        if "repository_being_read" not in str(refusal):
            raise
        return False
    return True


async def _claims(rift: Whole, client: Client, repo: Repo) -> list[float]:
    """Five boxes, one after the other: seconds of each until it runs."""
    taken = []
    task = await client.task("bench")
    for _ in range(5):
        await asyncio.sleep(2)  # the pool has its warm box again, where it keeps one
        began = time.perf_counter()
        box = await client.box(task, repo.full)
        taken.append(time.perf_counter() - began)
        await client.call("rift_vm_destroy", task=task, vm=box)
    await client.call("rift_task_close", task=task)
    return taken
