"""Adding, listing, watching and unwatching, on a real database with a forge in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.people.house import act, caller, outcomes, user

from keel.refusal import Ask, Call, Refusal
from keel.testing import eventually
from rift.checklist import actions as checklist
from rift.deps import Deps
from rift.drivers.forge.fake import FakeForge
from rift.origins import actions as origins
from rift.people.model import Caller
from rift.repos import actions
from rift.repos.model import Network, Repo, Unwatched, Watched, WatchedHead

URL = "https://example.org/acme/app.git"
HEAD, NEXT = "a" * 40, "b" * 40


def forge(deps: Deps) -> FakeForge:
    assert isinstance(deps.forge, FakeForge)
    return deps.forge


@pytest.fixture
async def ada(deps: Deps) -> Caller:
    """The first platform admin, on whose token the calls run."""
    await user(deps, "ada@example.org", admin=True)
    forge(deps).repositories[URL] = {"main": HEAD, "dev": HEAD}
    return await caller(deps, "ada@example.org")


async def added(deps: Deps, full: str = "acme/app", url: str = URL, owner: str | None = None) -> Repo:
    repo = await origins.add_repo(deps, owner, full, url)
    assert isinstance(repo, Repo), repo
    return repo


async def fills(deps: Deps) -> list[tuple[str, str]]:
    """The pool jobs that wait: repository and ref."""
    async with deps.db.tx() as tx:
        rows = await tx.rows(
            "SELECT args, lock, queueing_lock FROM procrastinate_jobs WHERE task_name = 'pools.fill' ORDER BY id"
        )
    for row in rows:
        repo, ref = row["args"]["repo"], row["args"]["ref"]
        assert (row["lock"], row["queueing_lock"]) == (f"pool:{repo}:{ref}", f"fill:{repo}:{ref}")
    return [(row["args"]["repo"], row["args"]["ref"]) for row in rows]


async def box(
    deps: Deps, repo: Repo, number: int, *, state: str = "running", commit: str = HEAD, task: str | None = None
) -> None:
    """A box of main, as the boxes' room would write it."""
    async with deps.db.tx() as tx:
        if task:
            await tx.run(
                """
                INSERT INTO tasks (id, owner, name, status, activity_at, created_at)
                SELECT %(id)s, id, 'work', 'open', %(at)s, %(at)s FROM users LIMIT 1
                """,
                {"id": task, "at": deps.clock.now()},
            )
        await tx.run(
            """
            INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at)
            VALUES (%(id)s, %(id)s, %(n)s, %(repo)s, 'main', %(commit)s, %(task)s, %(state)s, %(at)s, %(at)s)
            """,
            {
                "id": f"b-{number}",
                "n": number,
                "repo": repo.id,
                "commit": commit,
                "task": task,
                "state": state,
                "at": deps.clock.now(),
            },
        )


async def _waits_for_a_lock(deps: Deps) -> bool:
    async with deps.db.tx() as tx:
        return bool(await tx.rows("SELECT pid FROM pg_locks WHERE NOT granted"))


async def find(deps: Deps, who: Caller, repo: str, ref: str) -> WatchedHead | Refusal:
    async with deps.db.tx() as tx:
        return await actions.find_watched(tx, deps, who, repo, ref)


