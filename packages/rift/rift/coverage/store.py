"""What the App covers, in Postgres. Takes a transaction, returns models, never commits and never decides.

These are the columns of accounts' and repositories' rows that say what GitHub's list says: all else there is their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from keel.db import Tx
from rift.coverage.model import Known, Listed, Listing

_KNOWN = """
    SELECT id, org, account, github_id, owner, name, default_branch, archived, uncovered_at IS NULL AS covered
    FROM repos WHERE forge = 'github' AND
"""


async def due(tx: Tx, now: datetime) -> list[int]:
    """The installations whose turn it is and that nobody lists now."""
    rows = await tx.rows(
        """
        SELECT installation FROM github_accounts
        WHERE removed_at IS NULL AND (cover_next IS NULL OR cover_next <= %(now)s)
          AND (cover_after IS NULL OR cover_after <= %(now)s) AND (cover_until IS NULL OR cover_until < %(now)s)
        ORDER BY cover_next NULLS FIRST, installation
        """,
        {"now": now},
    )
    return [row["installation"] for row in rows]


async def begin(tx: Tx, installation: int, now: datetime, until: datetime) -> Listing | None:
    """Become the one who lists an installation's repositories. None without it, while somebody else does or GitHub
    wants patience: then its turn comes right after that.
    """
    begun = await tx.one(
        Listing,
        """
        UPDATE github_accounts SET cover_epoch = cover_epoch + 1, cover_until = %(until)s,
            cover_asked = false
        WHERE installation = %(id)s AND removed_at IS NULL AND (cover_until IS NULL OR cover_until < %(now)s)
          AND (cover_after IS NULL OR cover_after <= %(now)s)
        RETURNING installation, org, cover_epoch AS epoch, cover_page AS page, cover_failures AS failures
        """,
        {"id": installation, "now": now, "until": until},
    )
    if begun is None:
        await tx.run(
            """
            UPDATE github_accounts SET cover_asked = true, cover_next = least(cover_next, cover_after)
            WHERE installation = %(id)s AND removed_at IS NULL
            """,
            {"id": installation},
        )
    return begun


async def keep(tx: Tx, installation: int, epoch: int, until: datetime) -> None:
    """Go on being the one."""
    await tx.run(
        """
        UPDATE github_accounts SET cover_until = %(until)s
        WHERE installation = %(id)s AND cover_epoch = %(epoch)s AND cover_until IS NOT NULL
        """,
        {"id": installation, "epoch": epoch, "until": until},
    )


async def leave(tx: Tx, installation: int, epoch: int) -> None:
    """Stop being the one, with nothing to say."""
    await tx.run(
        "UPDATE github_accounts SET cover_until = NULL WHERE installation = %(id)s AND cover_epoch = %(epoch)s",
        {"id": installation, "epoch": epoch},
    )


async def put_page(tx: Tx, one: Listing, page: int, listed: Sequence[Listed], total: int, after: int) -> bool:
    """Keep a page of the list, the first one in place of what an older list had. False when another list has begun.

    `total` is how many there are by this page: where two pages differ in that, something may stand on neither.
    """
    mine = await tx.run(
        """
        UPDATE github_accounts SET cover_page = %(after)s,
            cover_total = CASE WHEN %(page)s = 1 OR cover_total = %(total)s THEN %(total)s END
        WHERE installation = %(id)s AND cover_epoch = %(epoch)s
        """,
        {"after": after, "page": page, "total": total, "id": one.installation, "epoch": one.epoch},
    )
    if not mine:
        return False
    if page == 1:
        await tx.run("DELETE FROM github_listed WHERE installation = %(id)s", {"id": one.installation})
    await tx.many(
        """
        INSERT INTO github_listed (installation, github_id, owner, name, default_branch, archived)
        VALUES (%(id)s, %(github_id)s, %(owner)s, %(name)s, %(branch)s, %(archived)s)
        ON CONFLICT (installation, github_id) DO UPDATE SET owner = excluded.owner, name = excluded.name,
            default_branch = excluded.default_branch, archived = excluded.archived
        """,
        [
            {
                "id": one.installation, "github_id": each.github_id, "owner": each.owner, "name": each.name,
                "branch": each.default_branch, "archived": each.archived,
            }
            for each in listed
        ],
    )  # fmt: skip
    return True


async def is_whole(tx: Tx, installation: int) -> bool:
    """Whether every page of the list spoke of as many repositories as were listed."""
    row = await tx.row(
        """
        SELECT cover_total = (SELECT count(*) FROM github_listed WHERE installation = %(id)s) AS whole
        FROM github_accounts WHERE installation = %(id)s
        """,
        {"id": installation},
    )
    return bool(row and row["whole"])


async def listed(tx: Tx, installation: int) -> list[Listed]:
    """The list as far as it came."""
    return await tx.all(
        Listed,
        "SELECT github_id, owner, name, default_branch, archived FROM github_listed WHERE installation = %(id)s",
        {"id": installation},
    )


async def hold(tx: Tx, org: str) -> None:
    """Until the commit nobody else gives an organization's repositories names."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(org)s, 13))", {"org": org})


