"""A Postgres of its own for the whole matrix, as pytest's plugin makes one for a run of tests."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from keel.postgres import SUPERUSER, EmbeddedPostgres
from keel.testing.plugin import Cluster

TEMPLATE = "template_of_tests"


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster with the migrated template in it, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    folder.chmod(0o711)
    postgres = EmbeddedPostgres(folder, durable=False)
    try:
        postgres.start()
        with psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True) as admin:
            made = Cluster(postgres, admin)
            made.create(TEMPLATE, "template0")
            importlib.import_module("rift.migrations").migrate(postgres.url(postgres.owner, TEMPLATE))
            yield made
    finally:
        postgres.remove()
        shutil.rmtree(folder, ignore_errors=True)
