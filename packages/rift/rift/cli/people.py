"""`rift user …` and `rift token …`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rift.cli.place import DataOption, JsonOption, find, said, with_system

users = typer.Typer(help="The people of this Rift.", no_args_is_help=True)
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
                    {"id": user.id, "email": user.email, "admin": user.admin, "created_at": user.created_at.isoformat()}
                    for user in found
                ],
                indent=2,
            )
        )
        return
    if not found:
        print("Nobody yet. `rift user add EMAIL --admin` adds the first.")
    for user in found:
        print(f"{user.email}{'  (admin)' if user.admin else ''}")


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
