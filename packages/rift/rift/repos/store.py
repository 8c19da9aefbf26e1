"""Repositories in Postgres. Takes a transaction, returns models, never commits and never decides.

How many boxes of a watched ref are ready is read here from the boxes' table, only a count (`boxes_warm` is its index),
and how the account of one of GitHub's stands from GitHub's: the two looks at another noun's rows. Everything else is
asked of their own rooms.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from rift.repos.model import Account, Change, Repo, Watch

NEAR_MOST = 200
"""How many names are looked through for one that somebody may have meant."""

_REPOS = """
    SELECT r.id, r.org, r.owner, r.name, r.url, r.network, r.allow, r.synced_at, r.failure, r.created_at, r.forge,
           r.account, a.login, coalesce(a.enabled, true) AS enabled, a.suspended_at, a.removed_at, r.github_id,
           r.default_branch, r.archived, r.uncovered_at, r.push_default, r.push_watched
    FROM repos r LEFT JOIN github_accounts a ON a.installation = r.account
"""
_THEIRS = """
    JOIN members m ON m.org = r.org AND m.user_id = %(user)s JOIN orgs o ON o.id = r.org
"""
_OWN_FIRST = " ORDER BY o.personal_of IS DISTINCT FROM m.user_id, o.name, r.org, r.owner, r.name"
_IN_USE = "(r.forge = 'local' OR EXISTS (SELECT FROM watches w WHERE w.repo = r.id))"
"""What lists tell one by one: of GitHub's, which may be thousands, those that are watched."""
_IN_STORE = """
    r.forge = 'github' AND r.uncovered_at IS NULL AND NOT EXISTS (SELECT FROM watches w WHERE w.repo = r.id)
    AND EXISTS (SELECT FROM github_accounts g WHERE g.installation = r.account AND g.removed_at IS NULL)
"""
"""The others that the App covers."""
_COUNTED = "SELECT r.org, count(*) AS n FROM repos r WHERE r.org = ANY(%(orgs)s) AND "
_WATCHES = """
    SELECT w.repo, w.ref, w.warm, h.commit AS head,
           (SELECT count(*) FROM boxes b
            WHERE b.repo = w.repo AND b.ref = w.ref AND b.commit = h.commit AND b.task IS NULL AND b.state = 'running'
           ) AS ready,
           CASE WHEN w.failure_commit = h.commit THEN w.failure END AS failure,
           CASE WHEN w.failure_commit = h.commit THEN w.failure_at END AS failure_at,
           w.failure_commit = h.commit AND w.failure_stays IS TRUE AS failure_stays, w.asked_at,
           CASE WHEN w.failure_commit = h.commit THEN w.failing_since END AS failing_since
    FROM watches w LEFT JOIN heads h ON h.repo = w.repo AND h.ref = w.ref
"""


async def find(tx: Tx, id: str) -> Repo | None:
    """The repository with this id, whoever's it is."""
    return await tx.one(Repo, _REPOS + "WHERE r.id = %(id)s", {"id": id})


async def named(tx: Tx, user: str, name: str) -> list[Repo]:
    """The person's repositories of this short name, whatever its case; those of their own organization first."""
    return await tx.all(
        Repo, _REPOS + _THEIRS + "WHERE lower(r.name) = lower(%(name)s)" + _OWN_FIRST, {"user": user, "name": name}
    )


async def near(tx: Tx, user: str, asked: str) -> list[str]:
    """Some full names of the person's repositories, those that look most like `asked` among them."""
    rows = await tx.rows(
        f"""
        SELECT r.owner || '/' || r.name AS full FROM repos r {_THEIRS} WHERE r.uncovered_at IS NULL
        ORDER BY strpos(lower(r.owner || '/' || r.name), lower(%(asked)s)) = 0,
                 (SELECT count(*) FROM generate_series(1, least(length(%(name)s), 60) - 2) AS at
                  WHERE strpos(lower(r.name), lower(substr(%(name)s, at, 3))) > 0) DESC,
                 abs(length(r.name) - length(%(name)s)), r.owner, r.name
        LIMIT {NEAR_MOST}
        """,  # noqa: S608 - constants of this file
        {"user": user, "asked": asked, "name": asked.rpartition("/")[2]},
    )
    return list(dict.fromkeys(row["full"] for row in rows))


