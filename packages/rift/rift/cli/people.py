"""`rift user …`, `rift org …` and `rift token …`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rift.cli.place import DataOption, JsonOption, find, said, with_system

if TYPE_CHECKING:
    from keel.refusal import Refusal
    from rift.deps import Deps
    from rift.invites.model import Invited

users = typer.Typer(help="The people of this Rift.", no_args_is_help=True)
orgs = typer.Typer(help="The teams that people are in.", no_args_is_help=True)
tokens = typer.Typer(help="The tokens that people's MCP clients carry.", no_args_is_help=True)


@users.command("add")
def add_user(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")],
    admin: Annotated[bool, typer.Option("--admin", help="Make them a platform admin.")] = False,
    data: DataOption = None,
) -> None:
    """Make an account.

    With an organization of its own.

    Example: rift user add ada@example.com --admin
    """
    from rift.people import actions

    user = said(with_system(data, lambda deps: actions.add_user(deps, email, admin)))
    spelled = find(data).spelled(f"token new --user {user.email} --client Claude")
    print(f"{user.email} has an account. `{spelled}` makes a token.")


@users.command("ls")
def list_users(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the people.

    Example: rift user ls --json
    """
    from rift.people import actions

    found = with_system(data, actions.list_users)
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "id": user.id,
                        "email": user.email,
                        "admin": user.admin,
                        "created_at": user.created_at.isoformat(),
                        "disabled_at": user.disabled_at.isoformat() if user.disabled_at else None,
                    }
                    for user in found
                ],
                indent=2,
            )
        )
        return
    if not found:
        print("Nobody yet. `rift user add EMAIL --admin` adds the first.")
    for user in found:
        print(f"{user.email}{'  (admin)' if user.admin else ''}{'  (disabled)' if user.disabled_at else ''}")


@users.command("link")
def link(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")], data: DataOption = None
) -> None:
    """Print a one-time sign-in link.

    Whoever opens it is signed in as that person: it works once, and for a quarter of an hour.

    Example: rift user link ada@example.com
    """
    from rift.app import address
    from rift.mail import actions

    secret = said(with_system(data, lambda deps: actions.link_for(deps, email)))
    place = find(data)
    running = place.running()
    print(f"{running['url'] if running else address(place.settings)}/sign-in/link/{secret}")


@users.command("disable")
def disable(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")], data: DataOption = None
) -> None:
    """Put somebody out.

    Their tokens, sessions and links are good for nothing from now on, their open tasks close, and boxes of these go.

    Example: rift user disable grace@example.com
    """
    from rift.people import actions
    from rift.people.actions import operator

    told = {"user": email}
    user = said(with_system(data, lambda deps: actions.disable(deps, operator(deps, "rift user disable", told), email)))
    back = find(data).spelled(f"user enable {user.email}")
    print(f"{user.email} is put out; their open tasks close. `{back}` lets them in again.")


@users.command("enable")
def enable(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")], data: DataOption = None
) -> None:
    """Let somebody in again.

    Their tokens are good again; tasks that were closed stay closed.

    Example: rift user enable grace@example.com
    """
    from rift.people import actions
    from rift.people.actions import operator

    told = {"user": email}
    user = said(with_system(data, lambda deps: actions.enable(deps, operator(deps, "rift user enable", told), email)))
    print(f"{user.email} may come in.")


@users.command("admin")
def admin(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")],
    revoke: Annotated[bool, typer.Option("--revoke", help="Make them one no longer.")] = False,
    data: DataOption = None,
) -> None:
    """Make a platform admin.

    Who may invite people to make an account, and put them out. There is always one.

    Example: rift user admin grace@example.com
    """
    from rift.people import actions
    from rift.people.actions import operator

    told = {"user": email, "admin": not revoke}
    user = said(
        with_system(
            data, lambda deps: actions.set_admin(deps, operator(deps, "rift user admin", told), email, not revoke)
        )
    )
    print(f"{user.email} is {'a' if user.admin else 'no'} platform admin{'' if user.admin else ' any more'}.")


