"""The App in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from keel.vault_rows import Rows
from rift.registration.model import ABOUT, Registered

SEALED = (Rows("github_app", ("one",), lambda row: ABOUT),)


async def find(tx: Tx) -> Registered | None:
    """The App that was made from here."""
    return await tx.one(Registered, "SELECT app_id, slug, html_url, client_id, sealed FROM github_app WHERE one")


async def put(tx: Tx, app: Registered) -> None:
    """Have this App in place of the one before it."""
    await tx.run(
        """
        INSERT INTO github_app (app_id, slug, html_url, client_id, sealed)
        VALUES (%(id)s, %(slug)s, %(html_url)s, %(client_id)s, %(sealed)s)
        ON CONFLICT (one) DO UPDATE SET app_id = excluded.app_id, slug = excluded.slug, html_url = excluded.html_url,
            client_id = excluded.client_id, sealed = excluded.sealed
        """,
        {
            "id": app.app_id, "slug": app.slug, "html_url": app.html_url, "client_id": app.client_id,
            "sealed": app.sealed,
        },
    )  # fmt: skip


async def insert_making(tx: Tx, sha256: bytes, user: str, until: datetime) -> None:
    """Note that somebody goes to GitHub to make the App."""
    await tx.run(
        """
        INSERT INTO github_connects (sha256, user_id, org, expires_at)
        VALUES (%(sha256)s, %(user)s, NULL, %(until)s)
        """,
        {"sha256": sha256, "user": user, "until": until},
    )


async def take_making(tx: Tx, sha256: bytes, user: str, now: datetime) -> bool:
    """Use that up, so that of any number who come back with it one goes on."""
    return bool(
        await tx.run(
            """
            UPDATE github_connects SET used_at = %(now)s
            WHERE sha256 = %(sha256)s AND user_id = %(user)s AND org IS NULL AND used_at IS NULL
              AND expires_at > %(now)s
            """,
            {"sha256": sha256, "user": user, "now": now},
        )
    )