async def theirs(tx: Tx, user: str) -> list[Repo]:
    """The repositories in use in the person's organizations, their own organization's first, then by name."""
    return await tx.all(Repo, _REPOS + _THEIRS + "WHERE " + _IN_USE + _OWN_FIRST, {"user": user})


async def in_store(tx: Tx, orgs: Sequence[str]) -> dict[str, int]:
    """How many repositories the App covers in each of these organizations, beside those that are in use."""
    rows = await tx.rows(_COUNTED + _IN_STORE + "GROUP BY r.org", {"orgs": list(orgs)})
    return {row["org"]: row["n"] for row in rows}


async def stored(tx: Tx, org: str, wanted: str = "", limit: int | None = None, offset: int = 0) -> list[Repo]:
    """Those repositories of an organization, by name; only those whose full name has `wanted` in it, whatever case."""
    return await tx.all(
        Repo,
        f"""
        {_REPOS} WHERE r.org = %(org)s AND {_IN_STORE}
            AND (%(wanted)s = '' OR strpos(lower(r.owner || '/' || r.name), lower(%(wanted)s)) > 0)
        ORDER BY lower(r.owner), lower(r.name), r.id LIMIT %(limit)s OFFSET %(offset)s
        """,
        {"org": org, "wanted": wanted, "limit": limit, "offset": offset},
    )


async def accounts(tx: Tx, orgs: Sequence[str]) -> dict[str, list[Account]]:
    """The accounts of GitHub's that each of these organizations has connected, by login."""
    rows = await tx.rows(
        """
        SELECT a.org, a.installation, a.login, a.kind, a.enabled, a.suspended_at, a.covered_at, a.failure, a.untaken,
               (SELECT count(*) FROM repos r WHERE r.account = a.installation AND r.uncovered_at IS NULL) AS covered
        FROM github_accounts a WHERE a.org = ANY(%(orgs)s) AND a.removed_at IS NULL ORDER BY lower(a.login)
        """,
        {"orgs": list(orgs)},
    )
    found: dict[str, list[Account]] = {}
    for row in rows:
        found.setdefault(row.pop("org"), []).append(Account(**row))
    return found


async def of_org(tx: Tx, org: str) -> list[Repo]:
    """The repositories in use in an organization, by name."""
    return await tx.all(
        Repo, _REPOS + "WHERE r.org = %(org)s AND " + _IN_USE + " ORDER BY r.owner, r.name, r.id", {"org": org}
    )


async def in_org(tx: Tx, org: str, owner: str, name: str) -> Repo | None:
    """The repository of this name in an organization."""
    return await tx.one(
        Repo,
        _REPOS + "WHERE r.org = %(org)s AND r.owner = %(owner)s AND r.name = %(name)s AND r.uncovered_at IS NULL",
        {"org": org, "owner": owner, "name": name},
    )


async def everything(tx: Tx) -> list[tuple[Repo, str]]:
    """Every repository in use, by name, with its organization's name (a personal one's is the person's address)."""
    repos = await tx.all(Repo, _REPOS + "WHERE " + _IN_USE + " ORDER BY r.owner, r.name, r.id")
    orgs = {row["id"]: row["name"] for row in await tx.rows("SELECT id, name FROM orgs")}
    return [(repo, orgs[repo.org]) for repo in repos]


async def of_name(tx: Tx, owner: str, name: str) -> list[Repo]:
    """The repositories of this name, in whichever organization."""
    return await tx.all(
        Repo,
        _REPOS + "WHERE r.owner = %(owner)s AND r.name = %(name)s AND r.uncovered_at IS NULL ORDER BY r.id",
        {"owner": owner, "name": name},
    )


async def insert(tx: Tx, repo: Repo) -> bool:
    """Add a repository; False when its organization has one of that name."""
    return bool(
        await tx.run(
            """
            INSERT INTO repos (id, org, owner, name, url, network, synced_at, created_at, default_branch)
            VALUES (%(id)s, %(org)s, %(owner)s, %(name)s, %(url)s, %(network)s, %(synced_at)s, %(created_at)s,
                    %(default_branch)s)
            ON CONFLICT (org, owner, name) WHERE uncovered_at IS NULL DO NOTHING
            """,
            {
                "id": repo.id,
                "org": repo.org,
                "owner": repo.owner,
                "name": repo.name,
                "url": repo.url,
                "network": repo.network,
                "synced_at": repo.synced_at,
                "created_at": repo.created_at,
                "default_branch": repo.default_branch,
            },
        )
    )


