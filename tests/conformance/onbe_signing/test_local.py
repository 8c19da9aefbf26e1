"""Where the keys of this host come from, and what keeps a start from going wrong with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from keel.testing import FakeClock
from onbe.drivers.signing.folder import KeyFolder, new_key
from onbe.drivers.signing.local import LOOK_SECONDS, LocalSigning
from onbe.drivers.signing.ring import KeyTrouble
from onbe.settings import DevelopmentSettings, KeySettings, OnbeSettings

Private = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def pem(private: Private | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    made = private or ec.generate_private_key(ec.SECP256R1())
    return made.private_bytes(Encoding.PEM, form, NoEncryption()).decode()


def public_pem(private: str) -> str:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(private.encode(), None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def file(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def signing(data: Path, clock: FakeClock | None = None, **keys: object) -> LocalSigning:
    return LocalSigning(OnbeSettings(keys=KeySettings.model_validate(keys)), data, clock or FakeClock())


def kids(made: LocalSigning) -> list[str]:
    return [key["kid"] for key in made.jwks()["keys"]]


def test_a_start_without_a_key_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(KeyTrouble, match="`onbe keys generate` makes one"):
        signing(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_key_of_a_file_or_of_the_settings_signs(tmp_path: Path, form: PrivateFormat) -> None:
    text = pem(form=form)
    by_file = signing(tmp_path, files=(file(tmp_path / "key.pem", text),))
    inline = signing(tmp_path, pem=text)
    in_one_line = signing(tmp_path, pem=text.replace("\n", "\\n"))
    assert by_file.active == inline.active == in_one_line.active
    assert inline.claims(by_file.sign({"iss": "http://127.0.0.1:7434"})) is not None


def test_of_several_keys_the_one_that_signs_is_named(tmp_path: Path) -> None:
    names = tuple(file(tmp_path / f"{number}.pem", pem()) for number in range(3))
    with pytest.raises(KeyTrouble, match="name one in Onbe:Keys:Active"):
        signing(tmp_path, files=names)
    each = [signing(tmp_path, files=(name,)).active for name in names]
    for kid in each:
        made = signing(tmp_path, files=names, active=kid)
        assert made.active == kid
        assert kids(made)[0] == kid
        assert sorted(kids(made)) == sorted(each)
    with pytest.raises(KeyTrouble, match=r"Onbe:Keys:Active names is not among"):
        signing(tmp_path, files=names, active="another")


def test_a_retired_key_may_be_kept_as_its_public_half(tmp_path: Path) -> None:
    old, new = pem(), pem()
    token = signing(tmp_path, pem=old).sign({"iss": "http://127.0.0.1:7434"})
    retired = file(tmp_path / "old.pem", public_pem(old), 0o644)  # nothing in it that others may not read
    made = signing(tmp_path, pem=new, files=(retired,))
    assert made.claims(token) is not None
    assert len(kids(made)) == 2
    with pytest.raises(KeyTrouble, match="there is no key that can sign"):
        signing(tmp_path, files=(retired,))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o606, 0o601])
def test_a_key_file_that_all_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    name = file(tmp_path / "key.pem", pem(), mode)
    with pytest.raises(KeyTrouble, match=f"others may read the key file {name}: `chmod 600"):
        signing(tmp_path, files=(name,))


def test_a_key_file_of_a_group_is_taken_as_a_mounted_secret_and_not_in_the_data_folder(tmp_path: Path) -> None:
    signing(tmp_path, files=(file(tmp_path / "key.pem", pem(), 0o440),))
    kid = KeyFolder(tmp_path / "keys").make(first=True)
    (tmp_path / "keys" / f"{kid}.pem").chmod(0o640)
    with pytest.raises(KeyTrouble, match="others may read"):
        signing(tmp_path)


WRONG: dict[str, Callable[[], str]] = {
    "nothing": lambda: "",
    "words": lambda: "a secret that must not be told",
    "a cut key": lambda: pem()[:100],
    "a key of RSA": lambda: pem(rsa.generate_private_key(65537, 2048)),
    "a key of Ed25519": lambda: pem(ed25519.Ed25519PrivateKey.generate()),
    "a key of another curve": lambda: pem(ec.generate_private_key(ec.SECP384R1())),
    "a locked key": lambda: (
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
        .decode()
    ),
    "a good key and a cut one": lambda: pem() + pem()[:100],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_key_for_es256_is_refused_without_repeating_it(tmp_path: Path, name: str) -> None:
    text = WRONG[name]()
    where = file(tmp_path / "key.pem", text)
    with pytest.raises(KeyTrouble) as caught:
        signing(tmp_path, files=(where,))
    assert where in str(caught.value)
    assert "onbe keys generate" in str(caught.value)
    assert not any(line and line in str(caught.value) for line in text.splitlines())


@pytest.mark.parametrize("lay", ["missing", "folder", "pipe", "link to nowhere"])
def test_a_key_file_that_is_no_file_is_told_and_never_waited_for(tmp_path: Path, lay: str) -> None:
    path = tmp_path / "key.pem"
    if lay == "folder":
        path.mkdir()
    elif lay == "pipe":
        os.mkfifo(path)
    elif lay == "link to nowhere":
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(KeyTrouble, match="the key file"):
        signing(tmp_path, files=(str(path),))


def test_a_key_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    KeyFolder(folder).make(first=True)
    KeyFolder(folder).make(first=False)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert len(list(folder.glob("*.pem"))) == 2


def test_of_many_that_make_the_first_key_one_does(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: KeyFolder(tmp_path / "keys").make(first=True), range(16)))
    assert len(set(made)) == 1
    assert len(KeyFolder(tmp_path / "keys").held().keys) == 1


def test_of_many_rotations_at_once_each_key_is_kept_and_one_signs(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: KeyFolder(tmp_path / "keys").make(first=False), range(8)))
    held = KeyFolder(tmp_path / "keys").held()
    assert {key.kid for key in held.keys} == set(made)
    assert held.active in made


def test_a_server_that_runs_follows_a_rotation_and_survives_a_broken_folder(tmp_path: Path) -> None:
    clock, folder = FakeClock(), KeyFolder(tmp_path / "keys")
    first = folder.make(first=True)
    made = signing(tmp_path, clock)
    second = folder.make(first=False)
    assert made.active == first
    clock.advance(LOOK_SECONDS)
    assert made.active == second
    (tmp_path / "keys" / "broken.pem").write_text("x")
    clock.advance(LOOK_SECONDS)
    assert made.active == second
    (tmp_path / "keys" / "broken.pem").unlink()
    third = folder.make(first=False)
    clock.advance(LOOK_SECONDS)
    assert kids(made)[0] == third
    assert sorted(kids(made)) == sorted([first, second, third])


def test_a_key_under_anothers_name_is_refused(tmp_path: Path) -> None:
    kid = KeyFolder(tmp_path / "keys").make(first=True)
    other, _ = new_key()
    (tmp_path / "keys" / f"{kid}.pem").write_bytes(other)
    with pytest.raises(KeyTrouble, match="holds another key than its name says"):
        signing(tmp_path)


def test_a_link_in_the_place_of_the_key_folder_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "keys").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyTrouble, match="is not a folder"):
        LocalSigning(OnbeSettings(development=DevelopmentSettings(enabled=True)), tmp_path, FakeClock())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_crash_between_the_key_and_its_name_leaves_the_one_of_before_signing(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    first = folder.make(first=True)
    data, key = new_key()
    (tmp_path / "keys" / f"{key.kid}.pem").write_bytes(data)
    (tmp_path / "keys" / f"{key.kid}.pem").chmod(0o600)
    (tmp_path / "keys" / "active.new").write_text("half")
    made = signing(tmp_path)
    assert made.active == first
    assert len(kids(made)) == 2
    third = folder.make(first=False)
    assert signing(tmp_path).active == third
