"""`rift secret …` and `rift vault …` as they are typed, right and wrong; no command prints a value or a key."""

from __future__ import annotations

import base64
import json
import os
import pty
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.behaviour.cli.systems import RIFT, SAMPLE, Running, Told, environment, rift, system

VALUE = "sk_live_4242424242424242"


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system() as one:
        yield one


def typed(up: Running, line: str, given: str | None = None) -> Told:
    told = rift(*line.split(), "--data", up.data, given=given)
    assert VALUE not in told.out + told.err
    return told


async def test_a_secret_is_set_listed_used_changed_and_removed_at_the_terminal(up: Running) -> None:
    assert typed(up, f"secret ls {SAMPLE}").out == (
        f"{SAMPLE} has no secrets. `rift secret set {SAMPLE} NAME` sets one.\n"
    )
    told = typed(up, f"secret set {SAMPLE} API_KEY", f"{VALUE}\n")
    assert (told.status, told.err) == (0, "")
    assert told.out == f"API_KEY of {SAMPLE} is set: the next commands in its boxes have it.\n"
    task, box = await up.take()
    said = await up.bash(task, box, 'echo "$API_KEY"; printf %s "$API_KEY" | wc -c')
    assert said["output"].splitlines() == ["***", str(len(VALUE))]
    assert "is changed" in typed(up, f"secret set {SAMPLE} API_KEY", "another-value\n\n").out
    assert (await up.bash(task, box, 'printf %s "$API_KEY" | wc -c'))["output"] == "14\n"  # one line break is left off
    (row,) = typed(up, f"secret ls {SAMPLE} --json").json
    assert {**row, "set_at": ""} == {"name": "API_KEY", "bytes": 14, "set_at": "", "set_by": None, "shut": False}
    assert typed(up, f"secret ls {SAMPLE}").out.startswith("API_KEY  set 20")
    assert typed(up, f"secret rm {SAMPLE} API_KEY").out == (
        f"API_KEY of {SAMPLE} is removed: the next commands in its boxes do not have it.\n"
    )
    assert (await up.bash(task, box, 'echo "[$API_KEY]"'))["output"] == "[]\n"
    await up.call("rift_task_close", task=task)
    acts = rift("audit", "ls", "--json", "--limit", "50", "--data", up.data).json
    about = [(one["action"], one["outcome"]) for one in acts if one["action"].startswith("rift secret")]
    assert about == [("rift secret rm", "ok"), ("rift secret set", "ok"), ("rift secret set", "ok")]
    assert VALUE not in json.dumps(acts) + up.errors()


