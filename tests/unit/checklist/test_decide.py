"""What stands between a person and a box."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta

from tests.unit.repos.test_decide import APP, LIB, NOW, repo, view, watch

from keel.refusal import YOUR_HANDLE, Ask, Call
from rift.checklist.decide import adding_to, decide_gaps, decide_ready
from rift.invites.model import Invitation
from rift.people.model import Member, Membership, Role
from rift.repos.model import OrgView, RepoView


def org(*views: RepoView, role: Role = "admin", name: str = "personal") -> OrgView:
    return OrgView(Membership("org_1", name, role), (Member("org_1", "ada@x.org", role),), views)


def test_without_a_repository_whoever_runs_the_server_adds_one() -> None:
    (gap,) = decide_gaps("ada@x.org", [org()], {}, False)
    assert isinstance(gap.mend, Ask)
    assert gap.mend.page == "`rift repo add OWNER/NAME URL_OR_PATH --user ada@x.org` on the server"
    assert decide_ready([org()]) == ()


def test_the_command_that_adds_a_repository_says_whose_it_is_and_is_one_word_to_a_shell() -> None:
    (gap,) = decide_gaps("o'hara@x.org", [org(), org(name="Core & co")], {}, False)
    assert isinstance(gap.mend, Ask)
    mine, ours = re.findall(r"`([^`]*--(?:user|org) [^`]*)`", gap.mend.page)
    assert shlex.split(mine)[-2:] == ["--user", "o'hara@x.org"]
    assert shlex.split(ours) == ["--org", "Core & co"]
    assert shlex.split(adding_to("Core & co"))[-2:] == ["--org", "Core & co"]


def test_without_a_watched_ref_an_admin_watches_and_a_member_asks() -> None:
    branches = {APP.id: ["dev", "main"]}
    (mine,) = decide_gaps("ada@x.org", [org(view())], branches, False)
    assert mine.mend == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 1})
    (theirs,) = decide_gaps("ada@x.org", [org(view(), role="member", name="acme")], branches, False)
    assert theirs.mend == Ask("an admin of acme", 'rift_watch {"repo": "acme/app", "ref": "main", "warm": 1}')


def test_a_repository_nobody_watches_is_no_gap_once_another_is_ready() -> None:
    orgs = [org(view(), view(watch(), of=LIB))]
    assert decide_gaps("ada@x.org", orgs, {APP.id: ["main"]}, bool(decide_ready(orgs))) == ()


def test_an_empty_repository_a_gone_branch_and_a_failed_head_are_gaps_each_with_its_mend() -> None:
    (empty,) = decide_gaps("ada@x.org", [org(view())], {}, False)
    assert empty.mend == Ask("the user", "push one to its origin")
    (gone,) = decide_gaps("ada@x.org", [org(view(watch(head=None)))], {}, False)
    assert gone.mend == Call("rift_unwatch", {"repo": "acme/app", "ref": "main"})
    (failed,) = decide_gaps("ada@x.org", [org(view(watch(failure="disk full")))], {}, False)
    assert "disk full" in failed.text
    assert failed.mend == Call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 1})
    (unread,) = decide_gaps("ada@x.org", [org(view(of=repo(failure="host is down")))], {}, False)
    assert "host is down" in unread.text
    assert isinstance(unread.mend, Ask)


def test_ready_names_the_task_and_then_the_box_at_the_ref_with_the_most_ready() -> None:
    task, box = decide_ready([org(view(watch("dev"), watch("main", ready=2), watch("bad", failure="x")))])
    assert task.tool == "rift_task_new"
    assert box == Call("rift_vm_new", {"task": YOUR_HANDLE, "repo": "acme/app", "ref": "main"})


def test_nothing_is_ready_while_no_watched_ref_can_give_a_box() -> None:
    assert decide_ready([org(view(watch(head=None), watch("dev", failure="x")))]) == ()


def test_an_invitation_is_the_first_gap_with_the_call_that_accepts_it() -> None:
    until = NOW + timedelta(days=14)
    invited = Invitation("inv_1", "org_2", "acme", "ada@x.org", "member", "eve@x.org", NOW, until)
    first, second = decide_gaps("ada@x.org", [org()], {}, False, [invited])
    assert (first.text, first.mend) == (
        'An invitation to the team "acme" waits for you.',
        Call("rift_org_accept", {"org": "acme"}),
    )
    assert isinstance(second.mend, Ask)