async def lock(tx: Tx, id: str) -> None:
    """Hold the repository against other changes of its watches and heads until this transaction ends."""
    await tx.run("SELECT FROM repos WHERE id = %(id)s FOR NO KEY UPDATE", {"id": id})


async def put_network(tx: Tx, id: str, network: str, allow: list[str]) -> Repo | None:
    """What the repository's boxes may reach, from their next start on; the repository as it is then."""
    await tx.run(
        "UPDATE repos SET network = %(network)s, allow = %(allow)s WHERE id = %(id)s",
        {"id": id, "network": network, "allow": allow},
    )
    return await find(tx, id)


async def put_default(tx: Tx, id: str, branch: str | None) -> None:
    """Note which branch is the repository's default one; None where that is not known."""
    await tx.run("UPDATE repos SET default_branch = %(branch)s WHERE id = %(id)s", {"id": id, "branch": branch})


async def put_name(tx: Tx, id: str, owner: str, name: str) -> None:
    """Give the repository another name."""
    await tx.run(
        """
        UPDATE repos SET owner = %(owner)s, name = %(name)s, formerly = array_append(formerly, owner || '/' || name)
        WHERE id = %(id)s AND (owner, name) IS DISTINCT FROM (%(owner)s, %(name)s)
        """,
        {"id": id, "owner": owner, "name": name},
    )


async def former_names(tx: Tx, id: str) -> list[str]:
    """What the repository (by id) was called before, as `OWNER/NAME`, where no other of its organization is now."""
    rows = await tx.rows(
        """
        SELECT f.name FROM repos r CROSS JOIN unnest(r.formerly) AS f (name)
        WHERE r.id = %(id)s AND NOT EXISTS (
            SELECT FROM repos o WHERE o.org = r.org AND o.id <> r.id AND o.uncovered_at IS NULL
                                  AND lower(o.owner || '/' || o.name) = lower(f.name))
        """,
        {"id": id},
    )
    return [row["name"] for row in rows]


async def put_push(tx: Tx, id: str, default: bool | None, watched: bool | None) -> None:
    """Where the repository's boxes may push to; None leaves it as it is."""
    await tx.run(
        """
        UPDATE repos SET push_default = coalesce(%(default)s, push_default),
                         push_watched = coalesce(%(watched)s, push_watched)
        WHERE id = %(id)s
        """,
        {"id": id, "default": default, "watched": watched},
    )


async def boxes_changed(tx: Tx, id: str, now: datetime) -> None:
    """What the repository's boxes get was changed: those made before are not claimed any more."""
    await tx.run("UPDATE repos SET boxes_since = %(now)s WHERE id = %(id)s", {"id": id, "now": now})


async def heads(tx: Tx, repo: str) -> dict[str, str]:
    """The repository's branches and their heads."""
    rows = await tx.rows("SELECT ref, commit FROM heads WHERE repo = %(repo)s ORDER BY ref", {"repo": repo})
    return {row["ref"]: row["commit"] for row in rows}


async def branches(tx: Tx, repos: Sequence[str]) -> dict[str, list[str]]:
    """The names of the branches of each of the repositories."""
    rows = await tx.rows("SELECT repo, ref FROM heads WHERE repo = ANY(%(repos)s) ORDER BY ref", {"repos": list(repos)})
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row["repo"], []).append(row["ref"])
    return names


async def move(tx: Tx, repo: str, changes: Sequence[Change]) -> None:
    """Let the heads be what they have become."""
    gone = [change.ref for change in changes if change.after is None]
    if gone:
        await tx.run("DELETE FROM heads WHERE repo = %(repo)s AND ref = ANY(%(gone)s)", {"repo": repo, "gone": gone})
    await tx.many(
        """
        INSERT INTO heads (repo, ref, commit) VALUES (%(repo)s, %(ref)s, %(commit)s)
        ON CONFLICT (repo, ref) DO UPDATE SET commit = excluded.commit
        """,
        [{"repo": repo, "ref": one.ref, "commit": one.after} for one in changes if one.after is not None],
    )


