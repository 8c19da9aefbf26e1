"""What stands between a person and a box. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from keel.refusal import YOUR_HANDLE, Ask, Call
from rift.checklist.model import AtGitHub, Gap
from rift.invites.model import Invitation
from rift.names import PERSONAL
from rift.people.model import OPERATOR
from rift.repos.decide import claimable, main_of
from rift.repos.model import OrgView, RepoView

NO_GITHUB = (
    "not connected: this Rift's repositories come from git URLs and paths (the local forge), "
    "and nothing here needs a GitHub account."
)
LOGIN = Call("rift_github_login")
NOT_THERE = AtGitHub()


def decide_github(there: AtGitHub) -> str:
    """Whether GitHub is connected for pushes."""
    if there.login is not None and not there.over:
        return f"connected for pushes: as {there.login}."
    if there.login is not None:
        over = f"GitHub does not take the login of {there.login}; {LOGIN.tool} renews it."
        return f"not connected for pushes any more: {over}"
    return f"not connected for pushes: {LOGIN.tool} connects your GitHub account." if there.app else NO_GITHUB


def decide_ready(orgs: Sequence[OrgView]) -> tuple[Call, ...]:
    """The calls that take a box, at the watched ref with the most boxes ready; none while no ref can give one."""
    able = [(view.repo, watch) for org in orgs for view in org.repos for watch in view.watches if claimable(watch)]
    if not able:
        return ()
    repo, watch = max(able, key=lambda pair: pair[1].ready)
    return (
        Call("rift_task_new", {"name": "<what the work is>"}),
        Call("rift_vm_new", {"task": YOUR_HANDLE, "repo": repo.full, "ref": watch.ref}),
    )


def decide_gaps(
    email: str,
    orgs: Sequence[OrgView],
    branches: dict[str, list[str]],
    ready: bool,
    invitations: Sequence[Invitation] = (),
    github: AtGitHub = NOT_THERE,
) -> tuple[Gap, ...]:
    """What stands between the person and a box, each with what closes it: first the invitations that wait for them.

    `branches` are the branch names by repository id, for the rift_watch to suggest. A repository without a watched
    ref is a gap only while nothing is `ready`: it may be meant so.
    """
    gaps = [Gap(f'An invitation to the team "{one.team}" waits for you.', accepting(one)) for one in invitations]
    gaps += _github_gaps(orgs, ready, github)
    if not any(org.repos for org in orgs) and any(org.unwatched for org in orgs):
        return (*gaps, *(_unwatched(org) for org in orgs if org.unwatched))
    if not any(org.repos for org in orgs):
        team = next((org.org.name for org in orgs if not org.org.personal), None)
        ours = f"; for a team, `--org {shlex.quote(team)}` in place of `--user`" if team else ""
        add = f"`{adding(email)}` on the server{ours}"
        if github.app and not any(org.accounts for org in orgs):
            text = "No repository is in your organizations, and no GitHub account is connected to one."
            gaps.append(Gap(text, _connecting(orgs, github)))
        return (*gaps, Gap("No repository is in your organizations.", Ask(OPERATOR, add)))
    for org in orgs:
        for view in org.repos:
            gaps += _repo_gaps(org, view, branches.get(view.repo.id, []), ready)
    return tuple(gaps)


def _github_gaps(orgs: Sequence[OrgView], ready: bool, github: AtGitHub) -> list[Gap]:
    """What is between the person and GitHub. An account that is off may be meant so, once there is a box elsewhere."""
    gaps = []
    if github.app and (github.login is None or github.over) and any(org.accounts for org in orgs):
        gaps.append(Gap("Your GitHub account is not connected: pushes from a box are refused.", LOGIN))
    for org in orgs:
        for account in org.accounts:
            if account.suspended_at is not None:
                ask = Ask(f"an owner of {account.login} at GitHub", "unsuspend the App in the settings there")
                gaps.append(Gap(f"The App is suspended at GitHub's {account.login}: nothing of it is read.", ask))
            elif not account.enabled and not ready:
                call = Call("rift_github_enable", {"org": org.org.name, "account": account.login})
                gaps.append(
                    Gap(f"GitHub's {account.login} is connected, and Rift is off for it.", _by_admin(org, call))
                )
    return gaps


def _connecting(orgs: Sequence[OrgView], github: AtGitHub) -> Call:
    """The call that connects a GitHub account: a team's of theirs to change, else their own, once it is known."""
    team = next((org.org.name for org in orgs if org.org.admin and not org.org.personal), None)
    if team is None and (github.login is None or github.over):
        return LOGIN
    return Call("rift_github_connect", {"org": team or PERSONAL})


def _unwatched(org: OrgView) -> Gap:
    """GitHub's repositories are there, and none of them is watched: which one, somebody has to say."""
    count = f"{org.unwatched} repositor{'y' if org.unwatched == 1 else 'ies'}"
    text = f"No ref of the {count} that the App covers in {org.org.name} is watched: rift_watch one of these."
    return Gap(text, Call("rift_repos", {"org": org.org.name}))


def _repo_gaps(org: OrgView, view: RepoView, branches: list[str], ready: bool) -> list[Gap]:
    repo, gaps = view.repo, []
    if repo.failure is not None:
        sync = f"mend the origin of {repo.full}, then `rift repo sync {repo.full}` on the server"
        gaps.append(
            Gap(f"{repo.full}: its origin {view.shown_url} cannot be read: {repo.failure}", Ask(OPERATOR, sync))
        )
    if not view.watches and not ready:
        if branches:
            call = Call("rift_watch", {"repo": repo.full, "ref": main_of(branches), "warm": 1})
            gaps.append(Gap(f"{repo.full}: no ref is watched.", _by_admin(org, call)))
        elif repo.failure is None:
            gaps.append(Gap(f"{repo.full}: it has no branches yet.", Ask("the user", "push one to its origin")))
    for watch in view.watches:
        if watch.head is None:
            call = Call("rift_unwatch", {"repo": repo.full, "ref": watch.ref})
            gaps.append(Gap(f"{repo.full}: {watch.ref} is watched, but there is no such branch.", _by_admin(org, call)))
        elif watch.failure is not None:
            call = Call("rift_watch", {"repo": repo.full, "ref": watch.ref, "warm": watch.warm})
            text = f"{repo.full}: no box can be made at the head of {watch.ref}: {watch.why}"
            gaps.append(Gap(text, _by_admin(org, call)))
    return gaps


def adding(email: str) -> str:
    """The command that adds a repository of a person's own: without `--user` it would be the first admin's."""
    return f"rift repo add OWNER/NAME URL_OR_PATH --user {shlex.quote(email)}"


def adding_to(team: str) -> str:
    """The command that adds a repository of a team's."""
    return f"rift repo add OWNER/NAME URL_OR_PATH --org {shlex.quote(team)}"


def accepting(one: Invitation) -> Call:
    """The call that accepts an invitation to a team."""
    return Call("rift_org_accept", {"org": one.team})


def _by_admin(org: OrgView, call: Call) -> Call | Ask:
    return call if org.org.admin else Ask(f"an admin of {org.org.name}", call.text)
