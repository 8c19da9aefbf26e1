from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from keel.settings import Row, SettingsError, load, render, table
from rift.settings import RiftSettings


def errors_of(environment: dict[str, str], file: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(RiftSettings, environment, file)
    return caught.value.errors


def test_an_empty_environment_gives_the_defaults() -> None:
    assert load(RiftSettings, {"PATH": "/bin", "RIFT_DATA": "/x"}) == RiftSettings()


@pytest.mark.parametrize(
    "name",
    ["Rift__Tasks__QuietLease", "RIFT__TASKS__QUIET_LEASE", "rift__tasks__quietlease", "RIFT__tasks__Quiet_Lease_"],
)
def test_a_name_is_known_in_any_case_and_with_any_underscores(name: str) -> None:
    assert load(RiftSettings, {name: "PT1H30M"}).tasks.quiet_lease == timedelta(minutes=90)


def test_every_error_is_told_at_once_and_in_the_colon_form() -> None:
    told = errors_of({"rift__server__port": "70000", "RIFT__TASKS__QUIET_LEASE": "30", "Rift__Boxes__UidBase": "x"})
    assert told == (
        "Rift:Server:Port: should be at most 65535",
        "Rift:Tasks:QuietLease: should be a duration as in ISO 8601, for example PT30M or P1D",
        "Rift:Boxes:UidBase: should be a whole number",
    )


ANY_TEXT = (
    *("Rift:Server:Host", "Rift:Mail:User", "Rift:Mail:Password"),
    *("Rift:SignIn:OidcClient", "Rift:SignIn:OidcSecret", "Rift:SignIn:OidcName"),
    "Rift:Github:WebhookSecret",
)
"""Another system's names and secrets: no text is wrong."""


@pytest.mark.parametrize(
    "row",
    [row for row in table(RiftSettings) if not row.name.startswith(ANY_TEXT)],
    ids=lambda row: row.name,
)
def test_no_error_echoes_the_value_it_is_about(row: Row) -> None:
    name = row.name
    told = errors_of({name.replace(":", "__"): "s3cr3t://hunter2"})
    assert told[0].startswith(name)
    assert "hunter2" not in "".join(told)
    assert "s3cr3t" not in "".join(told)


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    assert errors_of({"RIFT__SERVER__PROT": "1"}) == (
        "Rift:SERVER:PROT (in the environment) is not a setting; the nearest is Rift:Server:Port",
    )


def test_two_spellings_of_one_name_with_two_values_are_an_error() -> None:
    told = errors_of({"RIFT__SERVER__PORT": "1", "rift__server__port": "2"})
    assert told == ("Rift:Server:Port is set twice in the environment, to different values",)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rift.toml"
    file.write_text('[server]\nport = 8000\nhosts = ["a", "b"]\n[tasks]\nquiet_lease = "PT5M"\n')
    settings = load(RiftSettings, {"RIFT__SERVER__PORT": "9000"}, file)
    assert (settings.server.port, settings.server.hosts) == (9000, ("a", "b"))
    assert settings.tasks.quiet_lease == timedelta(minutes=5)


def test_an_unknown_name_and_a_wrong_value_in_the_file_are_both_told(tmp_path: Path) -> None:
    file = tmp_path / "rift.toml"
    file.write_text('colour = 1\n[server]\nport = "x"\n')
    told = errors_of({}, file)
    assert told[0].startswith("Rift:colour (in the file rift.toml) is not a setting")
    assert told[1] == "Rift:Server:Port: should be a whole number"


def test_a_file_that_is_no_toml_is_told_without_its_text(tmp_path: Path) -> None:
    file = tmp_path / "rift.toml"
    file.write_text("[server\npassword=hunter2")
    (told,) = errors_of({}, file)
    assert "cannot be read as TOML" in told
    assert "hunter2" not in told


def test_a_lease_longer_than_the_task_is_a_contradiction() -> None:
    (told,) = errors_of({"RIFT__TASKS__QUIET_LEASE": "P1D"})
    assert "Rift:Tasks:QuietLease" in told
    assert "Rift:Tasks:QuietClose" in told


@pytest.mark.parametrize(
    ("given_url", "kept"),
    [("https://Rift.example.com/", "https://rift.example.com"), ("http://localhost:7433", "http://localhost:7433"),
     ("http://[::1]:7433", "http://[::1]:7433")],
)  # fmt: skip
def test_a_public_address_is_kept_without_its_slash(given_url: str, kept: str) -> None:
    assert load(RiftSettings, {"RIFT__SERVER__PUBLIC_URL": given_url}).server.public_url == kept


@pytest.mark.parametrize(
    "url",
    [
        "http://rift.example.com",
        "https://a/path",
        "https://u:p@a",
        "ftp://a",
        "rift.example.com",
        "https://a:x",
        "https://[",
        "",
    ],
)
def test_a_public_address_that_is_not_https_or_has_more_is_refused(url: str) -> None:
    assert errors_of({"RIFT__SERVER__PUBLIC_URL": url})[0].startswith(
        "Rift:Server:PublicUrl: should be an address like"
    )


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_reads_back_as_it_is_rendered(seconds: int) -> None:
    value = timedelta(seconds=seconds)
    if value == timedelta(0):
        assert render(value) == "PT0S"
        return
    assert load(RiftSettings, {"RIFT__REPOS__POLL_EVERY": render(value)}).repos.poll_every == value


@pytest.mark.parametrize("text", ["P", "PT", "30", "PT-5M", "-PT5M", "P1Y", "P1M", "PT5", "5M", "", "PT1.5H"])
def test_what_is_no_iso_duration_is_refused(text: str) -> None:
    assert errors_of({"RIFT__REPOS__POLL_EVERY": text})[0].startswith("Rift:Repos:PollEvery: should be a duration")


@pytest.mark.parametrize(
    ("text", "size"), [("1048576", 2**20), ("1MiB", 2**20), ("2 gib", 2**31), ("1.5MiB", 3 * 2**19)]
)
def test_a_size_may_be_spelled_with_its_unit(text: str, size: int) -> None:
    assert load(RiftSettings, {"RIFT__COMMANDS__SPOOL_LIMIT": text}).commands.spool_limit == size


def test_a_setting_cannot_be_changed_after_the_start() -> None:
    with pytest.raises(ValidationError):
        RiftSettings().server.port = 1


def test_the_database_address_is_in_no_printed_settings() -> None:
    settings = load(RiftSettings, {"RIFT__DATABASE__URL": "postgresql://u:hunter2@h/d"})
    assert settings.database.url == "postgresql://u:hunter2@h/d"
    assert "hunter2" not in f"{settings!r} {settings}"


def test_the_table_names_every_setting_with_its_default_and_purpose() -> None:
    rows = table(RiftSettings)
    assert all(row.what.endswith(".") for row in rows)
    defaults = {row.name.replace(":", "__"): row.default for row in rows if row.default}
    assert load(RiftSettings, defaults) == RiftSettings()