async def watches(tx: Tx, repos: Sequence[str]) -> list[Watch]:
    """The watched refs of these repositories, by ref."""
    return await tx.all(
        Watch, _WATCHES + "WHERE w.repo = ANY(%(repos)s) ORDER BY w.repo, w.ref", {"repos": list(repos)}
    )


async def watch(tx: Tx, repo: str, ref: str) -> Watch | None:
    """One watched ref."""
    return await tx.one(Watch, _WATCHES + "WHERE w.repo = %(repo)s AND w.ref = %(ref)s", {"repo": repo, "ref": ref})


async def keep_watch(tx: Tx, repo: str, ref: str) -> None:
    """Hold a watched ref, if it is one, against being unwatched until this transaction ends."""
    await tx.run(
        "SELECT FROM watches WHERE repo = %(repo)s AND ref = %(ref)s FOR KEY SHARE", {"repo": repo, "ref": ref}
    )


async def kept_warm(tx: Tx, org: str) -> dict[tuple[str, str], int]:
    """How many warm boxes the watched refs of an organization ask for, by repository (id) and ref.

    Until the commit nobody else asks this, so that two changes at once do not both find the last room.
    """
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(org)s, 10))", {"org": org})
    rows = await tx.rows(
        "SELECT w.repo, w.ref, w.warm FROM watches w JOIN repos r ON r.id = w.repo WHERE r.org = %(org)s", {"org": org}
    )
    return {(row["repo"], row["ref"]): row["warm"] for row in rows}


async def put_watch(tx: Tx, repo: str, ref: str, warm: int, now: datetime) -> None:
    """Watch a ref, or change its warm count; a failure at its head is forgotten, so that it is tried again."""
    await tx.run(
        """
        INSERT INTO watches (repo, ref, warm, created_at, asked_at)
        VALUES (%(repo)s, %(ref)s, %(warm)s, %(now)s, %(now)s)
        ON CONFLICT (repo, ref) DO UPDATE
        SET warm = excluded.warm, asked_at = excluded.asked_at, failure = NULL, failure_commit = NULL,
            failure_at = NULL, failure_stays = false, failing_since = NULL
        """,
        {"repo": repo, "ref": ref, "warm": warm, "now": now},
    )


async def drop_watch(tx: Tx, repo: str, ref: str) -> bool:
    """Stop watching a ref; False when it was not watched."""
    return bool(await tx.run("DELETE FROM watches WHERE repo = %(repo)s AND ref = %(ref)s", {"repo": repo, "ref": ref}))


async def unclaimed(tx: Tx, repo: str, ref: str) -> int:
    """How many living boxes of a ref no task holds."""
    row = await tx.row(
        """
        SELECT count(*) AS n FROM boxes
        WHERE repo = %(repo)s AND ref = %(ref)s AND task IS NULL AND state NOT IN ('destroying', 'destroyed')
        """,
        {"repo": repo, "ref": ref},
    )
    return int(row["n"]) if row else 0


async def put_failure(tx: Tx, repo: str, ref: str, commit: str, failure: str, stays: bool, now: datetime) -> None:
    """Note why no box of a head could be made, whether trying again is in vain, and when the first of a row failed."""
    await tx.run(
        """
        UPDATE watches
        SET failure = %(failure)s, failure_commit = %(commit)s, failure_at = %(now)s, failure_stays = %(stays)s,
            failing_since = coalesce(CASE WHEN failure_commit = %(commit)s THEN failing_since END, %(now)s)
        WHERE repo = %(repo)s AND ref = %(ref)s
        """,
        {"repo": repo, "ref": ref, "commit": commit, "failure": failure, "stays": stays, "now": now},
    )


async def drop_failure(tx: Tx, repo: str, ref: str, commit: str) -> None:
    """A box of this head could be made: forget that it could not."""
    await tx.run(
        """
        UPDATE watches SET failure = NULL, failure_commit = NULL, failure_at = NULL, failure_stays = false,
                           failing_since = NULL
        WHERE repo = %(repo)s AND ref = %(ref)s AND failure_commit = %(commit)s
        """,
        {"repo": repo, "ref": ref, "commit": commit},
    )
