"""Secrets at rest: what is sealed, by which key, and where the keys are."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from keel.testing import FakeIds
from keel.vault import KEY_BYTES, Vault, VaultTrouble, key_of, vault_of
from keel.vault_folder import FolderKeys, read_key, told_key

OLD, NEW = b"o" * KEY_BYTES, b"n" * KEY_BYTES


@pytest.fixture
def keys(tmp_path: Path) -> FolderKeys:
    return FolderKeys(tmp_path / "vault")


def vault(keys: FolderKeys) -> Vault:
    return Vault(keys, FakeIds("vault"))


def test_what_is_sealed_opens_again_and_shows_nothing_of_itself() -> None:
    one = vault_of([OLD], FakeIds("vault"))
    sealed = one.seal(b"the value", "secret r API_KEY")
    assert b"the value" not in sealed
    assert one.open(sealed, "secret r API_KEY") == b"the value"
    assert one.seal(b"the value", "secret r API_KEY") != sealed
    assert "o" * 8 not in repr(one)


def test_what_is_sealed_about_one_thing_does_not_open_about_another() -> None:
    one = vault_of([OLD], FakeIds("vault"))
    sealed = one.seal(b"the value", "secret r API_KEY")
    with pytest.raises(VaultTrouble, match="stands where it was not put"):
        one.open(sealed, "secret other API_KEY")


@pytest.mark.parametrize("at", [0, 1, 9, 21, -1])
def test_a_changed_byte_anywhere_is_noticed(at: int) -> None:
    one = vault_of([OLD], FakeIds("vault"))
    sealed = bytearray(one.seal(b"the value", "this"))
    sealed[at] ^= 1
    with pytest.raises(VaultTrouble):
        one.open(bytes(sealed), "this")


@pytest.mark.parametrize("text", [b"", b"\x01", b"\x01" * 21, b"plain"])
def test_what_was_never_sealed_is_said_to_be_nothing(text: bytes) -> None:
    with pytest.raises(VaultTrouble, match="is none"):
        vault_of([OLD], FakeIds("vault")).open(text, "this")


def test_the_newest_key_seals_and_older_ones_open() -> None:
    before, after = vault_of([OLD], FakeIds("a")), vault_of([OLD, NEW], FakeIds("b"))
    sealed = before.seal(b"value", "this")
    assert after.open(sealed, "this") == b"value"
    fresh = after.seal(b"value", "this")
    assert key_of(fresh) != key_of(sealed)
    with pytest.raises(VaultTrouble, match=f"the key {key_of(fresh).hex()} .* is not here"):
        before.open(fresh, "this")


@pytest.mark.parametrize("keys", [[], [b"short"], [OLD, b""]])
def test_keys_have_one_length(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        vault_of(keys, FakeIds("vault"))


def test_a_key_is_made_when_something_is_first_sealed_and_not_before(keys: FolderKeys) -> None:
    assert keys.held() is None
    with pytest.raises(VaultTrouble, match="is not here"):
        vault(keys).open(vault_of([OLD], FakeIds("x")).seal(b"value", "this"), "this")
    assert not keys.folder.exists()
    sealed = vault(keys).seal(b"value", "this")
    assert vault(FolderKeys(keys.folder)).open(sealed, "this") == b"value"
    assert keys.folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in keys.folder.glob("*.key")] == [0o600]


def test_a_process_that_runs_finds_the_key_that_another_made(keys: FolderKeys) -> None:
    here, there = FolderKeys(keys.folder), FolderKeys(keys.folder)
    sealed = vault(here).seal(b"value", "this")
    made = there.rotate()
    fresh = vault(there).seal(b"value", "this")
    assert key_of(fresh) == made.id != key_of(sealed)
    assert vault(here).open(fresh, "this") == b"value"
    assert key_of(vault(here).seal(b"value", "this")) == made.id
    assert [one.number for one in here.listed()] == [1, 2]


def test_an_older_key_is_taken_away_and_the_newest_never(keys: FolderKeys) -> None:
    old = keys.rotate()
    sealed = vault(keys).seal(b"value", "this")
    new = keys.rotate()
    keys.take_away(new.id)
    keys.take_away(old.id)
    assert [one.id for one in keys.listed()] == [new.id]
    with pytest.raises(VaultTrouble, match="your backup of the keys has it"):
        vault(keys).open(sealed, "this")
    assert keys.rotate().number == 3


def test_many_who_seal_first_at_once_make_one_key(keys: FolderKeys) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: FolderKeys(keys.folder).first().newest, range(8)))
    assert len(set(made)) == 1
    assert len(keys.listed()) == 1


def test_what_a_kill_leaves_half_written_is_no_key(keys: FolderKeys) -> None:
    first = keys.rotate()
    (keys.folder / "0002-0123456789abcdef.key.new").write_text("half")
    assert [one.id for one in keys.listed()] == [first.id]
    keys.rotate()
    assert len(keys.listed()) == 2


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_not_used(keys: FolderKeys, mode: int) -> None:
    keys.rotate()
    path = next(keys.folder.glob("*.key"))
    path.chmod(mode)
    with pytest.raises(VaultTrouble, match=f"chmod 600 {path}"):
        keys.first()


def test_a_folder_that_others_may_write_to_is_not_used(keys: FolderKeys) -> None:
    keys.rotate()
    keys.folder.chmod(0o770)
    with pytest.raises(VaultTrouble, match="chmod 700"):
        FolderKeys(keys.folder).held()


@pytest.mark.parametrize("text", ["", "no base64 at all!", told_key(NEW), told_key(b"short")])
def test_a_file_that_does_not_hold_the_key_of_its_name_is_said_and_never_replaced(keys: FolderKeys, text: str) -> None:
    keys.rotate()
    path = next(keys.folder.glob("*.key"))
    path.write_text(text)
    with pytest.raises(VaultTrouble, match="copy of your backup"):
        FolderKeys(keys.folder).first()
    assert path.read_text() == text


def test_a_link_in_the_place_of_a_key_or_of_the_folder_is_not_followed(keys: FolderKeys, tmp_path: Path) -> None:
    keys.rotate()
    path = next(keys.folder.glob("*.key"))
    path.rename(tmp_path / "away")
    path.symlink_to(tmp_path / "away")
    with pytest.raises(VaultTrouble, match="no link"):
        FolderKeys(keys.folder).held()
    keys.folder.rename(tmp_path / "vault-away")
    keys.folder.symlink_to(tmp_path / "vault-away")
    for act in (FolderKeys(keys.folder).held, FolderKeys(keys.folder).rotate):
        with pytest.raises(VaultTrouble, match="is not a folder"):
            act()


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(keys: FolderKeys) -> None:
    keys.rotate()
    path = next(keys.folder.glob("*.key"))
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(VaultTrouble):
        FolderKeys(keys.folder).held()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files that are another user's")
def test_a_key_of_a_stranger_is_not_used(passable: Path) -> None:
    keys = FolderKeys(passable / "vault")
    keys.rotate()
    keys.give(12345, 12345)
    path = next(keys.folder.glob("*.key"))
    os.chown(path, 12346, 12345)
    with pytest.raises(VaultTrouble):
        FolderKeys(keys.folder).held()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files that are another user's")
def test_the_folder_is_given_to_whom_the_server_runs_as_and_what_root_makes_there_later_too(passable: Path) -> None:
    keys = FolderKeys(passable / "vault")
    keys.rotate()  # as a command of root's does before a server ever ran
    keys.give(12345, 12346)
    keys.rotate()
    assert {path.stat().st_uid for path in [keys.folder, *keys.folder.rglob("*")]} == {12345}
    assert keys.folder.stat().st_mode & 0o777 == 0o700
    assert len(keys.listed()) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root would write where another user's link leads")
@pytest.mark.parametrize("name", ["lock", "."])
def test_a_link_in_the_folder_leads_root_nowhere(tmp_path: Path, name: str) -> None:
    keys, elsewhere = FolderKeys(tmp_path / "vault"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    if name == ".":
        keys.folder.symlink_to(elsewhere)
    else:
        keys.folder.mkdir(mode=0o700)
        (keys.folder / name).symlink_to(elsewhere / "made")
    for act in (keys.rotate, lambda: keys.give(12345, 12345)):
        with suppress(VaultTrouble):
            act()
    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_uid == 0


def test_keys_are_spelled_in_base64_and_nothing_else_is_one() -> None:
    assert read_key(told_key(OLD)) == OLD
    assert read_key(f" {told_key(OLD)}\n") == OLD
    for wrong in ("", "a", told_key(b"short"), told_key(OLD) + "!", "é" * 44):
        assert read_key(wrong) is None