@users.command("invite")
def invite_account(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")], data: DataOption = None
) -> None:
    """Invite somebody.

    They get a letter, whose link makes the account and signs them in.

    Example: rift user invite grace@example.com
    """
    from rift.invites import actions
    from rift.mail.actions import goes
    from rift.people.actions import operator

    told = {"user": email}

    async def invited(deps: Deps) -> tuple[Invited | Refusal, str]:
        return await actions.invite_account(deps, operator(deps, "rift user invite", told), email), goes(deps)

    done, letter = with_system(data, invited)
    one = said(done).invitation
    print(f"{one.email} may make an account until {one.expires_at:%Y-%m-%d}. {letter}")


@orgs.command("ls")
def list_teams(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the teams.

    With how many members and admins each has.

    Example: rift org ls --json
    """
    from rift.people import actions

    found = with_system(data, actions.list_teams)
    if as_json:
        rows = [{**asdict(team), "created_at": team.created_at.isoformat()} for team in found]
        print(json.dumps(rows, indent=2))
        return
    if not found:
        print('No teams yet. An agent makes one with rift_org_new {"name": "NAME"}.')
    for team in found:
        admins = f"{team.admins} of them admin{'' if team.admins == 1 else 's'}"
        print(f"{team.name}  {team.members} member{'' if team.members == 1 else 's'}, {admins}")


@orgs.command("invite")
def invite(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="The team's name.")],
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Their email address.")],
    admin: Annotated[bool, typer.Option("--admin", help="As an admin of the team.")] = False,
    data: DataOption = None,
) -> None:
    """Invite to a team.

    Its own admins do that with rift_org_invite; this is for a team that has nobody who could.

    Example: rift org invite acme grace@example.com --admin
    """
    from rift.invites import actions
    from rift.mail.actions import goes
    from rift.people.actions import operator

    told = {"org": team, "user": email, "role": "admin" if admin else "member"}

    async def invited(deps: Deps) -> tuple[Invited | Refusal, str]:
        act = operator(deps, "rift org invite", told)
        return await actions.invite(deps, act, team, email, "admin" if admin else "member"), goes(deps)

    done, letter = with_system(data, invited)
    one = said(done).invitation
    print(f"{one.email} may join {one.team} as {one.role} until {one.expires_at:%Y-%m-%d}. {letter}")


@tokens.command("new")
def new_token(
    user: Annotated[str, typer.Option("--user", metavar="EMAIL", help="Whose token: their email address.")],
    client: Annotated[
        str, typer.Option("--client", metavar="NAME", help="The client that will carry it, such as Claude.")
    ],
    data: DataOption = None,
) -> None:
    """Make a token.

    It is printed once, as the last word. Tasks show their holder as mcp:NAME.

    Example: rift token new --user ada@example.com --client Claude
    """
    from rift.people import actions

    token, secret = said(with_system(data, lambda deps: actions.new_token(deps, user, client)))
    print(f"Token {token.id} for {token.email}, shown this once: {secret}")


@tokens.command("ls")
def list_tokens(
    user: Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="Only this person's.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tokens.

    With id, person, client and last use. Secrets are not kept.

    Example: rift token ls --user ada@example.com
    """
    from rift.people import actions

    found = said(with_system(data, lambda deps: actions.list_tokens(deps, user)))
    rows = [
        {
            "id": token.id,
            "user": token.email,
            "client": token.client,
            "created_at": token.created_at.isoformat(),
            "used_at": token.used_at.isoformat() if token.used_at else None,
            "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
        }
        for token in found
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print("No tokens yet. `rift token new --user EMAIL --client NAME` makes one.")
    for row in rows:
        used = f"last used {row['used_at']}" if row["used_at"] else "never used"
        state = "revoked" if row["revoked_at"] else used
        print(f"{row['id']}  {row['user']}  mcp:{row['client']}  {state}")


@tokens.command("revoke")
def revoke_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `rift token ls` shows it.")],
    data: DataOption = None,
) -> None:
    """End a token.

    Its next call is refused.

    Example: rift token revoke tok_abc123
    """
    from rift.people import actions

    token = said(with_system(data, lambda deps: actions.revoke_token(deps, id)))
    print(f"{token.id} ({token.email}, mcp:{token.client}) is revoked.")
