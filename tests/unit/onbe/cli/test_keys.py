"""`onbe keys`: what is made, told and never told."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from keel import jose
from onbe.cli import keys


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONBE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def onbe(*words: str) -> Result:
    done = CliRunner().invoke(keys.app, words)
    assert "PRIVATE" not in done.output
    return done


def test_the_first_key_is_made_once_and_a_rotation_replaces_it(data: Path) -> None:
    assert onbe("rotate").exit_code == 1
    first = onbe("generate", "--json")
    assert first.exit_code == 0
    again = onbe("generate")
    assert again.exit_code == 1
    assert "keys rotate` replaces it" in again.output
    second = onbe("rotate", "--json")
    rows = json.loads(onbe("ls", "--json").output)
    assert [row["kid"] for row in rows] == [json.loads(done.output)["kid"] for done in (second, first)]
    assert [row["active"] for row in rows] == [True, False]


def test_a_list_is_public_and_makes_nothing(data: Path) -> None:
    assert onbe("ls", "--json").output == "[]\n"
    assert "keys generate` makes one" in onbe("ls").output
    assert not data.exists()
    onbe("generate")
    for row in json.loads(onbe("ls", "--json").output):
        assert jose.PRIVATE.isdisjoint(row)
        assert jose.thumbprint(row) == row["kid"]
    assert onbe("ls").output.count("\n") == 1


def test_a_key_for_the_settings_is_written_to_a_new_file_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "key.pem"
    made = onbe("generate", "--out", str(out), "--json")
    assert made.exit_code == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    kept = out.read_bytes()
    assert onbe("generate", "--out", str(out)).exit_code == 1
    assert out.read_bytes() == kept
    monkeypatch.setenv("Onbe__Keys__Files", str(out))
    assert [row["kid"] for row in json.loads(onbe("ls", "--json").output)] == [json.loads(made.output)["kid"]]
    for word in ("generate", "rotate"):
        refused = onbe(word)
        assert refused.exit_code == 1
        assert "the settings name the keys" in refused.output
    assert not (data / "keys").exists()


def test_what_is_wrong_with_a_key_is_one_sentence(data: Path) -> None:
    onbe("generate")
    (key,) = (data / "keys").glob("*.pem")
    key.chmod(0o644)
    for words in (("ls",), ("rotate",), ("generate",)):
        done = onbe(*words)
        assert done.exit_code == 1
        assert done.output == f"onbe: others may read the key file {key}: `chmod 600 {key}`, then rotate the key\n"
