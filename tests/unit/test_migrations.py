"""The steps of the schema: which is the newest, and that each leads back, or says why it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory

from keel.testing.plugin import Cluster
from rift import migrations

SCHEMA = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod) || a.attnotnull
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'right', relname, '', relacl::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
"""
"""What the catalogs have of tables, their constraints, indexes and triggers, and who may do what."""


def config(url: str = "") -> Config:
    found = Config(attributes={"url": migrations.sqlalchemy_url(url)} if url else {})
    found.set_main_option("script_location", str(Path(migrations.__file__).parent))
    return found


def steps() -> list[Script]:
    """Every step, the first one first."""
    return list(ScriptDirectory.from_config(config()).walk_revisions())[::-1]


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[str]:
    """The owner's address of a database without any schema."""
    made = cluster.create("migrated_there_and_back", "template0")
    yield made.owner
    cluster.drop(made.name)


def schema(url: str) -> set[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return set(connection.execute(SCHEMA).fetchall())


def test_the_newest_step_is_the_one_that_alembic_finds() -> None:
    assert ScriptDirectory.from_config(config()).get_heads() == [migrations.HEAD]


def test_each_step_leads_back_to_what_was_before_it_or_says_why_it_does_not(empty: str) -> None:
    there = config(empty)
    before = schema(empty)
    for step in steps():
        command.upgrade(there, step.revision)
        after = schema(empty)
        if hasattr(step.module, "downgrade"):
            command.downgrade(there, str(step.down_revision))
            assert schema(empty) == before, step.revision
            command.upgrade(there, step.revision)
            assert schema(empty) == after, step.revision
        else:
            assert "There is no way back" in step.longdoc, step.revision
        before = after
