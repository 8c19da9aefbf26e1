"""Plain git in a real box against a plain git origin: no credential in the jail, everything through the door."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands

SETUP = "git config user.email dev@example.org; git config user.name Dev; "


@pytest.fixture
def origin(hands: Hands) -> Iterator[Path]:
    """The repository that boxes come from; branches and tags of a test's own are gone after it."""
    path = hands.stack.data / "origin"
    yield path
    for branch in program.git(path, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines():
        if branch != "main":
            program.git(path, "branch", "-D", branch)
    for tag in program.git(path, "tag").splitlines():
        program.git(path, "tag", "-d", tag)


async def run(hands: Hands, command: str) -> str:
    said = await hands.run(f"{SETUP}{command}", 300)
    output: str = said["output"]
    return output


def rows(hands: Hands) -> list[tuple[str, str]]:
    found = hands.stack.sql(
        "SELECT action, outcome FROM ledger WHERE via = 'box' AND task = %(task)s ORDER BY seq", task=hands.id
    )
    return [(row["action"], row["outcome"]) for row in found]


async def test_git_in_a_box_fetches_and_pushes_plainly(hands: Hands, origin: Path) -> None:
    await hands.take()
    assert "http://127.0.0.1:3127/git/acme/app.git (fetch)" in await run(hands, "git remote -v")
    assert "refs/heads/main" in await run(hands, "git ls-remote origin")
    said = await run(
        hands, "git switch -qc fix; echo one > one; git add .; git commit -qm one; git push -u origin HEAD 2>&1"
    )
    assert "[new branch]      HEAD -> fix" in said
    assert program.git(origin, "log", "-1", "--format=%s %an", "fix") == "one Dev"
    program.git(origin, "branch", "theirs", "main")
    assert "theirs" in await run(hands, "git fetch 2>&1; git branch -r")
    said = await run(
        hands, "git tag v1; git push origin v1 2>&1; git pull --ff-only 2>&1; git push origin :theirs 2>&1"
    )
    assert "[new tag]         v1 -> v1" in said
    assert "Already up to date." in said
    assert "[deleted]         theirs" in said
    assert program.git(origin, "tag") == "v1"
    assert rows(hands) == [
        ("fetch", "ok"), ("push", "begun"), ("push", "ok"), ("fetch", "ok"), ("push", "begun"), ("push", "ok"),
        ("fetch", "ok"), ("push", "begun"), ("push", "ok"),
    ]  # fmt: skip


async def test_a_first_commit_is_the_persons_without_a_word_of_setting_up(hands: Hands, origin: Path) -> None:
    await hands.take()
    said = await hands.run("git switch -qc own-name; git commit -q --allow-empty -m one; git push -q origin HEAD 2>&1")
    assert (said["exit"], said["output"]) == (0, "")
    assert program.git(origin, "log", "-1", "--format=%an <%ae> %cn <%ce>", "own-name") == (
        "ada <ada@example.org> ada <ada@example.org>"
    )


async def test_a_push_that_is_refused_reads_well_in_a_terminal(hands: Hands, origin: Path) -> None:
    await hands.take()
    before = program.git(origin, "rev-parse", "main")
    said = await run(hands, "git commit -q --allow-empty -m x; git push origin HEAD:main HEAD:fix; echo code $?")
    assert "remote: Nothing was pushed: main is the default branch, and boxes of acme/app may not push to it." in said
    assert (
        "! [remote rejected] HEAD -> main (main is the default branch, and boxes of acme/app may not push to it)"
        in said
    )
    assert "! [remote rejected] HEAD -> fix (another ref of this push is refused)" in said
    assert "code 1" in said
    said = await run(hands, "git push origin HEAD:refs/pull/1/head 2>&1")
    assert "boxes push branches and tags, by names that git allows" in said
    assert "Ask an admin" not in said, "nobody can make an exception for it"
    assert program.git(origin, "rev-parse", "main") == before
    assert program.git(origin, "branch", "--list", "fix") == ""
    assert [outcome for _, outcome in rows(hands)] == ["push_refused", "push_refused"]


async def test_what_moved_meanwhile_is_told_and_a_lease_replaces_only_what_was_seen(hands: Hands, origin: Path) -> None:
    await hands.take()
    await run(hands, "git switch -qc own; git commit -q --allow-empty -m one; git push -q origin HEAD")
    tree = program.git(origin, "rev-parse", "main^{tree}")
    other = program.git(origin, "commit-tree", tree, "-p", "main", "-m", "theirs")
    program.git(origin, "update-ref", "refs/heads/own", other)
    said = await run(hands, "git commit -q --amend --allow-empty -m two; git push origin HEAD; echo code $?")
    assert "[rejected]" in said
    assert "code 1" in said
    said = await run(hands, "git push --force-with-lease origin HEAD; echo code $?")
    assert "stale info" in said
    assert "code 1" in said
    assert program.git(origin, "rev-parse", "own") == other
    said = await run(hands, "git fetch -q; git push --force-with-lease origin HEAD; echo code $?")
    assert "(forced update)" in said
    assert program.git(origin, "log", "-1", "--format=%s", "own") == "two"


async def test_the_verbs_are_programs_of_the_box_each_with_help(hands: Hands, origin: Path) -> None:
    await hands.take()
    said = await run(hands, "verbs")
    for verb in ("fetch", "push", "pr-open", "pr-comment", "pr-status", "issue-read", "ci-status"):
        assert re.search(rf"^{verb} +\S", said, re.MULTILINE)
        helped = await run(hands, f"{verb} --help; echo code $?")
        assert f"usage: {verb}" in helped
        assert f"example: {verb}" in helped
        assert "code 0" in helped
    said = await run(hands, "git switch -qc by-verb; git commit -q --allow-empty -m x; push; echo code $?")
    assert "Pushed to by-verb. Next: pr-open --title '…'" in said
    assert "code 0" in said
    said = await run(hands, "push; echo code $?; git switch -q main; push; echo code $?; git switch -q by-verb")
    assert "by-verb at the origin has this commit already: nothing was pushed." in said
    assert "main at the origin has this commit already: nothing was pushed." in said
    assert "Pushed to" not in said
    assert said.count("code 0") == 2
    assert "Fetched." in await run(hands, "fetch")
    said = await run(hands, "push main; echo code $?; verbs push other-name; echo code $?")
    assert "code 1" in said
    assert said.rstrip().endswith("code 0")
    assert program.git(origin, "branch", "--list", "other-name", "--format=%(refname:short)") == "other-name"


async def test_no_credential_is_anywhere_in_the_jail(hands: Hands) -> None:
    await hands.take()
    token = (hands.stack.data / "boxes" / hands.vm / "token").read_text().strip()
    await run(hands, "git ls-remote -q origin")
    said = await run(
        hands,
        f"grep -rsl --exclude-dir=proc --exclude-dir=sys -e '{token[:8]}''{token[8:]}' /home /tmp /etc /run /var; env",
    )
    assert token not in said
    assert "/" not in [line for line in said.splitlines() if "=" not in line]
    assert "Authorization" not in said


async def test_a_push_after_the_task_was_closed_is_none(hands: Hands, origin: Path) -> None:
    await hands.take()
    command = await hands.bash(
        "git commit -q --allow-empty -m late; while :; do git push -q origin HEAD:late-$RANDOM; done", block_for=0
    )
    assert command.refused is None
    task = hands.id
    await hands.close()
    pushed = rows_of(hands, task)
    landed = program.git(origin, "branch", "--list", "late-*").splitlines()
    assert len(landed) <= pushed.count("begun")
    assert set(pushed) <= {"begun", "ok", "verb_task_closed", "broken_off", "verb_origin_failed"}
    await hands.open()


def rows_of(hands: Hands, task: str) -> list[str]:
    found = hands.stack.sql(
        "SELECT outcome FROM ledger WHERE via = 'box' AND action = 'push' AND task = %(task)s", task=task
    )
    return [row["outcome"] for row in found]
