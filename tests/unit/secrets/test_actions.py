"""Setting and removing secrets: who may, what is recorded, what is stored, and what a box gets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from tests.unit.people.house import act
from tests.unit.secrets.conftest import URL, Team

from keel.refusal import Refusal
from keel.testing import FakeIds
from keel.testing.plugin import FreshDatabase
from keel.vault import KEY_BYTES, Vault, vault_of
from keel.vault_folder import FolderKeys
from rift import app, sealed
from rift.audit import Act
from rift.origins import actions as origins
from rift.people.model import Caller
from rift.secrets import actions
from rift.secrets.model import Changed, Delivery, Removed, RepoSecrets, Secret

VALUE = "sk_live_4242424242424242"


def setting(who: Caller, name: str = "API_KEY") -> Act:
    return replace(act(who, "web set secret"), arguments={"name": name})


async def put(team: Team, name: str = "API_KEY", value: str = VALUE, who: Caller | None = None) -> Changed | Refusal:
    return await actions.put(team.deps, setting(who or team.ada, name), team.repo.id, name, value)


async def names(team: Team, who: Caller | None = None) -> list[str]:
    found = await actions.of_repo(team.deps, who or team.ada, team.repo.id)
    assert isinstance(found, RepoSecrets)
    return [secret.name for secret in found.secrets]


async def given(team: Team) -> Delivery:
    """What the commands of a box of the repository are started with now."""
    async with team.deps.db.tx() as tx:
        await tx.run(
            """
            INSERT INTO boxes (id, name, number, repo, ref, commit, state, used_at, created_at)
            VALUES ('b-1', 'app-main-1', 1, %(repo)s, 'main', %(commit)s, 'running', now(), now())
            ON CONFLICT DO NOTHING
            """,
            {"repo": team.repo.id, "commit": "a" * 40},
        )
        found = await actions.delivery(tx, team.deps, "b-1")
    assert found is not None
    return found


async def test_an_admin_sets_changes_and_removes_a_secret(team: Team) -> None:
    done = await put(team)
    assert isinstance(done, Changed)
    assert done.fresh
    assert (await given(team)) == Delivery(1, {"API_KEY": VALUE})
    again = await put(team, value="another value\nof two lines")
    assert isinstance(again, Changed)
    assert not again.fresh
    assert (await given(team)) == Delivery(2, {"API_KEY": "another value\nof two lines"})
    assert await actions.remove(team.deps, setting(team.ada), team.repo.id, "API_KEY") == Removed(team.repo, "API_KEY")
    assert (await given(team)) == Delivery(3, {})
    refused = await actions.remove(team.deps, setting(team.ada), team.repo.id, "API_KEY")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_secret"
    assert (await given(team)).version == 3


async def test_members_see_names_and_when_set_and_change_nothing(team: Team) -> None:
    await put(team)
    found = await actions.of_repo(team.deps, team.bob, team.repo.id)
    assert isinstance(found, RepoSecrets)
    assert found.secrets == (Secret("API_KEY", len(VALUE), "ada@example.org", team.deps.clock.now()),)
    assert VALUE not in repr(found)
    for refused in (
        await put(team, who=team.bob),
        await actions.remove(team.deps, setting(team.bob), team.repo.id, "API_KEY"),
    ):
        assert isinstance(refused, Refusal)
        assert refused.code == "needs_admin"
    assert (await given(team)).version == 1


async def test_to_everybody_else_there_is_no_such_repository(team: Team) -> None:
    await put(team)
    told = set()
    for repo in (team.repo.id, "repo_nothing", "acme/app", "acme/nothing"):
        for refused in (
            await actions.of_repo(team.deps, team.eve, repo),
            await actions.put(team.deps, setting(team.eve), repo, "API_KEY", "x"),
            await actions.remove(team.deps, setting(team.eve), repo, "API_KEY"),
        ):
            assert isinstance(refused, Refusal)
            told.add((refused.code, refused.sentence.replace(repo, "…")))
    assert told == {("no_such_repository", "No repository … is in your organizations.")}
    assert [one.repo.full for one in await actions.look(team.deps, team.bob)] == ["acme/app"]
    assert await actions.look(team.deps, team.eve) == ()


async def test_a_repository_is_named_by_its_full_name_too(team: Team) -> None:
    assert isinstance(await actions.put(team.deps, setting(team.ada), "acme/app", "API_KEY", VALUE), Changed)
    found = await actions.of_repo(team.deps, team.bob, "acme/app")
    assert isinstance(found, RepoSecrets)
    assert found.place.role == "member"
    assert [one.count for one in await actions.look(team.deps, team.ada)] == [1]


async def test_no_table_holds_a_value_nor_does_any_record(team: Team, database: FreshDatabase) -> None:
    await put(team)
    await put(team, value="")
    await actions.operator_put(team.deps, "acme/app", "OTHER", VALUE)
    await actions.operator_put(team.deps, "acme/app", VALUE + "!", "x")
    async with await psycopg.AsyncConnection.connect(database.owner) as owner:
        tables = await owner.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        )
        for (table,) in await tables.fetchall():
            dumped = await owner.execute(SQL("SELECT t::text FROM {} t").format(Identifier(table)))
            for (row,) in await dumped.fetchall():
                assert VALUE not in row, table
                assert VALUE.encode().hex() not in row, table
    async with team.deps.db.tx() as tx:
        rows = await tx.rows("SELECT action, outcome, arguments FROM ledger ORDER BY seq")
    assert [(row["action"], row["outcome"]) for row in rows if "secret" in row["action"]] == [
        ("web set secret", "ok"), ("web set secret", "secret_value"), ("rift secret set", "ok"),
        ("rift secret set", "secret_name"),
    ]  # fmt: skip
    assert rows[-1]["arguments"] == {"repo": "acme/app", "name": ""}


async def test_records_are_read_by_the_organizations_admins(team: Team) -> None:
    await put(team, who=team.bob)
    await actions.operator_put(team.deps, "acme/app", "API_KEY", VALUE)
    async with team.deps.db.tx() as tx:
        rows = await tx.rows("SELECT reader FROM ledger_readers WHERE reader LIKE 'org_%%'")
    assert [row["reader"] for row in rows] == [team.repo.org] * 2


async def test_of_many_who_set_at_once_exactly_as_many_as_may_be_are_kept(team: Team) -> None:
    for n in range(97):
        await put(team, f"S{n:03}")
    done = await asyncio.gather(*(put(team, f"T{n}") for n in range(8)))
    assert sum(isinstance(one, Changed) for one in done) == 3
    assert {one.code for one in done if isinstance(one, Refusal)} == {"secret_limit"}
    assert len(await names(team)) == 100


async def test_set_and_remove_at_once_leave_one_of_two_states_and_a_version_each(team: Team) -> None:
    await put(team)
    for _ in range(5):
        await asyncio.gather(
            put(team, value="one value"), put(team, value="other value"),
            actions.remove(team.deps, setting(team.ada), team.repo.id, "API_KEY"),
        )  # fmt: skip
        found = await given(team)
        assert found.values in ({}, {"API_KEY": "one value"}, {"API_KEY": "other value"})
        if not found.values:
            await put(team)


async def test_a_name_that_two_organizations_have_is_asked_about_on_the_command_line(team: Team) -> None:
    assert not isinstance(await origins.add_repo(team.deps, "eve@example.org", "acme/app", URL), Refusal)
    for refused in (
        await actions.operator_put(team.deps, "acme/app", "API_KEY", VALUE),
        await actions.operator_remove(team.deps, "acme/app", "API_KEY"),
        await actions.operator_look(team.deps, "acme/app"),
    ):
        assert isinstance(refused, Refusal)
        assert refused.code == "secret_which_repository"
    refused = await actions.operator_look(team.deps, "acme/none")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_added_repository"


async def test_the_operator_sets_lists_and_removes(team: Team) -> None:
    assert isinstance(await actions.operator_put(team.deps, "acme/app", "API_KEY", VALUE), Changed)
    assert await actions.operator_look(team.deps, "acme/app") == [
        Secret("API_KEY", len(VALUE), None, team.deps.clock.now())
    ]
    assert isinstance(await actions.operator_remove(team.deps, "acme/app", "API_KEY"), Removed)
    assert await actions.operator_look(team.deps, "acme/app") == []


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("1A", VALUE, "secret_name"), ("PATH", VALUE, "secret_name_taken"), ("API_KEY", "a\0", "secret_value")],
)
async def test_a_wrong_name_or_value_is_refused_to_all_alike(team: Team, name: str, value: str, code: str) -> None:
    for who in (team.ada, team.bob, team.eve):
        refused = await put(team, name, value, who)
        assert isinstance(refused, Refusal)
        assert refused.code == code
    assert await names(team) == []


async def test_without_its_key_a_secret_is_said_to_be_shut_and_the_others_are_given(team: Team) -> None:
    await put(team)
    other = replace(team, deps=replace(team.deps, vault=vault_of([b"n" * KEY_BYTES], FakeIds("other"))))
    await put(other, "OTHER", "another value")
    assert (await given(other)).values == {"OTHER": "another value"}
    found = await actions.of_repo(other.deps, team.ada, team.repo.id)
    assert isinstance(found, RepoSecrets)
    assert [(secret.name, secret.shut) for secret in found.secrets] == [("API_KEY", True), ("OTHER", False)]
    assert sealed.Resealed(0, 1) == await sealed.reseal(other.deps, app.SEALED)


async def test_a_vault_that_cannot_be_used_is_a_refusal_that_names_the_command(team: Team, tmp_path: Path) -> None:
    (tmp_path / "vault").write_text("a file where the folder should be")
    broken = replace(team, deps=replace(team.deps, vault=Vault(FolderKeys(tmp_path / "vault"), FakeIds("vault"))))
    refused = await put(broken)
    assert isinstance(refused, Refusal)
    assert refused.code == "secrets_unusable"
    assert "rift vault status" in repr(refused.mends)


async def test_a_value_moved_to_another_name_or_repository_is_not_given(team: Team) -> None:
    await put(team)
    async with team.deps.db.tx() as tx:
        await tx.run("UPDATE secrets SET name = 'STOLEN'")
    assert (await given(team)).values == {}


async def test_rotation_seals_every_value_anew_and_then_the_older_key_can_go(team: Team, tmp_path: Path) -> None:
    folder = FolderKeys(tmp_path / "vault")
    here = replace(team, deps=replace(team.deps, vault=Vault(folder, FakeIds("vault"))))
    for n in range(99):
        await put(here, f"S{n}", f"value number {n}")
    assert not isinstance(await origins.add_repo(here.deps, "eve@example.org", "eve/app", URL), Refusal)
    for n in range(30):
        assert isinstance(await actions.operator_put(here.deps, "eve/app", f"S{n}", f"of eve {n}"), Changed)
    before = (await sealed.look(here.deps, app.SEALED)).keys
    assert sum(before.values()) == 129
    gone, stay = await sealed.prune(here.deps, folder, app.SEALED)
    assert (gone, stay) == ([], [])
    key, again = await sealed.rotate(here.deps, folder, app.SEALED)
    assert again == sealed.Resealed(129, 0)
    assert (await sealed.look(here.deps, app.SEALED)).keys == {bytes.fromhex(key): 129}
    assert (await given(here)).values == {f"S{n}": f"value number {n}" for n in range(99)}
    old = next(iter(before)).hex()
    assert await sealed.prune(here.deps, folder, app.SEALED) == ([], [old])
    later = replace(here.deps, clock=Later(here))
    assert await sealed.prune(later, folder, app.SEALED) == ([old], [])
    assert (await given(here)).values["S7"] == "value number 7"
    assert await sealed.reseal(here.deps, app.SEALED) == sealed.Resealed(0, 0)


async def test_rotating_while_secrets_are_set_loses_none(team: Team, tmp_path: Path) -> None:
    folder = FolderKeys(tmp_path / "vault")
    here = replace(team, deps=replace(team.deps, vault=Vault(folder, FakeIds("vault"))))

    async def setting_some(n: int) -> None:
        for round in range(5):
            assert isinstance(await put(here, f"S{n}", f"value {n} of round {round}"), Changed)

    async def rotating() -> None:
        for _ in range(5):
            await sealed.rotate(here.deps, folder, app.SEALED)

    await asyncio.gather(rotating(), *(setting_some(n) for n in range(6)))
    await sealed.reseal(here.deps, app.SEALED)
    found = await sealed.look(here.deps, app.SEALED)
    assert found.keys == {found.newest: 6}
    assert (await given(here)).values == {f"S{n}": f"value {n} of round 4" for n in range(6)}


async def test_a_kill_between_two_steps_of_a_rotation_leaves_values_that_open(team: Team, tmp_path: Path) -> None:
    folder = FolderKeys(tmp_path / "vault")
    here = replace(team, deps=replace(team.deps, vault=Vault(folder, FakeIds("vault"))))
    await put(here)
    folder.rotate()  # and killed: nothing was sealed again
    assert (await given(here)).values == {"API_KEY": VALUE}
    later = replace(here.deps, clock=Later(here))
    assert (await sealed.prune(later, folder, app.SEALED))[0] == []
    assert await sealed.reseal(here.deps, app.SEALED) == sealed.Resealed(1, 0)
    assert len((await sealed.prune(later, folder, app.SEALED))[0]) == 1


async def test_every_sealed_column_is_known_to_whoever_rotates(team: Team) -> None:
    async with team.deps.db.tx() as tx:
        rows = await tx.rows(
            "SELECT table_name FROM information_schema.columns WHERE column_name = 'sealed' AND data_type = 'bytea'"
        )
    found = {row["table_name"] for row in rows}
    assert found == {rows.table for rows in app.SEALED}


class Later:
    """A clock that is ahead of the files that this test made."""

    def __init__(self, team: Team) -> None:
        self._clock = team.deps.clock

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(hours=1)

    def monotonic(self) -> float:
        return self._clock.monotonic()
