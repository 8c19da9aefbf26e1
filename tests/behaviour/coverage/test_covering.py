"""What the App covers has its rows: listed page by page, renamed, moved, taken off, and never half of a list."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.behaviour.coverage.covering import HEAD, LOGIN, Covering
from tests.behaviour.repos.hub import connected
from tests.unit.people.house import outcomes

from keel.refusal import Refusal
from keel.testing import eventually
from rift.coverage import actions
from rift.coverage.model import Covered
from rift.drivers.github.protocol import RepositoryPage
from rift.origins import actions as origins
from rift.repos import actions as repos
from rift.repos.model import Repo, Watched


async def test_what_the_app_covers_is_there_at_once_and_read_only_once_it_is_watched(acme: Covering) -> None:
    acme.covers("app", "lib")
    assert await acme.cover() == Covered(new=2)
    assert await acme.names() == ["acme-inc/app", "acme-inc/lib"]
    assert acme.forge.mirrors == {}
    watched = await acme.watch("acme-inc/app")
    assert isinstance(watched, Watched), watched
    assert (watched.head, watched.repo.origin) == (HEAD, "https://github.com/acme-inc/app.git")
    assert len(acme.forge.mirrors) == 1
    assert await acme.cover() == Covered()


async def test_three_thousand_repositories_in_thirty_pages_go_on_after_a_rate_limit_in_the_middle(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, clock = acme.hub.github, acme.hub.clock
    for number in range(3000):
        github.cover(acme.there.id, f"service-{number}")
    asked: list[int] = []
    listing = github.repositories

    async def limited(token: str, page: int) -> RepositoryPage:
        asked.append(page)
        if len(asked) == 17:
            github.busy_until = clock.now() + timedelta(minutes=40)
        return await listing(token, page)

    monkeypatch.setattr(github, "repositories", limited)
    first = await acme.cover()
    assert first is not None
    assert first.stands == "waits"
    assert await acme.names() == []
    assert "asked too often" in str((await acme.account())["failure"])
    assert await acme.cover() is None
    await actions.poll(acme.hub.deps)
    assert await acme.jobs() == []
    clock.advance(40 * 60)
    await actions.poll(acme.hub.deps)
    assert [name for name, _ in await acme.jobs()] == ["coverage.cover"]
    assert await acme.cover() == Covered(new=3000)
    assert asked == [*range(1, 18), *range(17, 31)]
    assert (await acme.account())["failure"] is None
    assert await acme.hub.rows("SELECT * FROM github_listed") == []


async def test_a_default_branch_that_is_not_known_any_more_is_not_taken_for_the_one_before(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    acme.becomes(app, default_branch=None)
    assert await acme.cover() == Covered(changed=1)
    assert (await acme.rows())[app.id]["default_branch"] is None


async def test_a_renamed_repository_keeps_its_row_its_watches_and_its_mirror(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    before = (await acme.rows())[app.id]
    acme.becomes(app, name="application", default_branch="trunk", archived=True)
    assert await acme.cover() == Covered(changed=1)
    after = (await acme.rows())[app.id]
    async with acme.hub.deps.db.tx() as tx:
        assert await repos.former_names(tx, after["id"]) == ["acme-inc/app"]
    assert (after["id"], after["full"]) == (before["id"], "acme-inc/application")
    assert (after["url"], after["default_branch"]) == ("https://github.com/acme-inc/application.git", "trunk")
    assert after["archived"]
    deps = acme.hub.deps
    async with deps.db.tx() as tx:
        assert await repos.watched_refs(tx, after["id"]) == ["main"]
    synced = await origins.sync_repo(deps, after["id"])
    assert synced is not None
    assert synced.failure is None
    assert list(acme.forge.mirrors) == [repos.mirror_path(deps, after["id"])]


async def test_a_github_that_got_another_address_has_its_repositories_there(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    await acme.hub.rows("UPDATE repos SET url = 'https://old.example/acme-inc/app.git' RETURNING id")
    await acme.cover()
    assert (await acme.rows())[app.id]["url"] == "https://github.com/acme-inc/app.git"


async def test_two_repositories_may_change_their_names_with_each_other(acme: Covering) -> None:
    one, two = acme.covers("one", "two")
    await acme.cover()
    acme.becomes(acme.becomes(one, name="tmp"), name="two")
    acme.becomes(two, name="one")
    assert await acme.cover() == Covered(changed=2)
    rows = await acme.rows()
    assert (rows[one.id]["full"], rows[two.id]["full"]) == ("acme-inc/two", "acme-inc/one")
    async with acme.hub.deps.db.tx() as tx:  # a name that another has by now is no former one
        assert await repos.former_names(tx, rows[one.id]["id"]) == []


async def test_an_account_that_is_renamed_takes_its_repositories_along(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    acme.hub.github.rename(LOGIN, "acme-co")
    acme.becomes(app, owner="acme-co")
    assert await acme.cover() == Covered(changed=1)
    assert await acme.names() == ["acme-co/app"]
    assert (await acme.account())["login"] == "acme-co"


async def test_what_is_taken_off_gives_no_boxes_and_comes_back_with_its_watches(acme: Covering) -> None:
    app, _ = acme.covers("app", "lib")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    acme.drops(app)
    assert await acme.cover() == Covered(uncovered=1)
    refused = await acme.watch("acme-inc/app")
    assert isinstance(refused, Refusal)
    assert refused.code == "repository_uncovered"
    acme.hub.github.covered[acme.there.id].append(app)
    assert await acme.cover() == Covered(changed=1)
    assert isinstance(await acme.watch("acme-inc/app"), Watched)


async def test_a_repository_that_moves_to_another_account_of_the_organization_keeps_its_row(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    before = (await acme.rows())[app.id]["id"]
    github, deps = acme.hub.github, acme.hub.deps
    other = github.install("labs", "Organization", "ada")
    await connected(deps, acme.org, other.id, "labs", other.account.id)
    acme.drops(app)
    github.covered[other.id].append(replace(app, owner="labs"))
    assert await acme.cover() == Covered(uncovered=1)
    assert await actions.cover(deps, other.id) == Covered(changed=1)
    row = (await acme.rows())[app.id]
    assert (row["id"], row["account"], row["full"], row["covered"]) == (before, other.id, "labs/app", True)
    assert await acme.cover() == Covered()
    assert (await acme.rows())[app.id]["covered"]


async def test_an_app_that_is_installed_anew_has_its_repositories_again(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    github, deps = acme.hub.github, acme.hub.deps
    before = (await acme.rows())[app.id]["id"]
    github.uninstall(acme.there.id)
    gone = await acme.cover()
    assert gone is not None
    assert (gone.stands, gone.uncovered) == ("removed", 1)
    again = github.install(LOGIN, "Organization", "ada")
    github.covered[again.id].append(app)
    await connected(deps, acme.org, again.id, LOGIN, again.account.id)
    assert await actions.cover(deps, again.id) == Covered(changed=1)
    row = (await acme.rows())[app.id]
    assert (row["id"], row["account"], row["covered"]) == (before, again.id, True)


async def test_a_name_that_a_local_repository_has_stays_its_own_and_that_is_told_until_it_is_mended(
    acme: Covering,
) -> None:
    deps = acme.hub.deps
    acme.forge.repositories["https://u:secret@example.org/app"] = {"main": HEAD}
    local = await origins.add_repo(deps, None, "acme-inc/app", "https://u:secret@example.org/app", "acme")
    assert isinstance(local, Repo)
    acme.covers("app", "lib")
    assert await acme.cover() == Covered(new=1)
    (told,) = (await acme.account())["untaken"]
    assert "from https://***@example.org/app" in told
    assert "`rift repo rename acme-inc/app OWNER/NAME`" in told
    renamed = await origins.rename(deps, "acme-inc/app", "acme-inc/app-local")
    assert isinstance(renamed, Repo)
    assert ("coverage.cover", {"installation": acme.there.id}) in await acme.jobs()
    assert await acme.cover() == Covered(new=1)
    assert (await acme.account())["untaken"] == []
    assert await acme.names() == ["acme-inc/app", "acme-inc/lib"]


async def test_a_name_that_github_allows_and_rift_does_not_is_told_and_holds_no_other(acme: Covering) -> None:
    acme.covers("-rf", "...", "x" * 100, "_", ".github")
    await acme.cover()
    assert await acme.names() == sorted(f"acme-inc/{name}" for name in ("x" * 100, "_", ".github"))
    assert len((await acme.account())["untaken"]) == 2


async def test_an_installation_that_is_suspended_in_the_middle_is_seen_and_goes_on_once_it_is_not(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, deps = acme.hub.github, acme.hub.deps
    for number in range(250):
        github.cover(acme.there.id, f"service-{number}")
    listing = github.repositories

    async def suspended(token: str, page: int) -> RepositoryPage:
        if page == 2:
            github.suspend(acme.there.id)
        return await listing(token, page)

    monkeypatch.setattr(github, "repositories", suspended)
    found = await acme.cover()
    assert found is not None
    assert found.stands == "suspended"
    assert (await acme.account())["suspended_at"] is not None
    assert ("upkeep", "github.account", "suspended") in [row[1:] for row in await outcomes(deps)]
    monkeypatch.undo()
    github.suspend(acme.there.id, False)
    assert await acme.cover() == Covered(new=250)
    assert (await acme.account())["suspended_at"] is None


async def test_a_list_that_shifts_between_two_pages_takes_nothing_off_and_is_made_again_soon(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, clock = acme.hub.github, acme.hub.clock
    made = [github.cover(acme.there.id, f"service-{number}") for number in range(150)]
    await acme.cover()
    listing = github.repositories

    async def shifting(token: str, page: int) -> RepositoryPage:
        found = await listing(token, page)
        if page == 1:
            acme.drops(made[0])  # the second page begins one later: number 100 is on neither
        return found

    monkeypatch.setattr(github, "repositories", shifting)
    found = await acme.cover()
    assert found is not None
    assert found.uncovered == 0
    monkeypatch.undo()
    assert (await acme.account())["cover_next"] <= clock.now() + actions.AGAIN
    assert await acme.cover() == Covered(uncovered=1)


async def test_a_list_in_which_two_have_one_name_counts_for_nothing_and_is_made_again_soon(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, clock = acme.hub.github, acme.hub.clock
    made = [github.cover(acme.there.id, f"service-{number}") for number in range(150)]
    await acme.cover()
    before, listing = await acme.rows(), github.repositories

    async def shifting(token: str, page: int) -> RepositoryPage:
        found = await listing(token, page)
        if page == 1:  # the last of the second page takes the name of the first one of this page, which has another now
            acme.becomes(made[0], name="service-old")
            acme.becomes(made[149], name="service-0")
        return found

    monkeypatch.setattr(github, "repositories", shifting)
    assert await acme.cover() == Covered(stands="waits", failure=None)
    assert await acme.rows() == before
    monkeypatch.undo()
    account = await acme.account()
    assert account["cover_next"] <= clock.now() + actions.AGAIN
    assert (account["cover_page"], account["cover_until"]) == (1, None)
    assert await acme.cover() == Covered(changed=2)
    rows = await acme.rows()
    assert (rows[made[0].id]["full"], rows[made[149].id]["full"]) == ("acme-inc/service-old", "acme-inc/service-0")


async def test_one_lists_an_account_at_a_time_and_who_asked_meanwhile_is_served_after(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, deps = acme.hub.github, acme.hub.deps
    acme.covers("app")
    gate = asyncio.Event()
    listing = github.repositories

    async def waiting(token: str, page: int) -> RepositoryPage:
        found = await listing(token, page)
        await gate.wait()
        return found

    monkeypatch.setattr(github, "repositories", waiting)
    first = asyncio.create_task(acme.cover())
    await eventually(lambda: "repositories" in github.asked)
    acme.covers("lib")
    assert await acme.cover() is None
    gate.set()
    await first
    await actions.poll(deps)
    assert [name for name, _ in await acme.jobs()] == ["coverage.cover"]
    await acme.cover()
    assert await acme.names() == ["acme-inc/app", "acme-inc/lib"]


async def test_a_list_whose_time_is_over_changes_nothing(acme: Covering, monkeypatch: pytest.MonkeyPatch) -> None:
    github, clock = acme.hub.github, acme.hub.clock
    (app,) = acme.covers("app")
    gate, listing = asyncio.Event(), github.repositories

    async def waiting(token: str, page: int) -> RepositoryPage:
        found = await listing(token, page)
        if not gate.is_set():
            await gate.wait()
        return found

    monkeypatch.setattr(github, "repositories", waiting)
    stuck = asyncio.create_task(acme.cover())
    await eventually(lambda: "repositories" in github.asked)
    clock.advance(actions.LIST_FOR + timedelta(seconds=1))
    acme.becomes(app, name="renamed")
    newer = asyncio.create_task(acme.cover())
    await eventually(lambda: github.asked.count("repositories") == 2)
    gate.set()
    assert await newer == Covered(new=1)
    assert await stuck is None
    assert await acme.names() == ["acme-inc/renamed"]


async def test_a_github_that_is_away_is_told_and_asked_less_and_less_often(acme: Covering) -> None:
    github, clock = acme.hub.github, acme.hub.clock
    github.down = True
    waits = []
    for _ in range(4):
        found = await acme.cover()
        assert found is not None
        assert found.failure == "GitHub cannot be reached (ConnectError)"
        waits.append((await acme.account())["cover_next"] - clock.now())
        clock.advance(waits[-1])
    assert waits == [timedelta(minutes=n) for n in (1, 2, 4, 8)]
    github.down = False
    acme.covers("app")
    assert await acme.cover() == Covered(new=1)
    row = await acme.account()
    assert (row["failure"], row["cover_failures"]) == (None, 0)
    assert row["cover_next"] == clock.now() + acme.hub.deps.settings.github.cover_every


async def test_without_an_app_nothing_is_listed_and_the_account_says_why(acme: Covering) -> None:
    bare = replace(acme.hub.deps, settings=type(acme.hub.deps.settings)())
    found = await actions.cover(bare, acme.there.id)
    assert found is not None
    assert found.failure == "This Rift has no GitHub App any more."
    assert await actions.cover(bare, 12345) is None


async def test_a_token_that_died_early_is_got_anew(acme: Covering) -> None:
    github = acme.hub.github
    acme.covers("app")
    await acme.cover()
    github.tokens.clear()
    acme.covers("lib")
    assert await acme.cover() == Covered(new=1)


async def test_a_repository_of_githubs_is_renamed_there(acme: Covering) -> None:
    acme.covers("app")
    await acme.cover()
    refused = await origins.rename(acme.hub.deps, "acme-inc/app", "acme/app")
    assert isinstance(refused, Refusal)
    assert refused.code == "repository_named_at_github"
