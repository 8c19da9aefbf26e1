"""What a jail is shown, where its files lie, and whose they are: without making one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.drivers.boxes.local import checkout, launcher, mounts, places
from rift.drivers.boxes.local.cgroups import Plan
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.driver import host_name
from rift.drivers.boxes.local.groups import Groups
from rift.drivers.boxes.protocol import BoxSpec, DriverError


def spec(network: str = "proxy") -> BoxSpec:
    return BoxSpec(
        *("b-1", 1, "app-main-1", "someone/app", "main", "0" * 40, Path("/data/mirror.git"), "https://example.org/app"),
        *("token", network, ("pypi.org",), 0, "http://127.0.0.1:7433"),
    )


def host(*, overlay: bool = True, shown: Path | None = None) -> mounts.Host:
    return mounts.Host(
        bwrap=Path("/lib/bwrap"),
        uv=Path("/lib/uv"),
        verb=Path("/lib/verb"),
        python="/usr/bin/python3",
        jail_python="/usr/bin/python3",
        python_shown=shown,
        agent=Path("/lib/agent.pyz"),
        launcher=Path("/lib/launcher.py"),
        git="/usr/bin/git",
        overlay=overlay,
        groups=Groups(Plan(), Path("/data")),
    )


def plan(*, overlay: bool = True, shown: Path | None = None) -> list[mounts.Mount]:
    config = LocalConfig(Path("/data"), certificates=None)
    return mounts.mounts(config, host(overlay=overlay, shown=shown), Path("/data/boxes/b-1"), spec(), ("ssl/certs",))


def test_only_the_box_s_own_places_are_writable() -> None:
    writable = {mount["target"]: mount["source"] for mount in plan() if mount["kind"] == "rw"}
    assert writable == {
        "/tmp": "/data/boxes/b-1/tmp",
        "/var": "/data/boxes/b-1/var",
        "/home/dev": "/data/boxes/b-1/home",
    }
    for mount in plan():
        if mount["kind"] == "overlay":
            assert mount["upper"].startswith("/data/boxes/b-1/layers/")
            assert mount["work"].startswith("/data/boxes/b-1/layers/")


def test_without_overlays_the_host_s_programs_are_read_only() -> None:
    kinds = {mount["target"]: mount["kind"] for mount in plan(overlay=False)}
    assert kinds["/usr"] == "ro"
    assert "overlay" not in kinds.values()


def test_nothing_is_mounted_below_a_place_the_box_can_change() -> None:
    changeable = [mount["target"] for mount in plan() if mount["kind"] in ("rw", "overlay")]
    for mount in plan():
        for place in changeable:
            assert not mount["target"].startswith(place + "/")


def test_the_host_s_secrets_and_other_boxes_are_not_among_what_is_shown() -> None:
    sources = {mount.get("source", "") for mount in plan()}
    for secret in ("/etc", "/etc/shadow", "/etc/gshadow", "/root", "/home", "/", "/run", "/data", "/data/boxes"):
        assert secret not in sources
    for name in mounts.shown_etc():
        assert not name.startswith(("shadow", "gshadow", "ssh/", "sudoers", "pip", "apt", "ssl/private", "npmrc"))


def test_a_python_of_its_own_is_shown_at_a_neutral_place() -> None:
    assert {"kind": "ro", "source": "/home/me/python", "target": "/run/rift/python"} in plan(
        shown=Path("/home/me/python")
    )


def test_a_box_without_network_is_told_of_no_proxy() -> None:
    config = LocalConfig(Path("/data"))
    assert "HTTPS_PROXY" in mounts.environment(config, spec())
    assert not [name for name in mounts.environment(config, spec("none")) if "proxy" in name.lower()]


def test_a_certificate_bundle_reaches_the_usual_programs() -> None:
    variables = mounts.environment(LocalConfig(Path("/data"), certificates=Path("/etc/own.pem")), spec())
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"):
        assert variables[name] == "/run/rift/certificates.pem"


def test_the_bundle_and_proxy_of_the_host_s_environment_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "own.pem"
    bundle.write_text("")
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NIX_SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert (LocalConfig(tmp_path).certificates, LocalConfig(tmp_path).upstream_proxy) == (None, "")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    found = LocalConfig(tmp_path)
    assert (found.certificates, found.upstream_proxy) == (bundle, "http://proxy.example:3128")
    for other in ("socks5://proxy.example", "http://me:secret@proxy.example", "http://proxy.example:none", "x"):
        monkeypatch.setenv("https_proxy", other)
        assert LocalConfig(tmp_path).upstream_proxy == ""
    bundle.chmod(0o600)
    assert LocalConfig(tmp_path).certificates is None


@pytest.mark.parametrize("data", ["/usr/share/rift", "/opt/rift", "/etc/rift", "/lib/rift"])
def test_a_data_folder_that_every_box_would_see_is_refused(data: str) -> None:
    with pytest.raises(DriverError, match="which every box sees"):
        mounts.check_shown((), Path(data))


@pytest.mark.parametrize("folder", ["/", "/home", "/root", "/var", "/data", "/usr/lib", "/etc", "/home/dev", "/tmp"])
def test_a_shown_folder_must_neither_hold_secrets_nor_stand_in_a_box_s_own(folder: str) -> None:
    with pytest.raises(DriverError, match="ShowReadOnly"):
        mounts.check_shown((Path(folder),), Path("/data/rift"))


def test_the_repository_s_short_name_is_what_follows_the_owner() -> None:
    assert spec().short_repository == "app"


@given(st.text(max_size=100))
def test_any_box_name_makes_a_host_name(name: str) -> None:
    made = host_name(name)
    assert 1 <= len(made) <= 63
    assert not made.startswith("-")
    assert not made.endswith("-")
    assert all(character.isascii() and (character.isalnum() or character == "-") for character in made)


@pytest.mark.parametrize("box", ["", ".", "..", ".lock-x", "a/b", "../x", "a\n", "-x", "x" * 201, "é"])
def test_what_is_no_box_s_id_never_becomes_a_path(box: str, tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="is not the id of a box"):
        places.box_path(LocalConfig(tmp_path), box)


def test_the_first_closed_folder_on_the_way_is_found() -> None:
    with tempfile.TemporaryDirectory() as folder:  # below the system's own, which all may enter
        Path(folder).chmod(0o755)
        closed = Path(folder, "open", "closed")
        (closed / "data").mkdir(parents=True)
        assert places.closed_parent(closed / "data" / "not there yet") is None
        closed.chmod(0o700)
        assert places.closed_parent(closed / "data") == closed.resolve()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's boxes have users of their own")
def test_a_container_with_too_few_users_is_told_which_to_take(tmp_path: Path) -> None:
    places.check_uids(LocalConfig(tmp_path))
    for name in ("uid_map", "gid_map"):
        (tmp_path / name).write_text("         0     100000      65536\n")
    with pytest.raises(DriverError, match="`Rift__Boxes__UidBase=55534`"):
        places.check_uids(LocalConfig(tmp_path), tmp_path)
    places.check_uids(LocalConfig(tmp_path, first_uid=55534), tmp_path)


@given(st.text(alphabet=st.characters(exclude_characters="\n\0", exclude_categories=["Cs", "Cc"]), min_size=1))
def test_git_reads_back_what_is_written_into_a_checkout_s_configuration(text: str) -> None:
    written = "\n".join(checkout.configuration(text, "main"))
    read = subprocess.run(
        ["git", "config", "--file", "-", "--get", "remote.origin.url"],
        input=written.encode(),
        capture_output=True,
        check=True,
    )
    assert read.stdout.decode() == text + "\n"


@pytest.mark.parametrize("text", ["a\nb", "a\0b"])
def test_an_address_with_a_line_break_is_refused(text: str) -> None:
    with pytest.raises(checkout.Failed):
        checkout.configuration(text, "main")


def test_a_file_is_replaced_and_a_link_in_its_place_not_followed(tmp_path: Path) -> None:
    precious, target = tmp_path / "precious", tmp_path / "token"
    precious.write_text("precious")
    target.symlink_to(precious)
    (tmp_path / "token.new").symlink_to(precious)
    launcher.write(str(target), "secret", 0o600)
    assert precious.read_text() == "precious"
    assert not target.is_symlink()
    assert target.read_text() == "secret"
    assert target.stat().st_mode & 0o777 == 0o600
