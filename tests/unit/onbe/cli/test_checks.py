"""What `onbe doctor` finds before it asks anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from keel.settings import load
from onbe.cli.checks import open_secrets
from onbe.cli.place import Place
from onbe.settings import OnbeSettings

SECRET = "secret-of-the-tests-0123456789abcdef"


@pytest.mark.parametrize(
    "written",
    [
        f'[sponsor_check]\nprovider = "scim"\nurl = "http://127.0.0.1:1"\ntoken = "{SECRET}"',
        f'[ledger]\nsink = "http://127.0.0.1:1"\nsink_token = "{SECRET}"',
        f'[telemetry]\nmetrics_token = "{SECRET}"',
        f'[admin]\nkeys = "{SECRET}"',
    ],
    ids=["the directory's token", "the sink's token", "the token for the numbers", "the admin key"],
)
def test_a_secret_in_a_file_that_everybody_may_read_is_found_and_not_repeated(written: str, tmp_path: Path) -> None:
    file = tmp_path / "onbe.toml"
    file.write_text(written)
    place = Place(tmp_path, load(OnbeSettings, {}, file))
    file.chmod(0o644)
    [found] = open_secrets(place)
    assert (found.ok, found.mend) == (False, f"chmod 600 {file}")
    assert SECRET not in str(found)
    file.chmod(0o600)
    assert list(open_secrets(place)) == []


def test_a_file_without_a_secret_may_be_read(tmp_path: Path) -> None:
    file = tmp_path / "onbe.toml"
    file.write_text(f'[admin]\nkeys = "sha256:{"0" * 64}"\n[server]\nport = 7500\n')
    file.chmod(0o644)
    assert list(open_secrets(Place(tmp_path, load(OnbeSettings, {}, file)))) == []
    assert list(open_secrets(Place(tmp_path / "none", OnbeSettings()))) == []
