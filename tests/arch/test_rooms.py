"""Each line of code in its room: rules of the house that imports and names can show. docs/ARCHITECTURE.md says why."""

from __future__ import annotations

import ast
import fnmatch
import sys

import pytest
from tests.arch.source import PACKAGES, PRODUCTS, Source, modules, nouns

DATABASE = ("psycopg", "psycopg_pool", "sqlalchemy", "alembic", "procrastinate")
DATABASE_ROOMS = (
    "keel.db", "keel.jobs", "keel.postgres_tenants", "keel.signals",
    "keel.ledger.append", "keel.ledger.store",
    "keel.ledger.archive_store", "keel.testing.plugin", "keel.vault_rows",
    "rift.migrations", "rift.migrations.*", "rift.tables", "rift.*.store",
    "onbe.migrations", "onbe.migrations.*", "onbe.*.store",
)  # fmt: skip

TIME_AND_CHANCE = ("time", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom")
NOW = (
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
)  # fmt: skip
TIME_ROOMS = (
    "keel.clock", "keel.ids", "rift.app", "onbe.app",
    "onbe_client.clock",  # a library of its own, which takes nothing from keel
    "rift_agent", "rift_agent.*",  # a program of its own, which stands on nothing of ours
    "keel.postgres",  # waits for processes of the operating system, which no fake clock would hurry
)  # fmt: skip

PURE = {
    "__future__", "base64", "codecs", "collections", "dataclasses", "datetime", "difflib", "enum",
    "functools", "hashlib", "itertools", "json", "math",
    "operator", "re", "shlex", "string", "struct", "textwrap", "types", "typing", "unicodedata", "urllib.parse", "zlib",
}  # fmt: skip
PURE_OURS = (
    "keel.refusal", "keel.ids", "keel.secrecy", "keel.sizes", "keel.durations", "rift.names", "rift.times",
    "rift.secrecy", "rift.drivers.forge.packets", "rift.drivers.github.protocol",
    "rift.*.model", "rift.*.refusals", "rift.*.decide",
    "onbe.names", "onbe.catalogue", "onbe.keyset", "onbe.*.model", "onbe.*.refusals", "onbe.*.decide",
)  # fmt: skip

NOUN_FILES = {"__init__.py", "model.py", "decide.py", "refusals.py", "store.py", "actions.py", "jobs.py"}

CONCRETE_DRIVERS = (
    "rift.drivers.boxes.*", "rift.drivers.carrier.*", "rift.drivers.documents.*", "rift.drivers.forge.*",
    "rift.drivers.post.*", "rift.drivers.signon.*", "rift.drivers.github.*", "rift.drivers.nix.*",
    "onbe.drivers.*.*",
)  # fmt: skip
PROTOCOLS = (
    "rift.drivers.boxes.protocol", "rift.drivers.boxes.allow", "rift.drivers.carrier.protocol",
    "rift.drivers.documents.protocol", "rift.drivers.forge.packets", "rift.drivers.forge.protocol",
    "rift.drivers.post.protocol", "rift.drivers.signon.protocol",
    "rift.drivers.github.protocol", "rift.drivers.nix.protocol",
    "onbe.drivers.development.protocol", "onbe.drivers.keys.protocol", "onbe.drivers.signing.protocol",
    "onbe.drivers.sink.protocol",
    "onbe.drivers.sponsors.protocol",
)  # fmt: skip


REACHED_BY = (
    "mcp", "starlette", "fastapi", "uvicorn", "httpx2", "httpx", "typer", "rich",
    "rift.wire", "rift.app", "rift.cli", "onbe.wire", "onbe.app", "onbe.cli",
)  # fmt: skip


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def begins(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def parts_of(source: Source, part: str) -> bool:
    """Whether a file is the `part` (as `decide`) of a noun."""
    product, *rest = source.name.split(".")
    return len(rest) == 2 and rest[0] in nouns(product) and rest[1] == part


def test_time_and_chance_come_from_outside() -> None:
    wrong = [
        f"{source.place}:{line} uses {name}; take it from Deps (clock, ids)"
        for source in modules()
        if not matches(source.name, TIME_ROOMS)
        for name, line in source.uses
        if begins(name, TIME_AND_CHANCE) or name in NOW
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_database_rooms_speak_to_the_database() -> None:
    wrong = [
        f"{source.place} imports {name}; SQL lives in store.py, tables.py, migrations/ and keel.db"
        for source in modules()
        if not matches(source.name, DATABASE_ROOMS)
        for name in source.imports
        if begins(name, DATABASE)
    ]
    assert not wrong, "\n".join(wrong)


def test_sql_stands_in_the_database_rooms_alone() -> None:
    wrong = [
        f"{source.place}:{node.lineno} gives tx.{node.func.attr}() a statement; a store does"
        for source in modules()
        if not matches(source.name, DATABASE_ROOMS)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "tx"
        if node.func.attr in ("one", "all", "row", "rows", "run", "many")
    ]
    assert not wrong, "\n".join(wrong)


def test_a_decision_is_made_of_plain_values() -> None:
    wrong = []
    for source in modules(*PRODUCTS):
        if not parts_of(source, "decide") and not parts_of(source, "model") and not parts_of(source, "refusals"):
            continue
        for name in source.imports:
            pure = begins(name, tuple(PURE))
            ours = any(matches(name[: len(name) - cut], PURE_OURS) for cut in (0, len(name.rpartition(".")[2]) + 1))
            if not pure and not ours:
                wrong.append(f"{source.place} imports {name}, which may read the world")
        wrong += [
            f"{source.place}:{node.lineno} is async; a decision waits for nothing"
            for node in ast.walk(source.tree)
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        ]
    assert not wrong, "\n".join(wrong)


def test_a_store_never_commits_nor_opens_a_transaction() -> None:
    wrong = [
        f"{source.place}:{node.lineno} calls .{node.func.attr}(); whoever opened the transaction ends it"
        for source in modules(*PRODUCTS)
        if parts_of(source, "store")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("commit", "rollback", "tx")
    ]
    assert not wrong, "\n".join(wrong)


def test_a_noun_leaves_the_stores_of_other_nouns_alone() -> None:
    wrong = []
    for source in modules(*PRODUCTS):
        room = source.name.split(".")[1:2]
        for name in source.imports:
            _, *rest = name.split(".")
            if (
                name.startswith(f"{source.package}.")
                and len(rest) > 1
                and rest[0] in nouns(source.package)
                and rest[1] == "store"
                and [rest[0]] != room
            ):
                wrong.append(f"{source.place} imports {name}; use that noun's actions")
    assert not wrong, "\n".join(wrong)


def test_concrete_drivers_are_chosen_by_the_app_alone() -> None:
    wrong = [
        f"{source.place} imports {name}; only app.py knows which driver it is"
        for source in modules(*PRODUCTS)
        if not source.name.startswith(tuple(f"{one}.{room}" for one in PRODUCTS for room in ("drivers", "app", "cli")))
        for name in source.imports
        if matches(name, CONCRETE_DRIVERS) and not begins(name, PROTOCOLS)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_noun_folder_holds_the_five_files_and_its_jobs() -> None:
    wrong = [
        path.relative_to(PACKAGES[product]).as_posix()
        for product in PRODUCTS
        for noun in nouns(product)
        for path in (PACKAGES[product] / product / noun).iterdir()
        if path.name not in NOUN_FILES and path.name != "__pycache__"
    ]
    assert not wrong, "\n".join(wrong)


def test_nouns_know_nothing_of_how_they_are_reached() -> None:
    wrong = [
        f"{source.place} imports {name}"
        for source in modules(*PRODUCTS)
        if source.name.split(".")[1:2] and source.name.split(".")[1] in nouns(source.package)
        for name in source.imports
        if begins(name, REACHED_BY)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_agent_needs_the_standard_library_alone() -> None:
    wrong = [
        f"{source.place} imports {name}"
        for source in modules("rift_agent")
        for name in source.imports
        if name.partition(".")[0] not in sys.stdlib_module_names and not begins(name, ("rift_agent",))
    ]
    assert not wrong, "\n".join(wrong)


def test_keel_knows_neither_half() -> None:
    wrong = [
        f"{source.place} imports {name}"
        for source in modules("keel")
        for name in source.imports
        if begins(name, ("rift", "rift_agent", "onbe", "onbe_client"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["rift", "rift_agent", "onbe", "onbe_client"])
def test_the_kit_of_tests_is_used_by_tests_alone(package: str) -> None:
    assert [
        source.place for source in modules(package) for name in source.imports if begins(name, ("keel.testing",))
    ] == []
