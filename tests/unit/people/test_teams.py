"""Teams, roles, and people who are put out, on a real database."""

from __future__ import annotations

import asyncio
from contextvars import Context

import pytest
from tests.unit.people.house import act, caller, outcomes, user

from keel.refusal import Call, Refusal
from keel.testing import eventually
from rift.audit import SystemAct
from rift.deps import Deps
from rift.people import actions, store
from rift.people.model import Caller, Membership, Person, User
from rift.tasks import actions as tasks
from rift.tasks.model import Lease

ADMIN = SystemAct("rift user", {}, 1000.0)


async def person(deps: Deps, name: str, *, admin: bool = False) -> Caller:
    """Somebody with an account, behind a token of theirs."""
    await user(deps, f"{name}@example.org", admin=admin)
    return await caller(deps, f"{name}@example.org")


async def team(deps: Deps, *people: Caller, name: str = "acme", role: str = "admin") -> Membership:
    """A team of these people: the first made it, the others have `role` in it."""
    made = await actions.new_team(deps, act(people[0]), name)
    assert isinstance(made, Membership)
    async with deps.db.tx() as tx:
        for one in people[1:]:
            assert await actions.join(tx, deps, made.org, one.user, "admin" if role == "admin" else "member")
    return made


async def roles(deps: Deps, org: str) -> dict[str, str]:
    async with deps.db.tx() as tx:
        return {one.email.partition("@")[0]: one.role for one in await actions.people_of(tx, org)}


def code(said: object) -> str:
    assert isinstance(said, Refusal), said
    return said.code


async def test_a_new_team_has_its_maker_as_admin_and_its_name_alone(deps: Deps) -> None:
    ada, bob = await person(deps, "ada"), await person(deps, "bob")
    made = await actions.new_team(deps, act(ada, "rift_org_new"), "  Acme\n Labs ")
    assert isinstance(made, Membership)
    assert (made.name, made.role, made.personal) == ("Acme Labs", "admin", False)
    assert await roles(deps, made.org) == {"ada": "admin"}
    for name in ("Acme Labs", "ACME LABS", "acme  labs"):
        assert code(await actions.new_team(deps, act(bob, "rift_org_new"), name)) == "team_exists"
        again = await actions.new_team(deps, act(ada, "rift_org_new"), name)
        assert isinstance(again, Refusal)
        first = again.mends[0]
        assert isinstance(first, Call), "who is in it asks nobody"
        assert first.tool == "rift_repos"
    async with deps.db.tx() as tx:
        found = await actions.find_org(tx, ada, "acme labs")
        assert isinstance(await actions.find_org(tx, bob, "Acme Labs"), Refusal)
    assert found == made
    assert [one.name for one in await actions.list_teams(deps)] == ["Acme Labs"]
    assert (ada.user, "mcp:Claude", "rift_org_new", "ok") in await outcomes(deps)


async def test_of_many_who_make_a_team_of_one_name_one_does(deps: Deps) -> None:
    ada = await person(deps, "ada")
    names = [("acme", "Acme", "ACME", "ａｃｍｅ")[n % 4] for n in range(16)]
    made = await asyncio.gather(*(actions.new_team(deps, act(ada), name) for name in names))
    assert sum(isinstance(one, Membership) for one in made) == 1
    assert len(await actions.list_teams(deps)) == 1


@pytest.mark.parametrize(
    "name", ["", " \x07", "personal", "Personal", "ｐersonal", "x" * 65, "...", "ada@x.org", "\u200b"]
)
async def test_what_nobody_could_read_or_type_is_no_teams_name(deps: Deps, name: str) -> None:
    ada = await person(deps, "ada")
    assert code(await actions.new_team(deps, act(ada), name)) == "team_name"
    assert await actions.list_teams(deps) == []


async def test_admins_change_roles_and_members_ask_them(deps: Deps) -> None:
    ada, bob, eve = await person(deps, "ada"), await person(deps, "bob"), await person(deps, "eve")
    org = (await team(deps, ada, bob, role="member")).org
    refused = await actions.set_role(deps, act(bob), "acme", "bob@example.org", "admin")
    assert code(refused) == "needs_admin"
    assert code(await actions.set_role(deps, act(eve), "acme", "bob@example.org", "admin")) == "no_such_org"
    assert code(await actions.set_role(deps, act(ada), "acme", "eve@example.org", "admin")) == "no_such_member"
    assert code(await actions.set_role(deps, act(ada), "personal", "ada@example.org", "member")) == "not_a_team"
    made = await actions.set_role(deps, act(ada), "ACME", " BOB@example.org", "admin")
    assert isinstance(made, Person)
    assert made.role == "admin"
    assert isinstance(await actions.set_role(deps, act(bob), "acme", "ada@example.org", "member"), Person)
    assert await roles(deps, org) == {"bob": "admin", "ada": "member"}
    assert code(await actions.remove_member(deps, act(ada), "acme", "bob@example.org")) == "needs_admin"


async def test_a_team_keeps_an_admin_whoever_leaves_or_is_removed(deps: Deps) -> None:
    ada, bob = await person(deps, "ada"), await person(deps, "bob")
    org = (await team(deps, ada, bob, role="member")).org
    for said in (
        await actions.leave(deps, act(ada), "acme"),
        await actions.remove_member(deps, act(ada), "acme", "ada@example.org"),
        await actions.set_role(deps, act(ada), "acme", "ada@example.org", "member"),
    ):
        assert code(said) == "last_team_admin"
    assert code(await actions.leave(deps, act(ada), "personal")) == "not_a_team"
    assert isinstance(await actions.leave(deps, act(bob), "acme"), Membership)
    assert code(await actions.leave(deps, act(bob), "acme")) == "no_such_org"
    assert await roles(deps, org) == {"ada": "admin"}


