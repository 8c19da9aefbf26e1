"""What stands between a person and a box."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import timedelta

from tests.unit.repos.test_decide import APP, LIB, NOW, repo, view, watch

from keel.refusal import YOUR_HANDLE, Ask, Call
from rift.checklist.decide import adding_to, decide_gaps, decide_github, decide_ready
from rift.checklist.model import AtGitHub
from rift.invites.model import Invitation
from rift.people.model import Member, Membership, Role
from rift.repos.model import Account, OrgView, RepoView


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


def account(enabled: bool = True, suspended: bool = False) -> Account:
    return Account(7, "acme-inc", "Organization", enabled, NOW if suspended else None, NOW, None, [], 0)


def test_whether_github_is_connected_for_pushes_is_one_sentence() -> None:
    assert "local forge" in decide_github(AtGitHub())
    assert decide_github(AtGitHub(app=True)).startswith("not connected for pushes")
    assert decide_github(AtGitHub(True, "ada-l")) == "connected for pushes: as ada-l."
    assert "does not take the login of ada-l" in decide_github(AtGitHub(True, "ada-l", over=True))


def test_with_an_app_and_no_repository_a_github_account_is_connected_or_one_logs_in_first() -> None:
    mine, _ = decide_gaps("ada@x.org", [org()], {}, False, (), AtGitHub(app=True))
    assert mine.mend == Call("rift_github_login")
    known, _ = decide_gaps("ada@x.org", [org()], {}, False, (), AtGitHub(True, "ada-l"))
    assert known.mend == Call("rift_github_connect", {"org": "personal"})
    team, _ = decide_gaps("ada@x.org", [org(), org(name="acme")], {}, False, (), AtGitHub(app=True))
    assert team.mend == Call("rift_github_connect", {"org": "acme"})


def test_an_account_that_is_off_or_suspended_and_a_login_that_lacks_are_gaps_with_their_mends() -> None:
    acme = org(name="acme")
    off = replace(acme, accounts=(account(enabled=False),))
    login, enable = decide_gaps("ada@x.org", [off], {}, False, (), AtGitHub(app=True))[:2]
    assert login.mend == Call("rift_github_login")
    assert enable.mend == Call("rift_github_enable", {"org": "acme", "account": "acme-inc"})
    member = replace(off, org=replace(off.org, role="member"))
    (asked, *_) = decide_gaps("ada@x.org", [member], {}, False, (), AtGitHub(True, "ada-l"))
    assert asked.mend == Ask("an admin of acme", 'rift_github_enable {"org": "acme", "account": "acme-inc"}')
    meant = replace(off, repos=(view(watch()),))
    assert decide_gaps("ada@x.org", [meant], {}, True, (), AtGitHub(True, "ada-l")) == ()
    suspended = replace(acme, accounts=(account(suspended=True),), repos=(view(watch()),))
    (gap,) = decide_gaps("ada@x.org", [suspended], {}, True, (), AtGitHub(True, "ada-l"))
    assert gap.mend == Ask("an owner of acme-inc at GitHub", "unsuspend the App in the settings there")
    (again,) = decide_gaps("a@x.org", [replace(meant, accounts=(account(),))], {}, True, (), AtGitHub(True, "a", True))
    assert again.mend == Call("rift_github_login")


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
    (long,) = decide_gaps(
        "ada@x.org", [org(view(watch(failure="it failed:\n" + "a line of its log\n" * 400)))], {}, False
    )
    assert long.text == "acme/app: no box can be made at the head of main: it failed"  # whole beside the watched ref
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
