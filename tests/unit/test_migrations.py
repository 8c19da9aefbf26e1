"""The schema's newest step, named by `rift.migrations` itself, as asking Alembic takes too long at each start."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from rift import migrations


def test_the_newest_step_is_the_one_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    assert ScriptDirectory.from_config(config).get_heads() == [migrations.HEAD]