async def known(tx: Tx, installation: int, org: str, github_ids: Collection[int]) -> list[Known]:
    """The rows of an installation, and those of an organization with one of these ids."""
    return await tx.all(
        Known,
        _KNOWN + "(account = %(id)s OR (org = %(org)s AND github_id = ANY(%(ids)s))) FOR NO KEY UPDATE",
        {"id": installation, "org": org, "ids": list(github_ids)},
    )


async def taken(tx: Tx, org: str, but: Collection[str]) -> dict[str, str]:
    """The names of an organization's repositories other than these (by id), each with where it comes from."""
    rows = await tx.rows(
        """
        SELECT owner || '/' || name AS full, url FROM repos
        WHERE org = %(org)s AND uncovered_at IS NULL AND NOT id = ANY(%(but)s)
        """,
        {"org": org, "but": list(but)},
    )
    return {row["full"]: row["url"] for row in rows}


async def uncover(tx: Tx, ids: Collection[str], now: datetime) -> None:
    """These repositories (by id) are covered no more."""
    await tx.run(
        "UPDATE repos SET uncovered_at = %(now)s WHERE id = ANY(%(ids)s) AND uncovered_at IS NULL",
        {"ids": list(ids), "now": now},
    )


async def update(tx: Tx, installation: int, changes: Sequence[tuple[str, Listed, str]]) -> None:
    """Let rows (by id) be what the list says, each with its new address. Names may change places among them."""
    await tx.run(
        "UPDATE repos SET uncovered_at = coalesce(uncovered_at, created_at) WHERE id = ANY(%(ids)s)",
        {"ids": [id for id, _, _ in changes]},
    )
    await tx.many(
        """
        UPDATE repos SET account = %(account)s, owner = %(owner)s, name = %(name)s, url = %(url)s,
                         formerly = CASE WHEN (owner, name) IS NOT DISTINCT FROM (%(owner)s, %(name)s) THEN formerly
                                         ELSE array_append(formerly, owner || '/' || name) END,
                         default_branch = %(branch)s, archived = %(archived)s, uncovered_at = NULL,
                         sync_after = NULL, sync_failures = 0
        WHERE id = %(id)s
        """,
        [{"id": id, "account": installation, "url": url, **_row(one)} for id, one, url in changes],
    )


async def settle(tx: Tx, installation: int, base: str) -> None:
    """Let every address be at the GitHub that is set: it may have got another name since they were written."""
    await tx.run(
        """
        UPDATE repos SET url = %(base)s || '/' || owner || '/' || name || '.git'
        WHERE account = %(id)s AND forge = 'github' AND NOT starts_with(url, %(base)s || '/')
        """,
        {"id": installation, "base": base},
    )


async def insert(tx: Tx, installation: int, org: str, new: Sequence[tuple[str, Listed, str]], now: datetime) -> None:
    """Add repositories, each with its id and address."""
    await tx.many(
        """
        INSERT INTO repos (id, org, owner, name, url, network, created_at, forge, account, github_id, default_branch,
                           archived)
        VALUES (%(id)s, %(org)s, %(owner)s, %(name)s, %(url)s, 'proxy', %(now)s, 'github', %(account)s, %(github_id)s,
                %(branch)s, %(archived)s)
        """,
        [
            {"id": id, "org": org, "url": url, "now": now, "account": installation, "github_id": one.github_id}
            | _row(one)
            for id, one, url in new
        ],
    )


def _row(one: Listed) -> dict[str, object]:
    return {"owner": one.owner, "name": one.name, "branch": one.default_branch, "archived": one.archived}


