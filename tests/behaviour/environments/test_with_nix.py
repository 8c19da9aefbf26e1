"""Environments that Nix builds, and boxes that have them, seen as an agent sees them: each text as it comes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import PERSONAL, Hands, Said
from tests.conformance.nix.flakes import HELLO, SYSTEM, derivation, flake, whole

from keel.testing import eventually

SETUP = "hello > setup.txt; echo $GREETING >> setup.txt; touch ~/set-up"
GOOD = flake(f'{{ packages = [ ({HELLO}) ]; env.GREETING = "good morning"; setup = "{SETUP}"; }}')


@pytest.fixture(autouse=True)
def _nix(needs: Callable[[str], None]) -> None:
    needs("nix")


def push(hands: Hands, ref: str, text: str) -> str:
    """A commit on a branch whose flake is this text, as somebody pushes it; its name."""
    origin = hands.stack.data / "origin"

    def git(*words: str, given: str = "") -> str:
        who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "-C", origin, *words], input=given, capture_output=True, text=True, check=True, env=who
        )
        return done.stdout.strip()

    blob = git("hash-object", "-w", "--stdin", given=text)
    tree = git("mktree", given=f"100644 blob {blob}\tflake.nix\n")
    commit = git("commit-tree", tree, "-m", "a flake")
    git("update-ref", f"refs/heads/{ref}", commit)
    return commit


async def watched(hands: Hands, ref: str, text: str, warm: int = 0) -> str:
    """A watched branch with this flake."""
    commit = push(hands, ref, text)
    said = await hands.call("rift_watch", repo=program.REPO, ref=ref, warm=warm)
    assert said.refused is None, said.text
    return commit


async def failure(hands: Hands, ref: str) -> str:
    """The last failure at a watched head, as rift_repos tells it."""

    async def told() -> str | None:
        listed = await hands.call("rift_repos", org=PERSONAL)
        (repo,) = [one for one in listed["repositories"] if one["repository"] == program.REPO]
        (watch,) = [one for one in repo["watched"] if one["ref"] == ref]
        if watch["failure"]:
            assert watch["failure"] in listed.text
        found: str | None = watch["failure"]
        return found

    found = await eventually(told, within=90, every=0.3)
    assert found
    return found


async def new(hands: Hands, ref: str) -> Said:
    return await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref=ref)


async def test_a_box_has_what_its_flake_says_and_keeps_it_after_a_newer_head_was_built(hands: Hands) -> None:
    first = await watched(hands, "flake", GOOD)
    box = await hands.take("flake")
    said = await hands.bash("hello; echo $GREETING; cat setup.txt; ls ~/set-up; command -v hello")
    assert said["output"].startswith("hello\ngood morning\nhello\ngood morning\n/home/dev/set-up\n/nix/store/")
    assert (await hands.bash("touch /nix/store/x"))["exit"] == 1
    path = said["output"].splitlines()[-1]
    second = push(hands, "flake", GOOD.replace("echo hello", "echo good evening"))

    async def built() -> bool:
        rows = hands.stack.sql("SELECT commit FROM environments WHERE state = 'ready'")
        return second in [row["commit"] for row in rows]

    await eventually(built, within=60, every=0.3)
    newer = await hands.take("flake")
    assert (await hands.bash("hello", vm=newer))["output"] == "good evening\n"
    store = next((hands.stack.data / "nix").glob("*/store")) / Path(path).relative_to("/nix/store").parts[0]
    assert store.exists()
    assert (await hands.bash("hello", vm=box))["output"] == "hello\n"
    destroyed = await hands.call("rift_vm_destroy", task=hands.task, vm=box)
    assert destroyed.refused is None
    await eventually(lambda: not store.exists(), within=150, every=0.5)
    assert not hands.stack.sql("SELECT FROM environments WHERE commit = %(commit)s", commit=first)
    assert (await hands.bash("hello", vm=newer))["output"] == "good evening\n"
    await hands.call("rift_unwatch", repo=program.REPO, ref="flake")


@pytest.mark.parametrize(
    ("ref", "text", "told"),
    [
        ("unsound", flake("{ packages = [ nothing ]; }"), ["undefined variable 'nothing'"]),
        (
            "unlucky",
            flake(f"{{ packages = [ {derivation('echo no such luck; exit 3')} ]; }}"),
            ["no such luck", "exit code 3"],
        ),
        ("wrong", flake('{ packages = "curl"; }'), ["packages", "list"]),
        (
            "older",
            whole('{ version = 1; image = "debian"; }'),
            [f"write fixed-labs.rift.{SYSTEM} = {{ packages = [ … ]; }}"],
        ),
    ],
)
async def test_a_flake_that_makes_no_environment_is_told_whole_to_whoever_asks(
    hands: Hands, ref: str, text: str, told: list[str]
) -> None:
    await watched(hands, ref, text)
    failed = await failure(hands, ref)
    assert all(part in failed for part in told), failed
    refused = await new(hands, ref)
    assert refused.refused == "head_failed"
    assert failed in refused.text
    assert refused.mend("rift_watch")
    assert not [vm for vm in await hands.vms() if vm["ref"] == ref]
    await hands.call("rift_unwatch", repo=program.REPO, ref=ref)


async def test_a_flake_without_packages_has_its_variables_and_its_setup(hands: Hands) -> None:
    await watched(hands, "plain", flake('{ env.GREETING = "hi"; setup = "echo $GREETING > setup.txt"; }'))
    await hands.take("plain")
    assert (await hands.bash("cat setup.txt; echo $GREETING"))["output"] == "hi\nhi\n"
    await hands.call("rift_unwatch", repo=program.REPO, ref="plain")


async def test_a_flake_of_another_kind_changes_nothing(hands: Hands) -> None:
    await watched(hands, "other", f"{{ outputs = {{ self }}: {{ packages.{SYSTEM} = {{ }}; }}; }}\n")
    await hands.take("other")
    assert (await hands.bash("test -e /nix || echo base"))["output"] == "base\n"
    await hands.call("rift_unwatch", repo=program.REPO, ref="other")


async def test_a_setup_that_fails_is_told_with_all_that_it_printed(hands: Hands) -> None:
    await watched(hands, "badly", flake('{ setup = "echo one; echo two >&2; ls /proc/1/root /root; exit 3"; }'))
    said = await new(hands, "badly")
    if said.refused is None:

        async def over() -> bool:
            return any(vm["ref"] == "badly" and vm["status"] == "failed" for vm in await hands.vms())

        await eventually(over, within=60, every=0.3)
    failed = await failure(hands, "badly")
    assert failed.startswith("the repository's setup failed with exit 3. It printed:\none\ntwo\n")
    assert "Permission denied" in failed
    assert (await new(hands, "badly")).refused == "head_failed"
    await hands.call("rift_unwatch", repo=program.REPO, ref="badly")
