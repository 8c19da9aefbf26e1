"""An account of GitHub's in an organization, and its repositories, as the rows that other rooms write."""

from __future__ import annotations

from dataclasses import dataclass

from rift.deps import Deps

INSTALLATION = 4711


@dataclass(frozen=True, slots=True)
class Hub:
    """The account `acme`, connected and enabled."""

    deps: Deps
    org: str
    installation: int = INSTALLATION

    async def account(self, **columns: object) -> None:
        """Change columns of the account's row."""
        for name, value in columns.items():
            async with self.deps.db.tx() as tx:
                await tx.run(
                    f"UPDATE github_accounts SET {name} = %(value)s WHERE installation = %(id)s",
                    {"value": value, "id": self.installation},
                )

    async def repo(self, name: str, github_id: int, **columns: object) -> str:
        """A covered repository, unread; its id."""
        id = f"repo_{github_id}"
        async with self.deps.db.tx() as tx:
            await tx.run(
                """
                INSERT INTO repos (id, org, owner, name, url, network, created_at, forge, account, github_id)
                VALUES (%(id)s, %(org)s, 'acme', %(name)s, %(url)s, 'proxy', %(now)s, 'github', %(account)s, %(gid)s)
                """,
                {
                    "id": id,
                    "org": self.org,
                    "name": name,
                    "url": f"https://github.com/acme/{name}.git",
                    "now": self.deps.clock.now(),
                    "account": self.installation,
                    "gid": github_id,
                },
            )
        await self.change(id, **columns)
        return id

    async def change(self, repo: str, **columns: object) -> None:
        """Change columns of a repository's row."""
        for name, value in columns.items():
            async with self.deps.db.tx() as tx:
                await tx.run(f"UPDATE repos SET {name} = %(value)s WHERE id = %(id)s", {"value": value, "id": repo})


async def connected(
    deps: Deps, org: str, installation: int = INSTALLATION, login: str = "acme", account: int = 1
) -> Hub:
    """The account in an organization (its id), connected and enabled."""
    async with deps.db.tx() as tx:
        await tx.run(
            """
            INSERT INTO github_accounts
                (installation, org, account_id, login, kind, enabled, connected_at)
            VALUES (%(id)s, %(org)s, %(account)s, %(login)s, 'Organization', true, %(now)s)
            """,
            {
                "id": installation,
                "account": account,
                "org": org,
                "login": login,
                "now": deps.clock.now(),
            },
        )
    return Hub(deps, org, installation)
