"""People in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from keel.db import Tx
from rift.people.model import Caller, Member, Membership, Person, Role, Team, Token, User

_PLACES = """
    SELECT m.org, CASE WHEN o.personal_of = m.user_id THEN 'personal' ELSE o.name END AS name, m.role
    FROM members m JOIN orgs o ON o.id = m.org
"""
_TEAMS = """
    SELECT o.id, o.name, o.created_at, count(m.user_id) AS members, count(*) FILTER (WHERE m.role = 'admin') AS admins
    FROM orgs o LEFT JOIN members m ON m.org = o.id WHERE o.personal_of IS NULL
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


async def platform_admins(tx: Tx) -> list[User]:
    """The platform admins who are not put out, the first one first."""
    return await tx.all(User, "SELECT * FROM users WHERE admin AND disabled_at IS NULL ORDER BY created_at, id")


async def first_admin(tx: Tx) -> User | None:
    """The platform admin who was there first, of those who are not put out."""
    return await tx.one(User, "SELECT * FROM users WHERE admin AND disabled_at IS NULL ORDER BY created_at, id LIMIT 1")


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
    await insert_member(tx, org, user.id, "admin", user.created_at)
    return True


async def lock_platform(tx: Tx) -> None:
    """Until the commit nobody else changes who is a platform admin and who is put out."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended('platform admins', 11))")


async def keep_admin(tx: Tx, user: str) -> bool:
    """Whether a person is a platform admin now, which they stay until this transaction ends."""
    held = "SELECT FROM users WHERE id = %(user)s AND admin AND disabled_at IS NULL FOR SHARE"
    return bool(await tx.run(held, {"user": user}))


async def disabled(tx: Tx, user: str) -> bool:
    """Whether a person is put out."""
    return bool(await tx.run("SELECT FROM users WHERE id = %(user)s AND disabled_at IS NOT NULL", {"user": user}))


async def put_admin(tx: Tx, id: str, admin: bool) -> User | None:
    """Make somebody a platform admin, or one no longer."""
    return await tx.one(
        User, "UPDATE users SET admin = %(admin)s WHERE id = %(id)s RETURNING *", {"id": id, "admin": admin}
    )


async def put_disabled(tx: Tx, id: str, at: datetime | None) -> User | None:
    """Put somebody out since an instant (who was, stays so since when it was), or (None) let them in again."""
    return await tx.one(
        User,
        """
        UPDATE users SET disabled_at = CASE WHEN %(at)s::timestamptz IS NULL THEN NULL
                                            ELSE coalesce(disabled_at, %(at)s) END
        WHERE id = %(id)s RETURNING *
        """,
        {"id": id, "at": at},
    )


async def insert_team(tx: Tx, org: str, name: str, now: datetime) -> bool:
    """Add a team without members; False when one has this name, whatever its case."""
    return bool(
        await tx.run(
            """
            INSERT INTO orgs (id, name, created_at) VALUES (%(org)s, %(name)s, %(now)s)
            ON CONFLICT (lower(name)) WHERE personal_of IS NULL DO NOTHING
            """,
            {"org": org, "name": name, "now": now},
        )
    )


async def team(tx: Tx, name: str) -> Team | None:
    """The team of this name, whatever its case."""
    return await tx.one(Team, _TEAMS + "AND lower(o.name) = lower(%(name)s) GROUP BY o.id", {"name": name})


async def teams(tx: Tx) -> list[Team]:
    """Every team, by name."""
    return await tx.all(Team, _TEAMS + "GROUP BY o.id ORDER BY lower(o.name)")


async def lock_org(tx: Tx, org: str) -> None:
    """Hold an organization: nobody else changes its members or invites to it until this transaction ends."""
    await tx.run("SELECT FROM orgs WHERE id = %(org)s FOR NO KEY UPDATE", {"org": org})


async def lock_user(tx: Tx, user: str) -> None:
    """Hold a person's row until this transaction ends."""
    await tx.run("SELECT FROM users WHERE id = %(user)s FOR NO KEY UPDATE", {"user": user})


async def people(tx: Tx, org: str) -> list[Person]:
    """Everybody in an organization, admins first, then by address."""
    return await tx.all(
        Person,
        """
        SELECT m.user_id AS "user", u.email, m.role, m.joined_at, u.disabled_at IS NOT NULL AS disabled
        FROM members m JOIN users u ON u.id = m.user_id WHERE m.org = %(org)s ORDER BY m.role, lower(u.email)
        """,
        {"org": org},
    )


async def insert_member(tx: Tx, org: str, user: str, role: Role, now: datetime) -> bool:
    """Put somebody into an organization; False when they are in it already."""
    return bool(
        await tx.run(
            """
            INSERT INTO members (org, user_id, role, joined_at) VALUES (%(org)s, %(user)s, %(role)s, %(now)s)
            ON CONFLICT (org, user_id) DO NOTHING
            """,
            {"org": org, "user": user, "role": role, "now": now},
        )
    )


async def put_role(tx: Tx, org: str, user: str, role: Role) -> None:
    """Change a member's role."""
    await tx.run(
        "UPDATE members SET role = %(role)s WHERE org = %(org)s AND user_id = %(user)s",
        {"org": org, "user": user, "role": role},
    )


async def delete_member(tx: Tx, org: str, user: str) -> None:
    """Take somebody out of an organization."""
    await tx.run("DELETE FROM members WHERE org = %(org)s AND user_id = %(user)s", {"org": org, "user": user})


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
