"""Accounts of GitHub's in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from keel.db import Tx
from rift.drivers.github.protocol import Installation
from rift.github.model import GitHubAccount

_ACCOUNTS = """
    SELECT installation, org, login, kind, enabled, suspended_at, removed_at, connected_at, failure
    FROM github_accounts
"""


async def find(tx: Tx, installation: int) -> GitHubAccount | None:
    """The account of an installation."""
    return await tx.one(GitHubAccount, _ACCOUNTS + "WHERE installation = %(id)s", {"id": installation})


async def of_org(tx: Tx, org: str) -> list[GitHubAccount]:
    """Those of an organization, by login; what is there before what was removed."""
    return await tx.all(
        GitHubAccount,
        _ACCOUNTS + "WHERE org = %(org)s ORDER BY removed_at IS NOT NULL, lower(login), installation",
        {"org": org},
    )


async def everything(tx: Tx) -> list[GitHubAccount]:
    """Every account, by login."""
    return await tx.all(GitHubAccount, _ACCOUNTS + "ORDER BY lower(login), installation")


async def of_installations(tx: Tx, ids: Collection[int]) -> list[GitHubAccount]:
    """Those of some installations."""
    return await tx.all(GitHubAccount, _ACCOUNTS + "WHERE installation = ANY(%(ids)s)", {"ids": list(ids)})


async def hold(tx: Tx, account_id: int) -> None:
    """Until the commit nobody else connects this account of GitHub's."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended('github account ' || %(id)s, 12))", {"id": account_id})


async def end_older(tx: Tx, account_id: int, installation: int, now: datetime) -> None:
    """An account has the App once: an older installation of it is over, whether or not anybody told us."""
    await tx.run(
        """
        UPDATE github_accounts SET removed_at = %(now)s
        WHERE account_id = %(account)s AND installation <> %(installation)s AND removed_at IS NULL
        """,
        {"account": account_id, "installation": installation, "now": now},
    )


async def put(tx: Tx, installation: Installation, org: str, now: datetime) -> GitHubAccount | None:
    """Connect an account with an organization; None where it is connected with another one."""
    return await tx.one(
        GitHubAccount,
        """
        INSERT INTO github_accounts
            (installation, org, account_id, login, kind, suspended_at, connected_at)
        VALUES (%(id)s, %(org)s, %(account)s, %(login)s, %(kind)s, %(suspended)s, %(now)s)
        ON CONFLICT (installation) DO UPDATE SET login = excluded.login, removed_at = NULL,
            suspended_at = CASE WHEN excluded.suspended_at IS NULL THEN NULL
                                ELSE coalesce(github_accounts.suspended_at, excluded.suspended_at) END
        WHERE github_accounts.org = excluded.org
        RETURNING installation, org, login, kind, enabled, suspended_at, removed_at, connected_at, failure
        """,
        {
            "id": installation.id, "org": org, "account": installation.account.id,
            "login": installation.account.login, "kind": installation.account.kind,
            "suspended": now if installation.suspended else None, "now": now,
        },
    )  # fmt: skip


async def put_enabled(tx: Tx, installation: int, enabled: bool) -> None:
    """Turn Rift on or off for an account."""
    await tx.run(
        "UPDATE github_accounts SET enabled = %(enabled)s WHERE installation = %(id)s",
        {"id": installation, "enabled": enabled},
    )


async def put_suspended(tx: Tx, installation: int, at: datetime | None) -> bool:
    """Note that the App is suspended since an instant, or (None) not any more; whether that is news."""
    return bool(
        await tx.run(
            """
            UPDATE github_accounts SET suspended_at = %(at)s
            WHERE installation = %(id)s AND (suspended_at IS NULL) <> (%(at)s::timestamptz IS NULL)
            """,
            {"id": installation, "at": at},
        )
    )


async def put_removed(tx: Tx, installation: int, at: datetime) -> bool:
    """Note that the App is not in an account any more; whether that is news."""
    return bool(
        await tx.run(
            "UPDATE github_accounts SET removed_at = %(at)s WHERE installation = %(id)s AND removed_at IS NULL",
            {"id": installation, "at": at},
        )
    )


async def put_login(tx: Tx, account_id: int, login: str) -> int:
    """Note an account's new name."""
    return await tx.run(
        "UPDATE github_accounts SET login = %(login)s WHERE account_id = %(id)s AND login <> %(login)s",
        {"id": account_id, "login": login},
    )


async def insert_connect(tx: Tx, sha256: bytes, user: str, org: str, until: datetime) -> None:
    """Note that somebody goes to GitHub to connect an account."""
    await tx.run(
        """
        INSERT INTO github_connects (sha256, user_id, org, expires_at)
        VALUES (%(sha256)s, %(user)s, %(org)s, %(until)s)
        """,
        {"sha256": sha256, "user": user, "org": org, "until": until},
    )


async def take_connect(tx: Tx, sha256: bytes, user: str, now: datetime) -> str | None:
    """Use that up, so that of any number who come back with it one goes on: the organization's id."""
    row = await tx.row(
        """
        UPDATE github_connects SET used_at = %(now)s
        WHERE sha256 = %(sha256)s AND user_id = %(user)s AND org IS NOT NULL AND used_at IS NULL
          AND expires_at > %(now)s
        RETURNING org
        """,
        {"sha256": sha256, "user": user, "now": now},
    )
    return row["org"] if row else None
