"""The folder of keys: made once, closed to others, replaced with a word of the one before."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from keel.ledger.keys import KeyFolder, KeyTrouble, key_id, signed_by

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "audit")


def test_a_key_is_made_once_and_signs_what_its_public_half_checks(keys: KeyFolder) -> None:
    signer = keys.signer(NOW)
    assert keys.signer(NOW).key == signer.key
    assert keys.public() == {signer.key.id: signer.key}
    assert signer.key.id == key_id(signer.key.public)
    signature = signer.sign(b"this")
    assert signed_by(signer.key.public, signature, b"this")
    assert not signed_by(signer.key.public, signature, b"that")
    assert not signed_by(signer.key.public, bytes([signature[0] ^ 1]) + signature[1:], b"this")
    assert not signed_by(b"short", b"", b"this")


def test_the_private_key_is_open_to_nobody_else(keys: KeyFolder) -> None:
    keys.signer(NOW)
    keys.note(1, bytes(32))
    assert (keys.folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert keys.folder.stat().st_mode & 0o077 == 0
    assert not list(keys.folder.rglob("*.new"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_may_read_is_not_used(keys: KeyFolder, mode: int) -> None:
    keys.signer(NOW)
    path = keys.folder / "key.pem"
    path.chmod(mode)
    with pytest.raises(KeyTrouble, match=f"chmod 600 {path}"):
        keys.signer(NOW)


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_holds_no_key_is_said_and_never_replaced(keys: KeyFolder, text: str) -> None:
    keys.signer(NOW)
    path = keys.folder / "key.pem"
    path.write_text(text)
    for act in (keys.signer, keys.rotate):
        with pytest.raises(KeyTrouble, match="no Ed25519 key"):
            act(NOW)
    assert path.read_text() == text


def test_a_new_key_is_endorsed_by_the_old_one_which_is_gone(keys: KeyFolder) -> None:
    first = keys.signer(NOW)
    second = keys.rotate(NOW)
    assert keys.signer(NOW).key == second.key != first.key
    assert second.key.previous == first.key.id
    assert second.key.endorsed_by(keys.public())
    assert not second.key.endorsed_by({})
    assert set(keys.public()) == {first.key.id, second.key.id}
    assert not first.key.endorsed_by(keys.public())
    written = first.private.private_bytes_raw()
    assert not any(written in path.read_bytes() for path in keys.folder.rglob("*") if path.is_file())


def test_many_who_begin_at_once_find_one_key(keys: KeyFolder) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: keys.signer(NOW).key.id, range(32)))
    assert len(set(found)) == 1
    assert len(keys.public()) == 1


def test_the_newest_checkpoint_is_remembered_and_never_an_older_one(keys: KeyFolder) -> None:
    assert keys.seen() is None
    keys.note(2, b"\2" * 32)
    keys.note(1, b"\1" * 32)
    assert keys.seen() == (2, b"\2" * 32)
    (keys.folder / "seen.json").write_text("{")
    with pytest.raises(KeyTrouble, match=r"seen\.json"):
        keys.seen()


def test_a_public_key_under_another_name_is_not_taken(keys: KeyFolder) -> None:
    path = keys.folder / "keys" / f"{keys.signer(NOW).key.id}.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "public": "00" * 32}))
    with pytest.raises(KeyTrouble, match="not the one that its name says"):
        keys.public()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files that are another user's")
def test_what_root_makes_is_the_data_folders_owners(passable: Path) -> None:
    os.chown(passable, 12345, 12345)
    keys = KeyFolder(passable / "audit")
    keys.signer(NOW)
    keys.rotate(NOW)
    keys.note(1, bytes(32))
    assert {path.stat().st_uid for path in [keys.folder, *keys.folder.rglob("*")]} == {12345}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files that are another user's")
def test_the_folder_is_given_to_whom_the_server_runs_as_and_what_root_makes_there_later_too(passable: Path) -> None:
    keys = KeyFolder(passable / "audit")
    keys.signer(NOW)  # as `rift audit` of root does before a server ever ran
    keys.give(12345, 12346)
    keys.rotate(NOW)
    keys.note(1, bytes(32))
    assert {path.stat().st_uid for path in [keys.folder, *keys.folder.rglob("*")]} == {12345}
    assert keys.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root would write where another user's link leads")
@pytest.mark.parametrize("name", ["lock", "keys", "."])
def test_a_link_in_the_folder_leads_root_nowhere(tmp_path: Path, name: str) -> None:
    keys, elsewhere = KeyFolder(tmp_path / "audit"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    if name == ".":
        keys.folder.symlink_to(elsewhere)
    else:
        keys.folder.mkdir(mode=0o700)
        (keys.folder / name).symlink_to(elsewhere / "made" if name == "lock" else elsewhere)
    with pytest.raises(KeyTrouble):
        keys.signer(NOW)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could open what the folder's owner may not")
@pytest.mark.parametrize("name", ["key.pem", "key.pem.new", "seen.json", "seen.json.new", "keys", "lock"])
def test_what_the_folders_owner_lays_there_opens_nothing_of_roots(passable: Path, name: str) -> None:
    keys, secret = KeyFolder(passable / "audit"), passable / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key.json").write_text('{"number": 7, "hash": "00"}')
    keys.signer(NOW)
    keys.give(12345, 12345)
    laid = keys.folder / name
    if laid.is_dir():
        laid.rename(keys.folder / "away")
    laid.unlink(missing_ok=True)
    laid.symlink_to(secret if name == "keys" else secret / "key.json")
    for act in (keys.seen, keys.public, lambda: keys.rotate(NOW), lambda: keys.note(9, bytes(32))):
        with suppress(KeyTrouble):
            assert act() != (7, b"\0")
    assert [path.name for path in secret.iterdir()] == ["key.json"]
    assert (secret / "key.json").read_text() == '{"number": 7, "hash": "00"}'
    assert {path.lstat().st_uid for path in (secret, secret / "key.json")} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_giving_the_folder_away_gives_nothing_that_is_elsewhere_too(tmp_path: Path) -> None:
    keys, roots = KeyFolder(tmp_path / "audit"), tmp_path / "roots"
    keys.signer(NOW)
    roots.mkdir()
    (roots / "file").write_text("")
    os.link(roots / "file", keys.folder / "hard")
    os.link(roots / "file", keys.folder / "keys" / "hard.json")
    (keys.folder / "soft").symlink_to(roots / "file")
    os.mkfifo(keys.folder / "pipe")
    keys.give(12345, 12345)
    assert (roots / "file").stat().st_uid == 0
    (keys.folder / "keys").rename(keys.folder / "away")
    (keys.folder / "keys").symlink_to(roots)
    with pytest.raises(KeyTrouble):
        keys.give(12345, 12345)
    assert {path.stat().st_uid for path in (roots, roots / "file")} == {0}


@pytest.mark.parametrize("name", ["key.pem", "seen.json"])
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(keys: KeyFolder, name: str) -> None:
    keys.signer(NOW)
    (keys.folder / name).unlink(missing_ok=True)
    os.mkfifo(keys.folder / name, 0o600)
    with pytest.raises(KeyTrouble):
        keys.signer(NOW) if name == "key.pem" else keys.seen()
