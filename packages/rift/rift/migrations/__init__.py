"""The database's schema, step by step. `migrate` brings any database to the newest step."""

from __future__ import annotations

from pathlib import Path

import psycopg
from psycopg import errors

HEAD = "0014"
"""The newest step. `tests/unit/test_migrations.py` holds it equal to Alembic's own answer."""


def current(url: str) -> str | None:
    """The step a database stands at, or None for an empty one."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        except errors.UndefinedTable:
            return None
    return str(row[0]) if row else None


def migrate(url: str) -> bool:
    """Bring the database at `url` (a libpq URL of the owner role) to `HEAD`. Whether there was anything to do."""
    if current(url) == HEAD:
        return False
    from alembic import command  # 0.3 s to import, needed only when there is work
    from alembic.config import Config

    config = Config(attributes={"url": sqlalchemy_url(url)})
    config.set_main_option("script_location", str(Path(__file__).parent))
    command.upgrade(config, "head")
    return True


def sqlalchemy_url(url: str) -> str:
    """The same database, spelled for SQLAlchemy with psycopg 3."""
    scheme, rest = url.split("://", 1)
    return f"postgresql+psycopg://{rest}" if scheme in ("postgres", "postgresql") else url
