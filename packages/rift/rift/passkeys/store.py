"""Passkeys in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.passkeys.model import Passkey

_PASSKEYS = """
    SELECT p.id, p.user_id AS "user", u.email, p.credential, p.public_key, p.sign_count, p.transports, p.name,
           p.created_at, p.used_at
    FROM passkeys p JOIN users u ON u.id = p.user_id
"""


async def insert(tx: Tx, passkey: Passkey) -> bool:
    """Add a passkey; False when it is there already, whoever's it is."""
    params = {
        "id": passkey.id, "user": passkey.user, "credential": passkey.credential, "key": passkey.public_key,
        "count": passkey.sign_count, "transports": list(passkey.transports), "name": passkey.name,
        "at": passkey.created_at,
    }  # fmt: skip
    return bool(
        await tx.run(
            """
            INSERT INTO passkeys (id, user_id, credential, public_key, sign_count, transports, name, created_at)
            VALUES (%(id)s, %(user)s, %(credential)s, %(key)s, %(count)s, %(transports)s, %(name)s, %(at)s)
            ON CONFLICT (credential) DO NOTHING
            """,
            params,
        )
    )


async def of_user(tx: Tx, user: str) -> list[Passkey]:
    """A person's passkeys, oldest first."""
    return await tx.all(Passkey, _PASSKEYS + "WHERE p.user_id = %(user)s ORDER BY p.created_at, p.id", {"user": user})


async def hold(tx: Tx, credential: bytes) -> Passkey | None:
    """The passkey of this credential, held: of two answers at once, the second sees the count of the first."""
    return await tx.one(
        Passkey, _PASSKEYS + "WHERE p.credential = %(credential)s FOR NO KEY UPDATE OF p", {"credential": credential}
    )


async def used(tx: Tx, id: str, count: int, now: datetime) -> None:
    """Note that a passkey has signed somebody in."""
    await tx.run(
        "UPDATE passkeys SET sign_count = %(count)s, used_at = %(now)s WHERE id = %(id)s",
        {"id": id, "count": count, "now": now},
    )


async def remove(tx: Tx, user: str, id: str) -> str | None:
    """Remove a passkey of this person's: its name, or None when they have none of this id."""
    row = await tx.row(
        "DELETE FROM passkeys WHERE id = %(id)s AND user_id = %(user)s RETURNING name", {"id": id, "user": user}
    )
    return str(row["name"]) if row else None
