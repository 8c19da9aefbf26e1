"""The schema's steps form one chain, and the runtime role may do to it what it must and no more."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import errors

from keel.testing.plugin import FreshDatabase
from onbe import migrations


def test_head_is_the_newest_step_of_one_chain() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [migrations.HEAD]


def test_a_migrated_database_has_nothing_to_do(onbe_database: FreshDatabase) -> None:
    assert migrations.migrate(onbe_database.owner) is False


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ledger",
        "UPDATE ledger SET outcome = 'ok'",
        "TRUNCATE ledger",
        "DELETE FROM ledger_leaves",
        "UPDATE ledger_checkpoints SET root = root",
        "UPDATE ledger_keys SET public = public",
        "DROP TABLE tasks",
        "CREATE TABLE mine (x int)",
        "UPDATE alembic_version SET version_num = 'x'",
    ],
)
def test_the_runtime_role_changes_neither_ledger_nor_schema(onbe_database: FreshDatabase, statement: str) -> None:
    with psycopg.connect(onbe_database.runtime) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(statement.encode())
