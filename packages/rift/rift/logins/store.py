"""People's GitHub accounts in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from keel.vault_rows import Rows
from rift.drivers.github.protocol import Account, UserTokens
from rift.logins.model import Login, Pending, about, about_code

SEALED = (
    Rows("github_users", ("user_id",), lambda row: about(row["user_id"])),
    Rows("github_logins", ("user_id",), lambda row: about_code(row["user_id"])),
)

_LOGINS = """
    SELECT g.user_id AS "user", u.email, g.github_id, g.login, g.sealed, g.expires_at, g.refresh_expires_at,
           g.refresh_epoch, g.failure, g.connected_at
    FROM github_users g JOIN users u ON u.id = g.user_id
"""


async def find(tx: Tx, user: str) -> Login | None:
    """A person's account, unless they were put out."""
    return await tx.one(Login, _LOGINS + "WHERE g.user_id = %(user)s AND u.disabled_at IS NULL", {"user": user})


async def everybody(tx: Tx) -> list[Login]:
    """Everybody's, by address."""
    return await tx.all(Login, _LOGINS + "ORDER BY lower(u.email)")


async def put_out(tx: Tx) -> list[Login]:
    """Those of people who were put out."""
    return await tx.all(Login, _LOGINS + "WHERE u.disabled_at IS NOT NULL ORDER BY g.user_id LIMIT 100")


async def of_account(tx: Tx, github_id: int) -> list[Login]:
    """Those that are this account of GitHub's."""
    return await tx.all(Login, _LOGINS + "WHERE g.github_id = %(id)s ORDER BY g.user_id", {"id": github_id})


async def put(tx: Tx, user: str, account: Account, sealed: bytes, tokens: UserTokens, now: datetime) -> bool:
    """Connect an account with a person, in place of the one before; False where the person was put out."""
    return bool(
        await tx.run(
            """
            INSERT INTO github_users
                (user_id, github_id, login, sealed, expires_at, refresh_expires_at, connected_at)
            SELECT id, %(github)s, %(login)s, %(sealed)s, %(expires)s, %(refresh)s, %(now)s
            FROM users WHERE id = %(user)s AND disabled_at IS NULL FOR SHARE
            ON CONFLICT (user_id) DO UPDATE SET github_id = excluded.github_id, login = excluded.login,
                sealed = excluded.sealed, expires_at = excluded.expires_at,
                refresh_expires_at = excluded.refresh_expires_at, connected_at = excluded.connected_at,
                refresh_epoch = github_users.refresh_epoch + 1, refresh_until = NULL, failure = NULL
            """,
            {
                "user": user, "github": account.id, "login": account.login, "sealed": sealed,
                "expires": tokens.expires_at, "refresh": tokens.refresh_expires_at, "now": now,
            },
        )
    )  # fmt: skip


async def claim(tx: Tx, user: str, epoch: int, now: datetime, until: datetime) -> int | None:
    """Be the one who gets newer tokens: the new epoch; None where somebody else is, or has."""
    row = await tx.row(
        """
        UPDATE github_users SET refresh_epoch = refresh_epoch + 1, refresh_until = %(until)s
        WHERE user_id = %(user)s AND refresh_epoch = %(epoch)s AND (refresh_until IS NULL OR refresh_until <= %(now)s)
        RETURNING refresh_epoch
        """,
        {"user": user, "epoch": epoch, "now": now, "until": until},
    )
    return row["refresh_epoch"] if row else None


async def renewed(tx: Tx, user: str, epoch: int, sealed: bytes, tokens: UserTokens) -> bool:
    """Keep newer tokens, if this is still the attempt that counts. Who has looked before claims nothing after."""
    return bool(
        await tx.run(
            """
            UPDATE github_users SET sealed = %(sealed)s, expires_at = %(expires)s, refresh_expires_at = %(refresh)s,
                refresh_epoch = refresh_epoch + 1, refresh_until = NULL, failure = NULL
            WHERE user_id = %(user)s AND refresh_epoch = %(epoch)s
            """,
            {
                "user": user, "epoch": epoch, "sealed": sealed, "expires": tokens.expires_at,
                "refresh": tokens.refresh_expires_at,
            },
        )
    )  # fmt: skip


