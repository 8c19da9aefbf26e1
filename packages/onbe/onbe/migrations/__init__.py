"""The database's schema, step by step. `migrate` brings any database to the newest step.

Everything of Onbe's stands in a schema of its own, so that it may share a database with anything.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import errors

HEAD = "0001"
"""The newest step. `tests/unit/onbe/test_migrations.py` holds it equal to Alembic's own answer."""
SCHEMA = "onbe"


def in_schema(url: str) -> str:
    """The same address, with Onbe's schema as the one where names are looked up."""
    joined = "&" if urlsplit(url).query else "?"
    return f"{url}{joined}options={quote(f'-c search_path={SCHEMA}', safe='')}"


def current(url: str) -> str | None:
    """The step a database stands at, or None for one without our schema."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            row = connection.execute("SELECT version_num FROM onbe.alembic_version").fetchone()
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            return None
    return str(row[0]) if row else None


def migrate(url: str) -> bool:
    """Bring the database at `url` (a libpq URL of the owner role) to `HEAD`. Whether there was anything to do."""
    if current(url) == HEAD:
        return False
    from alembic import command  # 0.3 s to import, needed only when there is work
    from alembic.config import Config

    config = Config(attributes={"url": sqlalchemy_url(in_schema(url))})
    config.set_main_option("script_location", str(Path(__file__).parent))
    command.upgrade(config, "head")
    return True


def sqlalchemy_url(url: str) -> str:
    """The same database, spelled for SQLAlchemy with psycopg 3."""
    scheme, rest = url.split("://", 1)
    return f"postgresql+psycopg://{rest}" if scheme in ("postgres", "postgresql") else url