async def test_of_many_admins_who_leave_and_remove_each_other_at_once_one_stays(deps: Deps) -> None:
    people = [await person(deps, f"p{n}") for n in range(16)]
    org = (await team(deps, *people)).org
    leaving = [actions.leave(deps, act(one), "acme") for one in people[::2]]
    pairs = zip(people[1::2], people[::-2], strict=True)
    removing = [actions.remove_member(deps, act(one), "acme", other.email) for one, other in pairs]
    said = await asyncio.gather(*leaving, *removing)
    assert {one.code for one in said if isinstance(one, Refusal)} <= {
        "last_team_admin",
        "no_such_org",
        "no_such_member",
    }
    assert "admin" in (await roles(deps, org)).values()
    await asyncio.gather(*(actions.leave(deps, act(one), "acme") for one in people))
    assert list((await roles(deps, org)).values()) == ["admin"]


async def test_who_is_made_a_member_meanwhile_changes_nothing_any_more(deps: Deps) -> None:
    ada, bob, eve = await person(deps, "ada"), await person(deps, "bob"), await person(deps, "eve")
    org = (await team(deps, ada, bob, eve)).org
    async with deps.db.tx() as tx:
        await store.lock_org(tx, org)
        removal = actions.remove_member(deps, act(bob), "acme", "eve@example.org")
        removing = asyncio.create_task(removal, context=Context())
        await until_waiting(deps)
        await store.put_role(tx, org, bob.user, "member")
    assert code(await removing) == "needs_admin"
    assert set(await roles(deps, org)) == {"ada", "bob", "eve"}


async def until_waiting(deps: Deps) -> None:
    """Until somebody waits for a lock that somebody else has."""

    async def waits() -> bool:
        async with deps.db.look() as look:
            return await look.row("SELECT FROM pg_locks WHERE NOT granted") is not None

    await eventually(waits)


async def test_who_is_put_out_calls_nothing_and_has_no_open_tasks(deps: Deps) -> None:
    ada, bob = await person(deps, "ada", admin=True), await person(deps, "bob")
    made = await actions.new_token(deps, "bob@example.org", "Cursor")
    assert not isinstance(made, Refusal)
    lease = await tasks.open_task(deps, act(bob), "work")
    mine = await tasks.open_task(deps, act(ada), "work")
    assert isinstance(lease, Lease)
    assert isinstance(mine, Lease)
    assert code(await actions.disable(deps, act(bob), "ada@example.org")) == "needs_platform_admin"
    out = await actions.disable(deps, act(ada), "BOB@example.org")
    assert isinstance(out, User)
    assert out.disabled_at == deps.clock.now()
    assert await actions.authenticate(deps, made[1]) is None
    async with deps.db.tx() as tx:
        assert await tx.row("SELECT FROM procrastinate_jobs WHERE task_name = 'tasks.close_put_out'") is not None
    assert await tasks.close_put_out(deps) == [lease.task.id]
    assert await tasks.close_put_out(deps) == []
    assert (None, "upkeep", "task closed", "ok") in await outcomes(deps)
    assert isinstance(await actions.enable(deps, act(ada), "bob@example.org"), User)
    assert await actions.authenticate(deps, made[1]) is not None


async def test_a_rift_keeps_a_platform_admin_whoever_puts_whom_out(deps: Deps) -> None:
    ada = await person(deps, "ada", admin=True)
    assert code(await actions.disable(deps, act(ada), "ada@example.org")) == "last_platform_admin"
    assert code(await actions.set_admin(deps, ADMIN, "ada@example.org", False)) == "last_platform_admin"
    assert code(await actions.disable(deps, ADMIN, "nobody@example.org")) == "no_such_user"
    bob = await person(deps, "bob")
    assert isinstance(await actions.set_admin(deps, act(ada), "bob@example.org", True), User)
    assert isinstance(await actions.disable(deps, act(bob), "ada@example.org"), User)
    assert code(await actions.disable(deps, act(ada), "bob@example.org")) == "needs_platform_admin"
    assert code(await actions.set_admin(deps, ADMIN, "bob@example.org", False)) == "last_platform_admin"


async def test_of_many_platform_admins_who_put_each_other_out_at_once_one_stays(deps: Deps) -> None:
    admins = [await person(deps, f"p{n}", admin=True) for n in range(8)]
    await asyncio.gather(
        *(actions.disable(deps, act(one), other.email) for one in admins for other in admins[::-1] if one != other)
    )
    left = [one for one in await actions.list_users(deps) if one.admin and one.disabled_at is None]
    assert len(left) == 1


async def test_an_admin_who_was_put_out_is_not_the_one_that_stays(deps: Deps) -> None:
    ada, bob = await person(deps, "ada"), await person(deps, "bob")
    await person(deps, "root", admin=True)
    await team(deps, ada, bob)
    assert isinstance(await actions.disable(deps, ADMIN, "bob@example.org"), User)
    assert code(await actions.leave(deps, act(ada), "acme")) == "last_team_admin"