async def let_go(tx: Tx, user: str, epoch: int, failure: str | None) -> None:
    """End an attempt without newer tokens; with a `failure` there will be none."""
    await tx.run(
        """
        UPDATE github_users SET refresh_until = NULL, failure = coalesce(%(failure)s, failure)
        WHERE user_id = %(user)s AND refresh_epoch = %(epoch)s
        """,
        {"user": user, "epoch": epoch, "failure": failure},
    )


async def remove(tx: Tx, user: str, sealed: bytes | None = None) -> Login | None:
    """Forget a person's account, put out or not; with `sealed` only while these are its tokens. What there was."""
    return await tx.one(
        Login,
        """
        DELETE FROM github_users g USING users u
        WHERE g.user_id = %(user)s AND u.id = g.user_id AND g.sealed = coalesce(%(sealed)s::bytea, g.sealed)
        RETURNING g.user_id AS "user", u.email, g.github_id, g.login, g.sealed, g.expires_at, g.refresh_expires_at,
                  g.refresh_epoch, g.failure, g.connected_at
        """,
        {"user": user, "sealed": sealed},
    )


# A login that has begun -----------------------------------------------------------------------------------------------


async def pending(tx: Tx, user: str, now: datetime) -> Pending | None:
    """The login that a person has begun, while its code is good."""
    return await tx.one(
        Pending,
        """
        SELECT sealed, user_code, url, every_seconds, ask_after, expires_at FROM github_logins
        WHERE user_id = %(user)s AND expires_at > %(now)s
        """,
        {"user": user, "now": now},
    )


async def begin(tx: Tx, user: str, new: Pending, now: datetime) -> bool:
    """Note a login; False where the person has begun one that is good still."""
    return bool(
        await tx.run(
            """
            INSERT INTO github_logins (user_id, sealed, user_code, url, every_seconds, ask_after, expires_at)
            VALUES (%(user)s, %(sealed)s, %(code)s, %(url)s, %(every)s, %(after)s, %(expires)s)
            ON CONFLICT (user_id) DO UPDATE SET sealed = excluded.sealed, user_code = excluded.user_code,
                url = excluded.url, every_seconds = excluded.every_seconds, ask_after = excluded.ask_after,
                expires_at = excluded.expires_at
            WHERE github_logins.expires_at <= %(now)s
            """,
            {
                "user": user, "sealed": new.sealed, "code": new.user_code, "url": new.url, "every": new.every_seconds,
                "after": new.ask_after, "expires": new.expires_at, "now": now,
            },
        )
    )  # fmt: skip


async def claim_ask(tx: Tx, user: str, code: str, now: datetime, after: datetime) -> bool:
    """Be the one who asks GitHub this time: nobody else does before `after`."""
    return bool(
        await tx.run(
            """
            UPDATE github_logins SET ask_after = %(after)s
            WHERE user_id = %(user)s AND user_code = %(code)s AND ask_after <= %(now)s
            """,
            {"user": user, "code": code, "now": now, "after": after},
        )
    )


async def slow_down(tx: Tx, user: str, code: str, every: int, after: datetime) -> None:
    """Ask less often from now on."""
    await tx.run(
        """
        UPDATE github_logins SET every_seconds = %(every)s, ask_after = greatest(ask_after, %(after)s)
        WHERE user_id = %(user)s AND user_code = %(code)s
        """,
        {"user": user, "code": code, "every": every, "after": after},
    )


async def end_pending(tx: Tx, user: str, code: str | None = None) -> bool:
    """Forget a login that has begun: the one with this code, or whichever there is."""
    return bool(
        await tx.run(
            """
            DELETE FROM github_logins
            WHERE user_id = %(user)s AND (%(code)s::text IS NULL OR user_code = %(code)s)
            """,
            {"user": user, "code": code},
        )
    )


async def forget(tx: Tx, now: datetime, before: datetime) -> int:
    """Delete logins that are over, and the ways to GitHub that were over before an instant."""
    logins = await tx.run("DELETE FROM github_logins WHERE expires_at <= %(now)s", {"now": now})
    return logins + await tx.run("DELETE FROM github_connects WHERE expires_at <= %(before)s", {"before": before})
