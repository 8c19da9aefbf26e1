"""Clients and their secrets in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Json, Tx
from rift.connections.model import Asked, Client, Code, Connection, Refresh

_REFRESH = """
    SELECT r.token, r.salt, r.resource, r.expires_at, r.used_at, t.revoked_at IS NOT NULL AS revoked,
           coalesce(t.client_id, '') AS client, t.client AS name,
           u.id AS "user", u.email, u.admin, u.disabled_at IS NOT NULL AS disabled
    FROM refresh_tokens r JOIN tokens t ON t.id = r.token JOIN users u ON u.id = t.user_id
    WHERE r.sha256 = %(sha256)s
"""
_CONNECTIONS = """
    SELECT t.id, t.client, k.source, t.client_id, t.created_at, t.used_at
    FROM tokens t LEFT JOIN clients k ON k.id = t.client_id
"""


async def client(tx: Tx, id: str) -> Client | None:
    """The client of this id."""
    return await tx.one(Client, "SELECT * FROM clients WHERE id = %(id)s", {"id": id})


async def put_client(tx: Tx, client: Client) -> None:
    """Add a client, or take what its document says now."""
    await tx.run(
        """
        INSERT INTO clients (id, source, name, redirect_uris, facts, created_at)
        VALUES (%(id)s, %(source)s, %(name)s, %(uris)s, %(facts)s, %(at)s)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, redirect_uris = excluded.redirect_uris,
            facts = excluded.facts
        """,
        {
            "id": client.id, "source": client.source, "name": client.name, "uris": list(client.redirect_uris),
            "facts": Json(dict(client.facts)), "at": client.created_at,
        },
    )  # fmt: skip


async def unused(tx: Tx) -> int:
    """How many registered clients there are that never signed anybody in."""
    row = await tx.row("SELECT count(*) AS n FROM clients WHERE source = 'registered' AND used_at IS NULL")
    return int(row["n"]) if row else 0


async def client_used(tx: Tx, id: str, now: datetime) -> None:
    """Note that somebody allowed a client something."""
    await tx.run("UPDATE clients SET used_at = %(now)s WHERE id = %(id)s", {"id": id, "now": now})


async def forget_clients(tx: Tx, before: datetime) -> int:
    """Delete the clients that nothing speaks of any more and that were not used since; how many."""
    return await tx.run(
        """
        DELETE FROM clients c WHERE coalesce(c.used_at, c.created_at) < %(before)s
            AND NOT EXISTS (SELECT FROM tokens t WHERE t.client_id = c.id)
            AND NOT EXISTS (SELECT FROM codes o WHERE o.client = c.id)
        """,
        {"before": before},
    )


async def forget_unused(tx: Tx, before: datetime) -> None:
    """Delete the registered clients that never signed anybody in and registered before then."""
    await tx.run(
        "DELETE FROM clients WHERE source = 'registered' AND used_at IS NULL AND created_at < %(before)s",
        {"before": before},
    )


async def insert_code(tx: Tx, sha256: bytes, asked: Asked, user: str, at: datetime, until: datetime) -> None:
    """Add a code; it is known by its digest alone."""
    await tx.run(
        """
        INSERT INTO codes (sha256, client, user_id, redirect_uri, challenge, resource, created_at, expires_at)
        VALUES (%(sha256)s, %(client)s, %(user)s, %(uri)s, %(challenge)s, %(resource)s, %(at)s, %(until)s)
        """,
        {
            "sha256": sha256, "client": asked.client.id, "user": user, "uri": asked.redirect_uri,
            "challenge": asked.challenge, "resource": asked.resource, "at": at, "until": until,
        },
    )  # fmt: skip


async def code(tx: Tx, sha256: bytes) -> Code | None:
    """The code of this digest, whatever it is worth."""
    return await tx.one(
        Code,
        """
        SELECT o.client, o.redirect_uri, o.challenge, o.resource, o.expires_at, o.used_at, o.token, k.name,
               u.id AS "user", u.email, u.admin, u.disabled_at IS NOT NULL AS disabled
        FROM codes o JOIN users u ON u.id = o.user_id JOIN clients k ON k.id = o.client WHERE o.sha256 = %(sha256)s
        """,
        {"sha256": sha256},
    )


async def use_code(tx: Tx, sha256: bytes, now: datetime) -> bool:
    """Use a code up: of any number who try, one does."""
    return bool(
        await tx.run(
            "UPDATE codes SET used_at = %(now)s WHERE sha256 = %(sha256)s AND used_at IS NULL",
            {"sha256": sha256, "now": now},
        )
    )


async def code_gave(tx: Tx, sha256: bytes, token: str) -> None:
    """Note what a code was exchanged for."""
    await tx.run("UPDATE codes SET token = %(token)s WHERE sha256 = %(sha256)s", {"sha256": sha256, "token": token})


async def insert_access(tx: Tx, sha256: bytes, token: str, at: datetime, until: datetime) -> None:
    """Add a secret that calls are made with."""
    await tx.run(
        """
        INSERT INTO access_tokens (sha256, token, created_at, expires_at)
        VALUES (%(sha256)s, %(token)s, %(at)s, %(until)s)
        """,
        {"sha256": sha256, "token": token, "at": at, "until": until},
    )


async def access_until(tx: Tx, sha256: bytes) -> datetime | None:
    """Until when a secret is good that calls are made with; None when there is none of this digest."""
    row = await tx.row("SELECT expires_at FROM access_tokens WHERE sha256 = %(sha256)s", {"sha256": sha256})
    return row["expires_at"] if row else None


async def insert_refresh(
    tx: Tx, sha256: bytes, token: str, salt: bytes, resource: str, at: datetime, until: datetime
) -> None:
    """Add a refresh token."""
    await tx.run(
        """
        INSERT INTO refresh_tokens (sha256, token, resource, salt, created_at, expires_at)
        VALUES (%(sha256)s, %(token)s, %(resource)s, %(salt)s, %(at)s, %(until)s)
        """,
        {
            "sha256": sha256, "token": token, "salt": salt, "resource": resource, "at": at, "until": until,
        },
    )  # fmt: skip


async def refresh(tx: Tx, sha256: bytes) -> Refresh | None:
    """The refresh token of this digest, whatever it is worth."""
    return await tx.one(Refresh, _REFRESH, {"sha256": sha256})


async def lock_refresh(tx: Tx, sha256: bytes) -> Refresh | None:
    """The same, and nobody else's until the transaction ends."""
    return await tx.one(Refresh, _REFRESH + "FOR UPDATE OF r", {"sha256": sha256})