async def test_a_repository_is_fetched_and_added_to_the_first_admins_own_organization(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    assert list(forge(deps).mirrors) == [actions.mirror_path(deps, repo.id)]
    listed = await actions.list_org(deps, act(ada), "personal")
    assert not isinstance(listed, Refusal)
    (view,) = listed.repos
    assert (view.repo, view.org, view.shown_url, view.watches) == (repo, "personal", URL, ())
    assert (await outcomes(deps))[-2] == (None, "cli", "rift repo add", "ok")


async def test_a_repository_can_be_added_for_somebody_else(deps: Deps, ada: Caller) -> None:
    await user(deps, "bob@example.org")
    await added(deps, owner="bob@example.org")
    (view,) = await actions.list_repos(deps)
    assert view.org == "bob@example.org"
    listed = await actions.list_org(deps, act(ada), "personal")
    assert not isinstance(listed, Refusal)
    assert listed.repos == ()
    refused = await origins.add_repo(deps, "eve@example.org", "acme/app", URL)
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_user"


@pytest.mark.parametrize(
    ("full", "origin", "code"),
    [
        ("app", URL, "bad_repository_name"),
        ("acme/app", "ext::sh -c true", "bad_repository_origin"),
        ("acme/app", "/no/such/folder", "bad_repository_origin"),
        ("acme/app", "https://u:secret@example.org/none", "cannot_fetch"),
    ],
)
async def test_what_cannot_be_fetched_is_not_added(deps: Deps, ada: Caller, full: str, origin: str, code: str) -> None:
    refused = await origins.add_repo(deps, None, full, origin)
    assert isinstance(refused, Refusal)
    assert refused.code == code
    assert "secret" not in refused.sentence + str(refused.mends)
    assert await actions.list_repos(deps) == []
    assert (await outcomes(deps))[-1] == (None, "cli", "rift repo add", code)
    async with deps.db.tx() as tx:
        assert "secret" not in str(await tx.rows("SELECT arguments FROM ledger"))


async def test_a_path_is_made_absolute(
    deps: Deps, ada: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app").mkdir()
    forge(deps).repositories[str(tmp_path / "app")] = {"main": HEAD}
    monkeypatch.chdir(tmp_path)
    assert (await added(deps, url="app")).url == str(tmp_path / "app")


async def test_of_two_who_add_one_repository_at_once_one_adds_it(deps: Deps, ada: Caller) -> None:
    made = await asyncio.gather(*(origins.add_repo(deps, None, "acme/app", URL) for _ in range(4)))
    assert sum(isinstance(one, Repo) for one in made) == 1
    assert {one.code for one in made if isinstance(one, Refusal)} == {"repository_exists"}
    assert len(await actions.list_repos(deps)) == 1


async def test_a_branch_is_watched_with_one_warm_box_unless_told_otherwise(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    watched = await origins.watch(deps, act(ada, "rift_watch"), "app", "refs/heads/main")
    assert watched == Watched(repo, "main", HEAD, 1, None)
    assert await fills(deps) == [(repo.id, "main")]
    again = await origins.watch(deps, act(ada, "rift_watch"), "acme/app", "main", 3)
    assert again == Watched(repo, "main", HEAD, 3, 1)
    listed = await actions.list_org(deps, act(ada), "personal")
    assert not isinstance(listed, Refusal)
    assert [(one.ref, one.warm, one.head, one.ready) for one in listed.repos[0].watches] == [("main", 3, HEAD, 0)]
    assert (await outcomes(deps))[-2] == (ada.user, "mcp:Claude", "rift_watch", "ok")


async def test_two_watches_at_once_leave_one_watch_and_one_learns_of_the_other(deps: Deps, ada: Caller) -> None:
    await added(deps)
    made = await asyncio.gather(*(origins.watch(deps, act(ada), "acme/app", "main", warm) for warm in (2, 5)))
    assert {one.before for one in made if isinstance(one, Watched)} in ({None, 2}, {None, 5})
    async with deps.db.tx() as tx:
        assert await tx.rows("SELECT count(*) AS n FROM watches") == [{"n": 1}]


async def test_a_branch_pushed_a_moment_ago_can_be_watched(deps: Deps, ada: Caller) -> None:
    await added(deps)
    forge(deps).repositories[URL]["feature/x"] = NEXT
    watched = await origins.watch(deps, act(ada), "acme/app", "feature/x")
    assert isinstance(watched, Watched)
    assert watched.head == NEXT


@pytest.mark.parametrize(
    ("repo", "ref", "warm", "code"),
    [
        ("acme/none", "main", 1, "no_such_repository"),
        ("acme/app", "mian", 1, "no_such_ref"),
        ("acme/a\x00pp\udcff", "main", 1, "no_such_repository"),
        ("acme/app", "ma\x00in\udcff", 1, "no_such_ref"),
        ("acme/app", "main", 101, "warm_out_of_range"),
    ],
)
async def test_what_cannot_be_watched_is_refused(
    deps: Deps, ada: Caller, repo: str, ref: str, warm: int, code: str
) -> None:
    await added(deps)
    refused = await origins.watch(deps, act(ada, "rift_watch"), repo, ref, warm)
    assert isinstance(refused, Refusal)
    assert refused.code == code
    assert await fills(deps) == []
    assert (await outcomes(deps))[-1] == (ada.user, "mcp:Claude", "rift_watch", code)


async def test_somebody_elses_repository_is_refused_like_one_that_is_not_there(deps: Deps, ada: Caller) -> None:
    await added(deps)
    await user(deps, "bob@example.org")
    bob = await caller(deps, "bob@example.org")
    theirs = [await find(deps, bob, "acme/app", "main"), await origins.watch(deps, act(bob), "acme/app", "main")]
    absent = [await find(deps, bob, "acme/nil", "main"), await origins.watch(deps, act(bob), "acme/nil", "main")]
    for one, other in zip(theirs, absent, strict=True):
        assert isinstance(one, Refusal)
        assert isinstance(other, Refusal)
        assert (one.code, one.mends) == (other.code, other.mends)
        assert one.sentence.replace("acme/app", "acme/nil") == other.sentence


async def test_a_member_reads_and_asks_an_admin_for_changes(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    bob_user = await user(deps, "bob@example.org")
    async with deps.db.tx() as tx:
        at = {"at": deps.clock.now(), "bob": bob_user.id, "ada": ada.user, "repo": repo.id}
        await tx.run("INSERT INTO orgs (id, name, created_at) VALUES ('org_t', 'team', %(at)s)", at)
        await tx.run("INSERT INTO members VALUES ('org_t', %(bob)s, 'member'), ('org_t', %(ada)s, 'admin')", at)
        await tx.run("UPDATE repos SET org = 'org_t' WHERE id = %(repo)s", at)
    bob = await caller(deps, "bob@example.org")
    listed = await actions.list_org(deps, act(bob), "team")
    assert not isinstance(listed, Refusal)
    assert len(listed.repos) == 1
    watch = await origins.watch(deps, act(bob), "app", "main")
    assert isinstance(watch, Refusal)
    assert watch.code == "needs_admin"
    assert watch.mends == (Ask("an admin of team", 'rift_watch {"repo": "acme/app", "ref": "main", "warm": 1}'),)
    unwatch = await actions.unwatch(deps, act(bob), "app", "main")
    assert isinstance(unwatch, Refusal)
    assert unwatch.code == "needs_admin"
    asked = await find(deps, bob, "app", "main")
    assert isinstance(asked, Refusal)
    assert asked.mends == (Ask("an admin of team", 'rift_watch {"repo": "acme/app", "ref": "main", "warm": 1}'),)


async def test_a_new_box_starts_from_the_head_of_a_watched_ref(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    unwatched = await find(deps, ada, "acme/app", "main")
    assert isinstance(unwatched, Refusal)
    assert unwatched.mends == (Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 1}),)
    await origins.watch(deps, act(ada), "acme/app", "main")
    assert await find(deps, ada, "app", "main") == WatchedHead(repo, "main", HEAD, 1, "personal")


async def test_ready_boxes_are_the_running_unclaimed_ones_of_the_head(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    await origins.watch(deps, act(ada), "acme/app", "main", 5)
    await box(deps, repo, 1)
    await box(deps, repo, 2)
    await box(deps, repo, 3, state="starting")
    await box(deps, repo, 4, commit=NEXT)
    await box(deps, repo, 5, task="task_1")
    async with deps.db.tx() as tx:
        one = await actions.watch_of(tx, repo.id, "main")
    assert one is not None
    assert one.ready == 2
    gone = await actions.unwatch(deps, act(ada, "rift_unwatch"), "acme/app", "main")
    assert gone == Unwatched(repo, "main", 4)


async def test_an_unwatched_ref_drains_and_gives_no_more_boxes(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    await origins.watch(deps, act(ada), "acme/app", "main")
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")
    gone = await actions.unwatch(deps, act(ada, "rift_unwatch"), "acme/app", "main")
    assert gone == Unwatched(repo, "main", 0)
    assert await fills(deps) == [(repo.id, "main")]
    refused = await find(deps, ada, "acme/app", "main")
    assert isinstance(refused, Refusal)
    assert refused.code == "ref_not_watched"
    again = await actions.unwatch(deps, act(ada, "rift_unwatch"), "acme/app", "main")
    assert isinstance(again, Refusal)
    assert again.code == "ref_not_watched"


@pytest.mark.parametrize("ref", ["dev", "", "ma\x00in", "\udcff"])
async def test_a_ref_that_is_not_watched_gives_no_box_and_cannot_be_unwatched(
    deps: Deps, ada: Caller, ref: str
) -> None:
    await added(deps)
    await origins.watch(deps, act(ada), "acme/app", "main")
    for refused in (await find(deps, ada, "acme/app", ref), await actions.unwatch(deps, act(ada), "acme/app", ref)):
        assert isinstance(refused, Refusal)
        assert refused.code == "ref_not_watched"


async def test_a_ref_stays_watched_until_the_claim_on_it_is_through(deps: Deps, ada: Caller) -> None:
    await added(deps)
    await origins.watch(deps, act(ada), "acme/app", "main")
    found, done = asyncio.Event(), asyncio.Event()

    async def claim() -> None:
        async with deps.db.tx() as tx:
            assert isinstance(await actions.find_watched(tx, deps, ada, "acme/app", "main"), WatchedHead)
            found.set()
            await done.wait()
            assert isinstance(await actions.find_watched(tx, deps, ada, "acme/app", "main"), WatchedHead)

    claiming = asyncio.create_task(claim())
    await found.wait()
    unwatching = asyncio.create_task(actions.unwatch(deps, act(ada), "acme/app", "main"))
    await eventually(lambda: _waits_for_a_lock(deps))
    assert not unwatching.done()
    done.set()
    await claiming
    assert isinstance(await unwatching, Unwatched)


async def test_a_failure_at_the_head_is_told_until_it_is_mended_or_the_head_moves(deps: Deps, ada: Caller) -> None:
    repo = await added(deps)
    await origins.watch(deps, act(ada), "acme/app", "main", 2)
    text = "no space left\n" * 1000
    async with deps.db.tx() as tx:
        await actions.note_failure(tx, deps, repo.id, "main", HEAD, text)
    listed = await actions.list_org(deps, act(ada), "personal")
    assert not isinstance(listed, Refusal)
    assert listed.repos[0].watches[0].failure == text
    assert listed.repos[0].watches[0].failure_at == deps.clock.now()
    refused = await find(deps, ada, "acme/app", "main")
    assert isinstance(refused, Refusal)
    assert refused.mends[0] == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 2})
    await origins.watch(deps, act(ada), "acme/app", "main", 2)
    assert isinstance(await find(deps, ada, "acme/app", "main"), WatchedHead)
    async with deps.db.tx() as tx:
        await actions.note_failure(tx, deps, repo.id, "main", HEAD, text)
        await actions.note_success(tx, repo.id, "main", NEXT)
        assert (one := await actions.watch_of(tx, repo.id, "main")) and one.failure
        await actions.note_success(tx, repo.id, "main", HEAD)
        assert (one := await actions.watch_of(tx, repo.id, "main")) and one.failure is None
        await actions.note_failure(tx, deps, repo.id, "main", HEAD, text)
    forge(deps).repositories[URL]["main"] = NEXT
    await origins.sync_repo(deps, repo.id)
    assert await find(deps, ada, "acme/app", "main") == WatchedHead(repo, "main", NEXT, 2, "personal")


async def test_whoami_leads_from_nothing_to_a_box(deps: Deps, ada: Caller) -> None:
    async def gap() -> object:
        me = await checklist.whoami(deps, act(ada, "rift_whoami"))
        assert me.ready == ()
        (one,) = me.gaps
        return one.mend

    first = await gap()
    assert isinstance(first, Ask)
    assert "rift repo add" in first.page
    await added(deps)
    second = await gap()
    assert second == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 1})
    await origins.watch(deps, act(ada), "acme/app", "main")
    me = await checklist.whoami(deps, act(ada, "rift_whoami"))
    assert me.gaps == ()
    assert [call.tool for call in me.ready] == ["rift_task_new", "rift_vm_new"]
    assert (me.email, me.platform_admin, me.client) == ("ada@example.org", True, "mcp:Claude")
    assert "local forge" in me.github
    (org,) = me.orgs
    assert (org.org.name, org.org.role) == ("personal", "admin")
    assert [(one.email, one.role) for one in org.members] == [("ada@example.org", "admin")]
    assert [view.repo.full for view in org.repos] == ["acme/app"]
    del forge(deps).repositories[URL]["main"]
    await origins.sync_repo(deps, org.repos[0].repo.id)
    assert await gap() == Call("rift_unwatch", {"repo": "acme/app", "ref": "main"})


async def test_what_a_repositorys_boxes_reach_is_changed_and_shown(deps: Deps, ada: Caller) -> None:
    await added(deps)
    opened = await actions.set_network(deps, "acme/app", Network(None, ("api.example.com", "*.example.net"), ()))
    assert isinstance(opened, Repo)
    assert (opened.network, opened.allow) == ("proxy", ["api.example.com", "*.example.net"])
    free = await actions.set_network(deps, "acme/app", Network("open", (), ()))
    assert isinstance(free, Repo)
    assert (free.network, free.allow) == ("open", ["api.example.com", "*.example.net"])
    closed = await actions.set_network(deps, "acme/app", Network("none", (), ("api.example.com",)))
    assert isinstance(closed, Repo)
    assert (closed.network, closed.allow) == ("none", ["*.example.net"])


@pytest.mark.parametrize("host", ["10.0.0.1/8", "https://a.example", "localhost", "a b.example", "*", "-x.example"])
async def test_what_is_no_host_name_is_not_put_on_an_allow_list(deps: Deps, ada: Caller, host: str) -> None:
    await added(deps)
    refused = await actions.set_network(deps, "acme/app", Network(None, ("fine.example", host), ()))
    assert isinstance(refused, Refusal)
    assert refused.code == "repo_host"
    shown = await actions.set_network(deps, "acme/app", Network(None, (), ()))
    assert isinstance(shown, Repo)
    assert shown.allow == []


async def test_the_network_of_an_unknown_repository_is_refused(deps: Deps) -> None:
    refused = await actions.set_network(deps, "acme/none", Network(None, (), ()))
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_added_repository"
