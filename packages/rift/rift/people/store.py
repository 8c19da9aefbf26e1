"""People in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from keel.db import Tx
from rift.people.model import Caller, Member, Membership, Token, User

_PLACES = """
    SELECT m.org, CASE WHEN o.personal_of = m.user_id THEN 'personal' ELSE o.name END AS name, m.role
    FROM members m JOIN orgs o ON o.id = m.org
"""
_TOKENS = """
    SELECT t.id, t.user_id, u.email, t.client, t.created_at, t.used_at, t.revoked_at
    FROM tokens t JOIN users u ON u.id = t.user_id
"""


async def find_user(tx: Tx, email: str) -> User | None:
    """The person with this address, whatever its case."""
    return await tx.one(User, "SELECT * FROM users WHERE lower(email) = lower(%(email)s)", {"email": email})


async def emails(tx: Tx, ids: Collection[str]) -> dict[str, str]:
    """Email addresses by id."""
    found = await tx.rows("SELECT id, email FROM users WHERE id = ANY(%(ids)s)", {"ids": list(ids)})
    return {row["id"]: row["email"] for row in found}


async def first_admin(tx: Tx) -> User | None:
    """The platform admin who was there first."""
    return await tx.one(User, "SELECT * FROM users WHERE admin ORDER BY created_at, id LIMIT 1")


async def users(tx: Tx) -> list[User]:
    """Everybody, oldest first."""
    return await tx.all(User, "SELECT * FROM users ORDER BY created_at, id")


async def insert_user(tx: Tx, user: User, org: str) -> bool:
    """Add a person and their personal organization; False when the address is taken."""
    params = {"id": user.id, "email": user.email, "admin": user.admin, "at": user.created_at, "org": org}
    if not await tx.run(
        """
        INSERT INTO users (id, email, admin, created_at) VALUES (%(id)s, %(email)s, %(admin)s, %(at)s)
        ON CONFLICT (lower(email)) DO NOTHING
        """,
        params,
    ):
        return False
    await tx.run(
        "INSERT INTO orgs (id, name, personal_of, created_at) VALUES (%(org)s, %(email)s, %(id)s, %(at)s)", params
    )
    await tx.run("INSERT INTO members (org, user_id, role) VALUES (%(org)s, %(id)s, 'admin')", params)
    return True


async def memberships(tx: Tx, user: str) -> list[Membership]:
    """Every organization of a person, their own first."""
    return await tx.all(
        Membership,
        _PLACES + "WHERE m.user_id = %(user)s ORDER BY o.personal_of IS DISTINCT FROM m.user_id, o.name, m.org",
        {"user": user},
    )


async def membership(tx: Tx, org: str, user: str) -> Membership | None:
    """A person's place in one organization, if they have one."""
    return await tx.one(
        Membership, _PLACES + "WHERE m.org = %(org)s AND m.user_id = %(user)s", {"org": org, "user": user}
    )


async def members(tx: Tx, user: str) -> list[Member]:
    """Everybody in the organizations of a person, admins first."""
    return await tx.all(
        Member,
        """
        SELECT m.org, u.email, m.role
        FROM members mine JOIN members m ON m.org = mine.org JOIN users u ON u.id = m.user_id
        WHERE mine.user_id = %(user)s ORDER BY m.org, m.role, u.email
        """,
        {"user": user},
    )


async def insert_token(tx: Tx, token: Token, sha256: bytes | None, client_id: str | None = None) -> None:
    """Add a token; its secret is known by its digest alone. One of a client that signed in has none of its own."""
    await tx.run(
        """
        INSERT INTO tokens (id, user_id, client, sha256, created_at, client_id)
        VALUES (%(id)s, %(user)s, %(client)s, %(sha256)s, %(at)s, %(client_id)s)
        """,
        {
            "id": token.id, "user": token.user_id, "client": token.client, "sha256": sha256, "at": token.created_at,
            "client_id": client_id,
        },
    )  # fmt: skip


async def tokens(tx: Tx, user: str | None) -> list[Token]:
    """A person's tokens, or everybody's, oldest first; the revoked ones too."""
    return await tx.all(
        Token,
        _TOKENS + "WHERE %(user)s::text IS NULL OR t.user_id = %(user)s ORDER BY t.created_at, t.id",
        {"user": user},
    )


async def revoke(tx: Tx, id: str, now: datetime, owner: str | None = None) -> Token | None:
    """End a token; what was revoked before keeps its instant. None when there is none of this id (of this owner)."""
    params = {"id": id, "now": now, "owner": owner}
    await tx.run(
        """
        UPDATE tokens SET revoked_at = %(now)s
        WHERE id = %(id)s AND revoked_at IS NULL AND (%(owner)s::text IS NULL OR user_id = %(owner)s)
        """,
        params,
    )
    return await tx.one(
        Token, _TOKENS + "WHERE t.id = %(id)s AND (%(owner)s::text IS NULL OR t.user_id = %(owner)s)", params
    )


async def authenticate(
    tx: Tx, sha256: bytes, used_before: datetime, now: datetime
) -> tuple[Caller, bytes, bool] | None:
    """Whose token has this digest, the stored digest, and whether its last noted use is older than `used_before`.

    A token that was made by hand has a secret of its own; one that a client got by signing in has many, each for a
    while. Two unique indexes are asked in one statement.
    """
    row = await tx.row(
        """
        SELECT u.id, u.email, u.admin, t.id AS token, t.client, good.sha256,
               coalesce(t.used_at <= %(before)s, true) AS stale
        FROM (
            SELECT id, sha256 FROM tokens WHERE sha256 = %(sha256)s
            UNION ALL
            SELECT token, sha256 FROM access_tokens WHERE sha256 = %(sha256)s AND expires_at > %(now)s
        ) good JOIN tokens t ON t.id = good.id JOIN users u ON u.id = t.user_id
        WHERE t.revoked_at IS NULL AND u.disabled_at IS NULL
        """,
        {"sha256": sha256, "before": used_before, "now": now},
    )
    if row is None:
        return None
    return Caller(row["id"], row["email"], row["admin"], row["token"], row["client"]), row["sha256"], row["stale"]


async def used(tx: Tx, token: str, now: datetime) -> None:
    """Note a token's use. Whoever finds its row busy goes on: the other one notes the same minute."""
    await tx.run(
        """
        UPDATE tokens SET used_at = %(now)s
        WHERE id = (SELECT id FROM tokens WHERE id = %(id)s AND revoked_at IS NULL FOR UPDATE SKIP LOCKED)
        """,
        {"id": token, "now": now},
    )