@pytest.mark.parametrize(
    ("line", "given", "sentence", "mend"),
    [
        ("secret ls acme/nope", None, "This Rift has no repository acme/nope.", "rift repo ls"),
        ("secret set acme/nope API_KEY", VALUE, "This Rift has no repository acme/nope.", "rift repo ls"),
        ("secret rm acme/nope API_KEY", None, "This Rift has no repository acme/nope.", "rift repo ls"),
        (f"secret rm {SAMPLE} NOPE", None, f"{SAMPLE} has no secret called NOPE.", "/app/secrets/repo_"),
        (f"secret set {SAMPLE} 1KEY", VALUE, "1KEY is no name for a secret", f"rift secret set {SAMPLE} NAME"),
        (f"secret set {SAMPLE} PATH", VALUE, "every command in a box goes by it", f"rift secret set {SAMPLE} NAME"),
        (f"secret set {SAMPLE} EMPTY", "", "it is empty", f"rift secret set {SAMPLE} NAME"),
        (f"secret set {SAMPLE} EMPTY", "\n", "it is empty", f"rift secret set {SAMPLE} NAME"),
        (f"secret set {SAMPLE} LONG", "x" * 65_537, "it has 65,537 bytes", f"rift secret set {SAMPLE} NAME"),
        (f"secret set {SAMPLE} LONG", "ä" * 700_000, "and at most 65,536 are kept", f"rift secret set {SAMPLE} NAME"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_with_its_mend(
    up: Running, line: str, given: str | None, sentence: str, mend: str
) -> None:
    told = typed(up, line, given)
    assert (told.status, told.out) == (1, ""), told
    first, second = told.err.splitlines()
    assert first.startswith("rift: ")
    assert sentence in first
    assert mend in second


def test_a_value_in_the_place_of_the_name_is_refused_and_not_repeated(up: Running) -> None:
    value = "-----BEGIN/KEY+4242/4242=="
    told = rift("secret", "set", "--data", up.data, SAMPLE, "--", value, given="x")
    assert told.status == 1
    assert "is no name for a secret" in told.err
    assert value not in told.err
    assert value not in rift("audit", "ls", "--json", "--data", up.data).out
    assert typed(up, f"secret set {SAMPLE} API_KEY {VALUE[:4]}").status == 2  # a value is never an argument


def test_bytes_that_are_no_text_are_refused_with_what_makes_text_of_them(up: Running) -> None:
    told = rift("secret", "set", SAMPLE, "BYTES", "--data", up.data, given="\udcff\udcfe")
    assert (told.status, told.out) == (1, "")
    assert "the value is not text in UTF-8. `base64` makes text of other bytes" in told.err


def test_at_a_terminal_the_value_is_asked_for_and_not_shown(up: Running) -> None:
    words = [RIFT, "secret", "set", SAMPLE, "TYPED", "--data", str(up.data)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], words, environment())
    shown, answered, until = b"", False, time.monotonic() + 60
    with suppress(OSError):  # a terminal whose program ended
        while time.monotonic() < until and (part := os.read(terminal, 4096)):
            shown += part
            if not answered and b"(not shown): " in shown:
                os.write(terminal, f"{VALUE}\n".encode())
                answered = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    assert f"TYPED of {SAMPLE} is set" in shown.decode()
    assert VALUE not in shown.decode()
    assert typed(up, f"secret ls {SAMPLE} --json").json[0]["bytes"] == len(VALUE)
    typed(up, f"secret rm {SAMPLE} TYPED")


async def test_the_vaults_key_is_shown_replaced_and_pruned_and_secrets_go_on(up: Running) -> None:
    typed(up, f"secret set {SAMPLE} API_KEY", VALUE)
    assert typed(up, "vault prune").out == "There is no older key.\n"
    first = typed(up, "vault status --json").json
    (key,) = first["keys"]
    assert (key["seals"], key["here"]) == (True, True)
    assert key["secrets"] == sum(first["tables"].values()) >= 1
    told = typed(up, "vault rotate").out
    assert told.endswith(" sealed again by it.\n")
    newest, older = typed(up, "vault status --json").json["keys"][::-1]
    assert (newest["seals"], older["seals"]) == (True, False)
    assert (newest["secrets"], older["key"], older["secrets"]) == (key["secrets"], key["key"], 0)
    assert f"The key {newest['key']} seals from now on" in told
    lines = typed(up, "vault status").out.splitlines()
    assert [line.split()[:2] for line in lines] == [[older["key"], "older"], [newest["key"], "seals"]]
    assert "replaced less than ten minutes ago" in typed(up, "vault prune").out
    before = time.time() - 700
    for file in (up.data / "vault").glob("*.key"):
        os.utime(file, (before, before))
    assert typed(up, "vault prune").out == f"The key {older['key']} is gone.\n"
    task, box = await up.take()
    assert (await up.bash(task, box, 'printf %s "$API_KEY" | wc -c'))["output"] == f"{len(VALUE)}\n"
    await up.call("rift_task_close", task=task)
    keys = [file.read_text().strip() for file in (up.data / "vault").glob("*.key")]
    assert len(keys) == 1
    assert len(base64.b64decode(keys[0])) == 32
    assert not any(one in told + up.errors() + "".join(lines) for one in keys)


def test_a_key_that_is_lost_is_told_by_each_command_and_coming_back_mends_it(up: Running) -> None:
    typed(up, f"secret set {SAMPLE} API_KEY", VALUE)
    (file,) = (up.data / "vault").glob("*.key")
    away = up.data / "away"
    file.rename(away)
    try:
        lost = typed(up, "vault status")
        assert lost.status == 1
        assert "NOT HERE" in lost.out
        assert f"put the key files of your backup into {up.data / 'vault'}" in lost.out
        assert "(cannot be opened: set it again)" in typed(up, f"secret ls {SAMPLE}").out
    finally:
        for made in (up.data / "vault").glob("*.key"):
            made.unlink()
        away.rename(file)
    assert typed(up, "vault status").status == 0
    file.chmod(0o644)
    try:
        open_to_all = typed(up, "vault status")
        assert open_to_all.status == 1
        assert "vault" in open_to_all.err
        assert "chmod" in open_to_all.err
    finally:
        file.chmod(0o600)


def test_keys_of_the_settings_are_not_rotated_here(up: Running) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    told = rift("vault", "rotate", "--data", up.data, env={"Rift__Vault__Keys": key})
    assert (told.status, told.out) == (1, "")
    assert "the settings hold the keys (Rift:Vault:Keys)" in told.err
    assert key not in told.err
