"""A state machine of teams: whoever invites, accepts, leaves or is put out, a pure model says what a call answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.behaviour.machines.harness import Bench, Place
from tests.unit.people.house import caller, user

from keel.refusal import Refusal
from keel.testing import FakeIds
from rift.audit import SystemAct
from rift.invites import actions as invites
from rift.invites.model import Invitation, Invited
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.model import Caller, Membership, Role
from rift.sessions import actions as sessions
from rift.sessions.model import Browser, SignedIn

OPEN_FOR = timedelta(days=14)
DAYS = [*[timedelta(days=1)] * 3, timedelta(days=13), OPEN_FOR, OPEN_FOR - timedelta(microseconds=1)]
NAMES = ("ada", "bob", "eve", "new")
EMAILS = st.sampled_from(NAMES)
ONE = st.integers(0, 59)
"""Somebody, or some invitation: more often one with whom something comes of it."""
ROLES = st.sampled_from(["member", "admin"])
RUN = SystemAct("rift user", {}, 0.0)


@dataclass(frozen=True)
class Open:
    """An invitation that was not answered, run out or not."""

    id: str
    role: Role
    until: datetime


class Teams(RuleBasedStateMachine):
    """Three people and one without an account, in and around one team."""

    bench: Bench
    run = 0

    def __init__(self) -> None:
        super().__init__()
        Teams.run += 1
        fresh = self.bench.fresh()
        # People and teams are not cleared between the runs, so that each has ids and names of its own.
        self.place: Place = replace(fresh, deps=replace(fresh.deps, ids=FakeIds(f"teams {Teams.run}")))
        self.team = f"team {Teams.run}"
        self.people: dict[str, Caller] = {}
        for name in ("ada", "bob", "eve"):
            self.come(name)
        made = self.bench.run(people.new_team(self.place.deps, self.place.act(self.people["ada"]), self.team))
        assert isinstance(made, Membership)
        self.org = made.org
        self.members: dict[str, Role] = {"ada": "admin"}
        self.open: dict[str, Open] = {}
        self.seen: dict[str, str] = {}
        self.out: set[str] = set()

    @initialize(bob=st.sampled_from([None, "member", "admin"]), eve=st.sampled_from([None, "member", "admin"]))
    def some_are_members(self, bob: Role | None, eve: Role | None) -> None:
        for name, role in (("bob", bob), ("eve", eve)):
            if role is not None:
                self.bench.run(self.join(name, role))
                self.members[name] = role

    async def join(self, name: str, role: Role) -> None:
        async with self.place.deps.db.tx() as tx:
            assert await people.join(tx, self.place.deps, self.org, self.people[name].user, role)

    def email(self, name: str) -> str:
        return f"{name}.{Teams.run}@example.org"

    def come(self, name: str) -> None:
        self.bench.run(user(self.place.deps, self.email(name)))
        self.people[name] = self.bench.run(caller(self.place.deps, self.email(name)))

    # The model.

    def one_of(self, n: int, likely: Iterable[str]) -> str:
        """Somebody who has an account and is not put out (nobody else's call gets that far): a likely one, or any."""
        able = [name for name in self.people if name not in self.out] or ["ada"]
        often = [name for name in likely if name in able]
        return (often or able)[n % len(often or able)] if n % 4 else able[n % len(able)]

    def an_admin(self, n: int) -> str:
        return self.one_of(n, [name for name, role in self.members.items() if role == "admin"])

    def some_invitation(self, n: int) -> str:
        """The id of one that was made, rather one that is open."""
        often = [one.id for one in self.open.values()] or list(self.seen)
        return often[n % len(often)] if n % 4 else list(self.seen)[n % len(self.seen)]

    def invited(self, name: str) -> Open | None:
        one = self.open.get(name)
        return one if one and self.place.clock.now() < one.until else None

    def changes(self, who: str) -> str | None:
        """Why somebody may not change the team."""
        role = self.members.get(who)
        return "no_such_org" if role is None else None if role == "admin" else "needs_admin"

    def stays(self, whom: str, role: Role | None) -> str | None:
        if whom not in self.members:
            return "no_such_member"
        others = [one for one, has in self.members.items() if has == "admin" and one != whom and one not in self.out]
        return "last_team_admin" if self.members[whom] == "admin" and role != "admin" and not others else None

    # What is done.

    @rule(n=ONE, whom=EMAILS, role=ROLES)
    def somebody_invites(self, n: int, whom: str, role: Role) -> None:
        who = self.an_admin(n)
        me = self.people[who]
        said = self.bench.run(
            invites.invite(self.place.deps, self.place.act(me), self.team.upper(), self.email(whom).title(), role)
        )
        expected = self.changes(who) or ("already_member" if whom in self.members else None)
        assert (said.code if isinstance(said, Refusal) else None) == expected
        if isinstance(said, Invited):
            assert said.renewed == (self.invited(whom) is not None)
            if whom in self.open:
                assert said.invitation.id == self.open[whom].id
            self.open[whom] = Open(said.invitation.id, role, self.place.clock.now() + OPEN_FOR)
            self.seen[said.invitation.id] = whom

    @precondition(lambda self: self.seen)
    @rule(n=ONE, m=ONE, by_name=st.booleans(), declines=st.booleans())
    def somebody_answers(self, n: int, m: int, by_name: bool, declines: bool) -> None:
        who = self.one_of(n, self.open)
        me, asked = self.people[who], self.team if by_name else self.some_invitation(m)
        one = self.invited(who)
        meant = one if one and asked in (self.team, one.id) else None
        action = invites.decline if declines else invites.accept
        said = self.bench.run(action(self.place.deps, self.place.act(me), asked))
        if meant is None:
            assert isinstance(said, Refusal)
            known = asked == self.team and who in self.members
            assert said.code == ("already_member" if known else "no_invitation")
            return
        assert said == (said if declines else Membership(self.org, self.team, meant.role))
        assert not isinstance(said, Refusal)
        del self.open[who]
        if not declines:
            self.members[who] = meant.role

    @precondition(lambda self: self.seen)
    @rule(n=ONE, m=ONE)
    def somebody_withdraws(self, n: int, m: int) -> None:
        who, id = self.an_admin(n), self.some_invitation(m)
        me, whom = self.people[who], self.seen[id]
        one = self.invited(whom)
        said = self.bench.run(invites.withdraw(self.place.deps, self.place.act(me), self.team, id))
        expected = self.changes(who) or (None if one and one.id == id else "not_invited")
        assert (said.code if isinstance(said, Refusal) else None) == expected
        if isinstance(said, Invitation):
            del self.open[whom]

    @precondition(lambda self: self.seen)
    @rule(n=ONE, stolen=st.booleans())
    def somebody_opens_the_letter(self, n: int, stolen: bool) -> None:
        """The link of any invitation that ever was; `stolen`: minted for another address than its own."""
        id = self.some_invitation(n)
        whom = self.seen[id]
        email = self.email("eve" if whom != "eve" else "bob") if stolen else self.email(whom)
        said = self.bench.run(self.follow(email, id))
        one = self.invited(whom)
        if stolen or one is None or one.id != id:
            assert isinstance(said, Refusal)
            assert said.code == "invitation_over"
        elif whom in self.out:
            assert isinstance(said, Refusal)
            assert said.code == "disabled"
        elif whom in self.people:
            assert isinstance(said, Refusal)
            assert said.code == "invitation_sign_in"
        else:
            assert isinstance(said, SignedIn)
            del self.open[whom]
            self.members[whom] = one.role
            self.people[whom] = self.bench.run(caller(self.place.deps, self.email(whom)))

    async def follow(self, email: str, id: str) -> SignedIn | Refusal:
        deps = self.place.deps
        async with deps.db.tx() as tx:
            secret = await mail.mint(tx, deps, email, invitation=id)
        return await sessions.use_link(deps, secret, Browser("a browser"))

    @rule(n=ONE, whom=EMAILS, role=st.sampled_from(["member", "admin", None]))
    def somebody_changes_a_member(self, n: int, whom: str, role: Role | None) -> None:
        who = self.an_admin(n)
        act, deps = self.place.act(self.people[who]), self.place.deps
        if role is None:
            said = self.bench.run(people.remove_member(deps, act, self.team, self.email(whom)))
        else:
            said = self.bench.run(people.set_role(deps, act, self.team, self.email(whom), role))
        self.changed(whom, role, self.changes(who) or self.stays(whom, role), said)

    @rule(n=ONE)
    def somebody_leaves(self, n: int) -> None:
        who = self.one_of(n, self.members)
        said = self.bench.run(people.leave(self.place.deps, self.place.act(self.people[who]), self.team))
        self.changed(who, None, self.stays(who, None) if who in self.members else "no_such_org", said)

    def changed(self, whom: str, role: Role | None, expected: str | None, said: object) -> None:
        assert (said.code if isinstance(said, Refusal) else None) == expected
        if expected is None and role is None:
            del self.members[whom]
        elif expected is None and role is not None:
            self.members[whom] = role

    @rule(whom=st.sampled_from(["bob", "eve", "new"]), comes_back=st.booleans())
    def somebody_is_put_out_or_let_in(self, whom: str, comes_back: bool) -> None:
        action = people.enable if comes_back else people.disable
        said = self.bench.run(action(self.place.deps, RUN, self.email(whom)))
        assert isinstance(said, Refusal) == (whom not in self.people)
        if whom in self.people:
            self.out = self.out - {whom} if comes_back else self.out | {whom}

    @rule(length=st.sampled_from(DAYS))
    def time_passes(self, length: timedelta) -> None:
        self.place.clock.advance(length)

    @invariant()
    def the_team_is_as_the_model_says_and_has_an_admin(self) -> None:
        names = {self.email(name): name for name in NAMES}
        members = self.bench.run(self.rows_of_members())
        assert [(names[email.lower()], role) for email, role in members] == sorted(self.members.items())
        assert "admin" in self.members.values()
        view = self.bench.run(self.invitations())
        expected = {one.id: one.role for name in self.open if (one := self.invited(name))}
        assert {one.id: one.role for one in view} == expected

    async def rows_of_members(self) -> list[tuple[str, str]]:
        async with self.place.deps.db.tx() as tx:
            return sorted((one.email.lower(), one.role) for one in await people.people_of(tx, self.org))

    async def invitations(self) -> list[Invitation]:
        async with self.place.deps.db.tx() as tx:
            return await invites.open_of_org(tx, self.place.deps, self.org)


def test_a_team_does_as_a_pure_model_says_whoever_acts_on_it(bench: Bench) -> None:
    Teams.bench = bench
    run_state_machine_as_test(
        Teams,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