async def refresh_used(tx: Tx, sha256: bytes, now: datetime) -> None:
    """Note that a refresh token has its successor."""
    await tx.run(
        "UPDATE refresh_tokens SET used_at = %(now)s WHERE sha256 = %(sha256)s", {"sha256": sha256, "now": now}
    )


async def token_of(tx: Tx, sha256: bytes) -> tuple[str, str] | None:
    """The token whose access or refresh token has this digest, and the id of its client; None when there is none."""
    row = await tx.row(
        """
        SELECT t.id, coalesce(t.client_id, '') AS client
        FROM (
            SELECT token FROM access_tokens WHERE sha256 = %(sha256)s
            UNION ALL
            SELECT token FROM refresh_tokens WHERE sha256 = %(sha256)s
        ) one JOIN tokens t ON t.id = one.token
        """,
        {"sha256": sha256},
    )
    return (row["id"], row["client"]) if row else None


async def connections(tx: Tx, user: str) -> list[Connection]:
    """A person's tokens that are good, the last used first."""
    return await tx.all(
        Connection,
        _CONNECTIONS + "WHERE t.user_id = %(user)s AND t.revoked_at IS NULL "
        "ORDER BY coalesce(t.used_at, t.created_at) DESC, t.id",
        {"user": user},
    )


async def connection(tx: Tx, user: str, id: str) -> Connection | None:
    """One of them."""
    return await tx.one(
        Connection,
        _CONNECTIONS + "WHERE t.id = %(id)s AND t.user_id = %(user)s AND t.revoked_at IS NULL",
        {"user": user, "id": id},
    )


async def forget(tx: Tx, now: datetime, codes_before: datetime) -> None:
    """Delete what is good for nothing any more: codes and secrets that expired."""
    await tx.run("DELETE FROM access_tokens WHERE expires_at <= %(now)s", {"now": now})
    await tx.run("DELETE FROM refresh_tokens WHERE expires_at <= %(now)s", {"now": now})
    await tx.run("DELETE FROM codes WHERE expires_at <= %(before)s", {"before": codes_before})


async def end_quiet(tx: Tx, now: datetime) -> int:
    """End the tokens whose client can do nothing with them any more, as all its secrets expired; how many."""
    return await tx.run(
        """
        UPDATE tokens t SET revoked_at = %(now)s
        WHERE t.client_id IS NOT NULL AND t.revoked_at IS NULL
            AND NOT EXISTS (SELECT FROM refresh_tokens r WHERE r.token = t.id AND r.expires_at > %(now)s)
            AND NOT EXISTS (SELECT FROM access_tokens a WHERE a.token = t.id AND a.expires_at > %(now)s)
        """,
        {"now": now},
    )
