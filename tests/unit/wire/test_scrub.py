"""What of a call the audit keeps: no handle, no file content, the command's text apart, long texts cut."""

from __future__ import annotations

from rift.people.model import Caller
from rift.wire.mcp.scrub import act

ADA = Caller(user="u-ada", email="ada@example.org", admin=False, token="t-1", client="Claude")
HANDLE = "task_abcdefgh.s3cr3t-s3cr3t-s3cr3t-s3cr3t"


def test_the_handle_and_the_content_are_left_out_and_the_command_stands_apart() -> None:
    bash = act(ADA, "rift_bash", {"task": HANDLE, "vm": "app-main-1", "command": "make", "timeout": 60}, 1.0)
    assert dict(bash.arguments) == {"vm": "app-main-1", "timeout": 60}
    assert bash.text == "make"
    write = act(ADA, "rift_write", {"task": HANDLE, "path": "a", "content": "secret words"}, 1.0)
    assert dict(write.arguments) == {"path": "a"}
    assert write.text is None


def test_a_handle_in_any_other_argument_is_blotted_out() -> None:
    arguments = {"vm": HANDLE, "commands": [{"id": HANDLE, "offset": 0}], "command": f"echo {HANDLE}"}
    said = act(ADA, "rift_bash", arguments, 1.0)
    assert "s3cr3t" not in str(said)
    assert said.text == "echo <your handle>"


def test_a_token_in_any_argument_is_blotted_out_and_what_only_begins_like_one_is_not() -> None:
    token = "rift_WBL48j8rPdE8K31BQ7G1G9VAU2Y-yUhMbw7NwgepPLI"
    said = act(
        ADA, "rift_bash", {"vm": token, "command": f"curl -H 'Authorization: Bearer {token}' rift_task_new"}, 1.0
    )
    assert dict(said.arguments) == {"vm": "<your token>"}
    assert said.text == "curl -H 'Authorization: Bearer <your token>' rift_task_new"


def test_a_password_in_an_address_is_blotted_out_whole_with_an_at_sign_in_it_too() -> None:
    said = act(ADA, "rift_bash", {"command": "psql postgres://ada:hun@ter2@db/x && curl https://tok@en@h/?to=a@b"}, 1.0)
    assert said.text == "psql postgres://<your credentials>@db/x && curl https://<your credentials>@h/?to=a@b"


def test_a_long_argument_is_cut_short() -> None:
    said = act(ADA, "rift_read", {"path": "x" * 5000}, 1.0)
    assert len(str(said.arguments["path"])) == 501
