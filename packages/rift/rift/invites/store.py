"""Invitations and the waitlist in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.invites.model import Invitation, Outcome, Waiting

_OPEN = """
    SELECT i.id, i.org, o.name AS team, i.email, i.role, u.email AS invited_by, i.created_at, i.expires_at
    FROM invitations i LEFT JOIN orgs o ON o.id = i.org LEFT JOIN users u ON u.id = i.invited_by
    WHERE i.ended_at IS NULL AND i.expires_at > %(now)s
"""


async def lock_address(tx: Tx, email: str) -> None:
    """Until the commit nobody else makes, accepts or ends an invitation of this address, or its account by one.

    Taken before an organization is held.
    """
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(lower(%(email)s), 12))", {"email": email})


async def find(tx: Tx, id: str, now: datetime) -> Invitation | None:
    """The open invitation with this id."""
    return await tx.one(Invitation, _OPEN + "AND i.id = %(id)s", {"id": id, "now": now})


async def of_email(tx: Tx, email: str, now: datetime) -> list[Invitation]:
    """The open invitations of an address, oldest first."""
    return await tx.all(
        Invitation,
        _OPEN + "AND lower(i.email) = lower(%(email)s) ORDER BY i.created_at, i.id",
        {"email": email, "now": now},
    )


async def of_org(tx: Tx, org: str, now: datetime) -> list[Invitation]:
    """The open invitations to a team, oldest first."""
    return await tx.all(Invitation, _OPEN + "AND i.org = %(org)s ORDER BY i.created_at, i.id", {"org": org, "now": now})


async def made_by(tx: Tx, user: str, since: datetime) -> int:
    """How many invitations of a person's were made, or made anew, since then, whatever became of them."""
    return await tx.run(
        "SELECT FROM invitations WHERE invited_by = %(user)s AND created_at > %(since)s", {"user": user, "since": since}
    )


async def to_accounts(tx: Tx, now: datetime) -> list[Invitation]:
    """The open invitations to make an account, oldest first."""
    return await tx.all(Invitation, _OPEN + "AND i.org IS NULL ORDER BY i.created_at, i.id", {"now": now})


async def put(tx: Tx, one: Invitation, by: str | None) -> str:
    """Invite an address, or renew the invitation that it has: the id of the one that is open then."""
    row = await tx.row(
        """
        INSERT INTO invitations (id, org, email, role, invited_by, created_at, expires_at)
        VALUES (%(id)s, %(org)s, %(email)s, %(role)s, %(by)s, %(created_at)s, %(expires_at)s)
        ON CONFLICT (coalesce(org, ''), lower(email)) WHERE ended_at IS NULL DO UPDATE
        SET role = excluded.role, invited_by = excluded.invited_by, created_at = excluded.created_at,
            expires_at = excluded.expires_at
        RETURNING id
        """,
        {
            "id": one.id, "org": one.org, "email": one.email, "role": one.role, "by": by,
            "created_at": one.created_at, "expires_at": one.expires_at,
        },
    )  # fmt: skip
    assert row is not None  # it is made or renewed by this statement
    return str(row["id"])


async def end(tx: Tx, id: str, outcome: Outcome, now: datetime) -> bool:
    """End an invitation that is open; False when it is not: of any number who end it, one does."""
    return bool(
        await tx.run(
            """
            UPDATE invitations SET outcome = %(outcome)s, ended_at = %(now)s
            WHERE id = %(id)s AND ended_at IS NULL AND expires_at > %(now)s
            """,
            {"id": id, "outcome": outcome, "now": now},
        )
    )


async def end_to_account(tx: Tx, email: str, now: datetime) -> None:
    """Somebody has made their account: what invited them to it is accepted, and they do not wait any more."""
    await tx.run(
        """
        UPDATE invitations SET outcome = 'accepted', ended_at = %(now)s
        WHERE org IS NULL AND lower(email) = lower(%(email)s) AND ended_at IS NULL
        """,
        {"email": email, "now": now},
    )
    await tx.run("DELETE FROM waitlist WHERE lower(email) = lower(%(email)s)", {"email": email})


async def join_waitlist(tx: Tx, id: str, one: Waiting) -> None:
    """Put somebody on the waitlist, at an instant of their own; who is on it stays as they are."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended('waitlist', 13))")
    await tx.run(
        """
        INSERT INTO waitlist (id, email, name, organization, note, joined_at)
        SELECT %(id)s, %(email)s, %(name)s, %(organization)s, %(note)s,
               greatest(%(at)s, (SELECT max(joined_at) + interval '1 microsecond' FROM waitlist))
        WHERE NOT EXISTS (SELECT FROM users WHERE lower(email) = lower(%(email)s))
        ON CONFLICT (lower(email)) DO NOTHING
        """,
        {
            "id": id, "email": one.email, "name": one.name, "organization": one.organization, "note": one.note,
            "at": one.joined_at,
        },
    )  # fmt: skip


async def waiting(tx: Tx, since: datetime | None, limit: int, now: datetime) -> list[Waiting]:
    """Who joined the waitlist at an instant or later, oldest first; who was invited to make an account is admitted."""
    rows = await tx.rows(
        """
        SELECT w.email, w.name, w.organization, w.note, w.joined_at,
               ARRAY(SELECT o.name FROM invitations i JOIN orgs o ON o.id = i.org
                     WHERE lower(i.email) = lower(w.email) AND i.ended_at IS NULL AND i.expires_at > %(now)s
                     ORDER BY i.created_at, i.id) AS teams
        FROM waitlist w
        WHERE (%(since)s::timestamptz IS NULL OR w.joined_at >= %(since)s)
          AND NOT EXISTS (SELECT FROM invitations i WHERE i.org IS NULL AND lower(i.email) = lower(w.email)
                          AND i.ended_at IS NULL AND i.expires_at > %(now)s)
          AND NOT EXISTS (SELECT FROM users u WHERE lower(u.email) = lower(w.email))
        ORDER BY w.joined_at, w.id LIMIT %(limit)s
        """,
        {"since": since, "limit": limit, "now": now},
    )
    return [Waiting(**{**row, "teams": tuple(row["teams"])}) for row in rows]