async def finish(
    tx: Tx, one: Listing, now: datetime, next: datetime, untaken: Sequence[str] | None, *, listed: bool = True
) -> None:
    """Stop being the one: it was listed to the end, or (`listed` is false) there is no list that counts.

    `untaken` is what cannot be had here; None: as it was.
    """
    await tx.run(
        """
        UPDATE github_accounts SET cover_until = NULL, cover_page = 1, cover_after = NULL, cover_failures = 0,
            cover_next = CASE WHEN cover_asked THEN %(now)s ELSE %(next)s END,
            failure = NULL, untaken = coalesce(%(untaken)s::text[], untaken),
            covered_at = CASE WHEN %(listed)s THEN %(now)s ELSE covered_at END
        WHERE installation = %(id)s AND cover_epoch = %(epoch)s
        """,
        {
            "id": one.installation, "epoch": one.epoch, "now": now, "next": next,
            "untaken": None if untaken is None else list(untaken), "listed": listed,
        },
    )  # fmt: skip
    await tx.run("DELETE FROM github_listed WHERE installation = %(id)s", {"id": one.installation})


async def rest(tx: Tx, one: Listing, failure: str, next: datetime, after: datetime | None) -> None:
    """Stop being the one before the end: where it is, it goes on at `next`, and by nobody's wish before `after`."""
    await tx.run(
        """
        UPDATE github_accounts SET cover_until = NULL, cover_after = %(after)s, cover_next = %(next)s,
            cover_failures = cover_failures + 1, failure = %(failure)s
        WHERE installation = %(id)s AND cover_epoch = %(epoch)s
        """,
        {"id": one.installation, "epoch": one.epoch, "after": after, "next": next, "failure": failure},
    )


async def is_mine(tx: Tx, one: Listing) -> bool:
    """Whether this list is still the one; it stays so until the commit."""
    row = await tx.row(
        """
        SELECT 1 AS there FROM github_accounts
        WHERE installation = %(id)s AND cover_epoch = %(epoch)s AND cover_until IS NOT NULL FOR NO KEY UPDATE
        """,
        {"id": one.installation, "epoch": one.epoch},
    )
    return row is not None


async def of_account(tx: Tx, installation: int) -> list[str]:
    """The ids of the repositories that an installation covers."""
    rows = await tx.rows("SELECT id FROM repos WHERE account = %(id)s AND uncovered_at IS NULL", {"id": installation})
    return [row["id"] for row in rows]


async def pools(tx: Tx, installation: int) -> list[tuple[str, str]]:
    """The watched refs of an account's repositories: their ids, and the refs."""
    rows = await tx.rows(
        """
        SELECT w.repo, w.ref FROM watches w JOIN repos r ON r.id = w.repo WHERE r.account = %(id)s
        ORDER BY w.repo, w.ref
        """,
        {"id": installation},
    )
    return [(row["repo"], row["ref"]) for row in rows]


async def watched(tx: Tx, installation: int, github_id: int) -> list[str]:
    """The repositories (by id) of an installation with this id at GitHub, that are watched."""
    rows = await tx.rows(
        """
        SELECT r.id FROM repos r WHERE r.account = %(id)s AND r.github_id = %(github_id)s
          AND r.uncovered_at IS NULL AND EXISTS (SELECT FROM watches w WHERE w.repo = r.id)
        """,
        {"id": installation, "github_id": github_id},
    )
    return [row["id"] for row in rows]


async def is_known(tx: Tx, installation: int) -> bool:
    """Whether an installation is one of ours."""
    return bool(
        await tx.row(
            "SELECT 1 AS there FROM github_accounts WHERE installation = %(id)s AND removed_at IS NULL",
            {"id": installation},
        )
    )


async def insert_delivery(tx: Tx, id: str, now: datetime) -> bool:
    """Note a webhook; False for one that was noted before."""
    return bool(
        await tx.run(
            """
            INSERT INTO github_deliveries (id, received_at) VALUES (%(id)s, %(now)s) ON CONFLICT (id) DO NOTHING
            """,
            {"id": id, "now": now},
        )
    )


async def forget_deliveries(tx: Tx, before: datetime) -> int:
    """Forget the webhooks that came before an instant."""
    return await tx.run("DELETE FROM github_deliveries WHERE received_at < %(before)s", {"before": before})
