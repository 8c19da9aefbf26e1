"""What `onbe doctor` looks at: one finding a check, with what mends it. Nothing in a finding is a secret."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from keel.clock import SystemClock
from keel.db import Database, OperationalError
from keel.ids import SystemIds, digest
from keel.ledger import store as ledger
from keel.ledger.keys import KeyFolder
from keel.ledger.keys import KeyTrouble as LedgerTrouble
from keel.postgres import PostgresError
from keel.settings import Section, SettingsError, load
from onbe import app
from onbe.cli.place import SERVER_USER, Place
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.drivers.signing.ring import KeyTrouble
from onbe.drivers.sponsors.protocol import CannotAnswer
from onbe.health import store
from onbe.migrations import HEAD
from onbe.secrecy import for_logs
from onbe.settings import OnbeSettings

NOBODY = "onbe-doctor"
"""The person that the directory is asked about: that it knows none of that name is an answer."""
SECONDS = 10.0
"""How long one answer of another machine is waited for."""
CLOCK_SECONDS = 5.0


class Finding(NamedTuple):
    """One check: whether it holds, a sentence, and what mends it."""

    name: str
    ok: bool
    sentence: str
    mend: str | None = None


async def examine(place: Place) -> list[Finding]:
    """Every finding, in the order in which one would look."""
    found = [*_settings(place), *open_secrets(place), _user(), _keys(place)]
    async with AsyncExitStack() as held:
        try:
            started = await asyncio.to_thread(_start, place)
            if started:
                held.push_async_callback(asyncio.to_thread, _stop, place)
            db = await held.enter_async_context(Database(place.url("runtime"), patience=SECONDS))
            found += [one async for one in _database(place, db)]
        except (OperationalError, PostgresError, TimeoutError, OSError) as error:
            said = for_logs(str(error).strip().partition("\n")[0])
            found.append(Finding("database", False, f"The database cannot be used: {said}.", "Onbe:Database:Url"))
    found += [await _provider(place), await _directory(place)]
    return found


def _settings(place: Place) -> Iterator[Finding]:
    missing = list(place.settings.missing())
    for sentence in missing:
        yield Finding("settings", False, f"{sentence}.", f"a line in {place.data / 'onbe.toml'}, or the environment")
    if not missing:
        kind = "for development, on this machine alone" if place.settings.development.enabled else "complete"
        yield Finding("settings", True, f"The settings are {kind}; the issuer is {place.settings.issuer}.")
    if not place.settings.admin.keys and not place.settings.development.enabled:
        yield Finding("admin", False, "The admin API has no key, and lets nobody in.", "Onbe:Admin:Keys")
    file = place.data / "onbe.toml"
    if file.exists() and file.stat().st_mode & 0o007 and holds_secret(file):
        yield Finding("file", False, f"Everybody here may read {file}, and it holds a secret.",
                      f"chmod 640 {file}, and another secret")  # fmt: skip


def holds_secret(file: Path) -> bool:
    """Whether a file of settings sets one that is never shown."""
    try:
        told = load(OnbeSettings, {}, file)
    except SettingsError:  # alone it is not enough, or contradicts itself: what it holds is not known
        return True
    hidden = ((section, name) for section, kind in OnbeSettings.model_fields.items()
              if isinstance(kind.annotation, type) and issubclass(kind.annotation, Section)
              for name, info in kind.annotation.model_fields.items() if not info.repr)  # fmt: skip
    return any(getattr(getattr(told, section), name) for section, name in hidden)


def open_secrets(place: Place) -> Iterator[Finding]:
    """A settings file with a secret in it that every user of the machine may read."""
    settings, file = place.settings, place.data / "onbe.toml"
    secrets = (
        settings.sponsor_check.client_secret,
        settings.sponsor_check.token,
        settings.ledger.sink_token,
        settings.telemetry.metrics_token,
        settings.keys.pem,
    )
    try:
        others = file.stat().st_mode & stat.S_IRWXO
        text = file.read_text("utf-8") if others else ""
    except OSError:
        return
    # Of the admin keys only digests are known: a key in the file is a word of it that has one of them.
    words = {digest(word) for word in re.split(r"[\s\"',\[\]]+", text)}
    if words & set(settings.admin.digests) or any(secret in text for secret in secrets if secret):
        yield Finding(
            "file", False, f"Every user of this machine may read {file}, which has a secret.", f"chmod 600 {file}"
        )


def _user() -> Finding:
    if os.geteuid() == 0:
        return Finding("server", True, f"The server runs as the system user {SERVER_USER}; a small keeper stays root.")
    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        me = f"user {os.geteuid()}"
    return Finding("server", True, f"The server runs as {me}.")


def _keys(place: Place) -> Finding:
    try:
        kid = app.signing_kid(place.settings, place.data)
    except KeyTrouble as trouble:
        return Finding("keys", False, f"No key signs tokens: {trouble}.", place.spelled("keys generate"))
    if kid is None:
        return Finding("keys", True, "There is no key yet; a start for development makes one.")
    return Finding("keys", True, f"The key {kid} signs tokens.")


async def _database(place: Place, db: Database) -> AsyncIterator[Finding]:
    before = SystemClock().now()
    async with asyncio.timeout(SECONDS), db.look() as tx:
        at = await store.time_of(tx)
        kind = "its own" if place.postgres else "one that is named to it"
        yield Finding("database", True, f"The database answers; it is {kind}.")
        apart = abs((at - before).total_seconds())
        yield Finding("clock", apart < CLOCK_SECONDS, f"The database's clock and this one are {apart:.1f} s apart.",
                      None if apart < CLOCK_SECONDS else "NTP on both machines")  # fmt: skip
        if not await store.laid(tx):
            yield Finding("schema", False, "The database has no schema yet.", place.spelled("migrate"))
            return
        standing = await store.standing(tx)
        step = standing.step if standing else None
        held = step == HEAD
        yield Finding("schema", held, f"The schema is at step {step}" + ("." if held else f", and {HEAD} is needed."),
                      None if held else place.spelled("migrate"))  # fmt: skip
        age = standing.unsealed_age if standing else None
        newest = await ledger.newest(tx)
    late = age is not None and age > 3 * place.settings.ledger.seal_every.total_seconds() + 60
    head = f"checkpoint {newest.checkpoint.number}" if newest else "no checkpoint yet"
    waits = "" if age is None else f"; the oldest record that is not sealed is {age:.0f} s old"
    try:
        seen = KeyFolder(place.data / "audit").seen()
    except LedgerTrouble as trouble:
        yield Finding("ledger", False, f"What this host remembers of the ledger cannot be read: {trouble}.")
        return
    if seen and (newest is None or newest.checkpoint.number < seen[0]):
        sentence = f"The ledger's head is {head}, and this host has made checkpoint {seen[0]}: its end was cut off."
        yield Finding("ledger", False, sentence, place.spelled("audit verify"))
        return
    yield Finding(
        "ledger", not late, f"The ledger's head is {head}{waits}.", "a server that runs seals" if late else None
    )


async def _provider(place: Place) -> Finding:
    settings, name = place.settings, "identity provider"
    if settings.develops:
        return Finding(name, True, "The development issuer is a part of the server.")
    issuer = settings.subject_issuer
    if issuer is None:
        return Finding(name, False, "No identity provider is named.", "Onbe:Subjects:Issuer")
    try:
        async with asyncio.timeout(SECONDS):
            keys = await app.keys_of_issuer(settings, issuer)
    except (KeysUnavailable, TimeoutError) as error:
        said = f"{issuer} does not give its keys: {for_logs(str(error)) or 'it took too long'}."
        return Finding(name, False, said, "Onbe:Subjects:Issuer, or JwksUri beside it, where the provider is well")
    return Finding(name, keys > 0, f"{issuer} publishes {keys} {'key' if keys == 1 else 'keys'}.")


async def _directory(place: Place) -> Finding:
    settings, name, clock = place.settings, "sponsor directory", SystemClock()
    if settings.sponsor_check.provider is None and settings.development.enabled:
        return Finding(name, True, "The development issuer's one person is all the directory there is.")
    if any(settings.missing()):
        return Finding(name, False, "It is not asked while settings are missing.", "the settings above")
    own = app.own_issuer(settings, clock, SystemIds())
    try:
        async with asyncio.timeout(SECONDS), app.people(settings, clock, own) as directory:
            await directory.ask(NOBODY, clock.now())
    except (CannotAnswer, TimeoutError) as error:
        said = f"It does not answer: {for_logs(str(error)) or 'it took too long'}."
        return Finding(name, False, said, "the settings of Onbe:SponsorCheck, where the directory is well")
    return Finding(name, True, f"{settings.sponsor_check.provider} answers.")


def _start(place: Place) -> bool:
    postgres = place.postgres
    if postgres is None or postgres.running():
        return False
    postgres.start()
    return True


def _stop(place: Place) -> None:
    if place.postgres and not place.running():
        place.postgres.stop()
