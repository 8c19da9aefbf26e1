"""The whole flow, from GitHub to GitHub: what is pushed there becomes a warm box, what is done in it a pull request."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator

import pytest
from tests.behaviour.github.whole import Whole, whole
from tests.conformance.nix.flakes import HELLO, flake
from tests.github.standin import StandIn

from keel.testing import eventually

SELDOM = {"Rift__GitHub__PollEvery": "PT30S", "Rift__GitHub__CoverEvery": "PT30S"}
"""Rift looks at GitHub by itself twice a minute, so that what it knows sooner came by a webhook."""
AT_ONCE = 20.0
"""Well before Rift looks by itself: a webhook was heard."""
FLAKE = flake(f'{{ packages = [ {HELLO} ]; env.GREETING = "good day"; setup = "echo set up > /home/dev/setup"; }}')
WORK = """
set -e
git switch -q -c work
printf 'better\\n' >> README.md
git commit -q -a -m 'Make it better'
git push -q origin work
"""


@pytest.fixture(scope="module")
def connected() -> Iterator[Whole]:
    """Ada has logged in, connected GitHub's `acme` to her team, and turned Rift on for it."""
    with StandIn() as github, whole(github, SELDOM) as made:
        asyncio.run(made.connect_all())
        yield made


async def test_what_is_pushed_from_a_box_becomes_a_pull_request_that_it_can_ask_about(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/app", {"README.md": "# app\n"})
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    box = await rift.take(repo)
    assert (await rift.works(box, "git rev-parse HEAD")).strip() == github.head(repo)

    await rift.works(box, WORK)
    assert github.read(repo, "README.md", "work") == b"# app\nbetter\n"
    author = await rift.works(box, "git log -1 --format='%an <%ae>'")
    assert author.strip() == f"ada <{rift.ada.id}+ada@users.noreply.127.0.0.1>"
    pushed = github.hooks.last("push").body
    assert (pushed["ref"], pushed["pusher"]["name"]) == ("refs/heads/work", "ada")

    said = await rift.works(box, "pr-open --title 'Make it better' --body 'It was good.'")
    assert f"{github.url}/acme/app/pull/1" in said
    pull = repo.issues[1]
    assert (pull.title, pull.body, pull.author.login) == ("Make it better", "It was good.", "ada")
    assert pull.pull is not None
    assert (pull.pull.head, pull.pull.base) == ("work", "main")

    github.review(repo, pull, rift.ada, "COMMENTED", "Why not best?", [("README.md", 2, "This line.")])
    github.set_check(repo, github.branches(repo)["work"], "build", "failure", summary="It broke.", log="line 41\nno\n")
    status = await rift.works(box, "pr-status")
    assert "Why not best?" in status
    assert "README.md" in status
    checks = await rift.run(box, "ci-status")
    assert "build" in checks[1]
    assert "no" in checks[1]
    await rift.works(box, "pr-comment 1 --body 'It is the best there is.'")
    assert [(one.author.login, one.body) for one in pull.comments] == [("ada", "It is the best there is.")]
    assert "It is the best there is." in await rift.works(box, "issue-read 1")


@pytest.mark.needs("git-lfs")
async def test_a_new_lfs_file_is_pushed_from_a_box_as_anywhere(connected: Whole) -> None:
    """A box of a repository that has LFS: without a word about it, `git push` brings the content too."""
    rift, github = connected, connected.github
    rules = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    repo = github.make_repo("acme/large", {".gitattributes": rules, "README.md": "# large\n"})
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    box = await rift.take(repo)
    content = await rift.works(
        box, "head -c 3000000 /dev/urandom > new.bin; git add -A; git lfs ls-files -l; sha256sum new.bin; " + WORK
    )
    oid = re.search(r"^([0-9a-f]{64})  new.bin$", content, re.MULTILINE)
    assert oid, content
    stored = github.read(repo, "new.bin", "work")
    assert stored == b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize 3000000\n" % oid[1].encode()
    kept = github.world.folder / "lfs" / str(repo.id) / oid[1]
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == oid[1]
    await rift.works(box, "git lfs fsck; test \"$(git status --porcelain)\" = ''")


async def test_a_push_from_outside_is_a_warm_box_of_the_new_head_without_waiting_for_a_look(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/pushed")
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    head = github.push_from_outside(repo, "main", {"new.txt": "new\n"}, by=rift.ada)
    github.hooks.settle()
    assert github.hooks.last("push").status in (200, 202, 204)
    await rift.until_warm(repo, head, within=AT_ONCE)
    box = await rift.take(repo)
    assert await rift.works(box, "cat new.txt") == "new\n"


@pytest.mark.needs("nix")
async def test_the_environment_of_a_new_head_is_built_before_its_boxes_and_is_in_them(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/built")
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    head = github.push_from_outside(repo, "main", {"flake.nix": FLAKE}, by=rift.ada)
    await rift.until_warm(repo, head)
    box = await rift.take(repo)
    assert await rift.works(box, "hello; echo $GREETING; cat /home/dev/setup") == "hello\ngood day\nset up\n"
    broken = github.push_from_outside(repo, "main", {"flake.nix": FLAKE.replace("made it", "no; exit 3")}, by=rift.ada)
    failed = await rift.until(lambda found: any(one["failure"] for one in found[repo.full]["watched"]))
    (watched,) = failed[repo.full]["watched"]
    assert watched["head"] == broken
    assert "no" in watched["failure"]


async def test_a_webhook_that_is_lost_is_made_up_for_by_a_look(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/lost")
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    github.hooks.drop()
    try:
        head = github.push_from_outside(repo, by=rift.ada)
        await rift.until_warm(repo, head)
    finally:
        github.hooks.keep()


async def test_webhooks_that_come_late_again_and_backwards_change_nothing(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/late")
    await rift.watch(repo)
    github.hooks.hold()
    heads = [github.push_from_outside(repo, by=rift.ada) for _ in range(3)]
    github.hooks.release(lambda held: [*held[::-1], *held])
    github.hooks.settle()
    await rift.until_warm(repo, heads[-1], within=AT_ONCE + 30)
    assert {one.status for one in github.hooks.all[-3:]} <= {200, 202, 204}


async def test_a_suspended_account_gives_no_boxes_until_it_goes_on(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/paused")
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    assert rift.installation is not None
    task = re.search(r"^handle: (\S+)$", (await rift.call("rift_task_new", name="while paused"))[0], re.MULTILINE)
    assert task
    github.suspend(rift.installation)
    try:
        await rift.until(lambda found: found[repo.full]["open"] is False, within=AT_ONCE)
        said = await rift.refused("rift_vm_new", task=task[1], repo=repo.full, ref="main")
        assert "suspended" in said
    finally:
        github.unsuspend(rift.installation)
    await rift.until(lambda found: found[repo.full]["open"] is True, within=AT_ONCE)
    head = github.push_from_outside(repo, by=rift.ada)
    await rift.until_warm(repo, head)
    await rift.call("rift_task_close", task=task[1])


async def test_a_repository_that_is_renamed_keeps_its_watch_and_boxes_push_to_it(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/before")
    await rift.watch(repo)
    await rift.until_warm(repo, github.head(repo) or "")
    box = await rift.take(repo)
    github.rename(repo, "after", rift.ada)
    await rift.until(lambda found: "acme/after" in found and "acme/before" not in found)
    await rift.works(box, WORK)
    assert github.head(repo, "work")
    head = github.push_from_outside(repo, by=rift.ada)
    await rift.until_warm(repo, head)


async def test_a_protected_branch_refuses_the_push_of_a_box_in_githubs_words(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/guarded")
    await rift.watch(repo)
    box = await rift.take(repo)
    github.protect(repo, "work")
    code, said = await rift.run(box, WORK)
    assert code != 0
    assert "GH006: Protected branch update failed for refs/heads/work." in said
    code, said = await rift.run(box, "git push origin HEAD:main")
    assert code != 0
    assert github.branches(repo) == {"main": github.head(repo)}


async def test_who_has_taken_the_authorization_back_pushes_nothing_until_they_log_in_again(connected: Whole) -> None:
    rift, github = connected, connected.github
    repo = github.make_repo("acme/revoked")
    await rift.watch(repo)
    box = await rift.take(repo)
    assert rift.app is not None
    github.revoke(rift.app, rift.ada)
    code, said = await rift.run(box, WORK)
    assert code != 0
    assert "rift_github_login" in said
    await rift.log_in()
    await rift.works(box, "git push -q origin work")
    assert github.head(repo, "work")


async def test_what_the_app_does_not_cover_any_more_is_listed_no_more(connected: Whole) -> None:
    rift, github = connected, connected.github
    assert rift.app is not None
    repo = github.make_repo("acme/covered")
    await rift.until(lambda found: repo.full in found, within=AT_ONCE)
    github.delete(repo)

    async def gone() -> bool:
        return repo.full not in await rift.repos()

    await eventually(gone, within=60, every=0.2)
