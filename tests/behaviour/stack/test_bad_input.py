"""What a caller may get wrong, on the whole stack: a clear refusal with its mend, nothing ran, nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands
from tests.wire.clients import Raw

MIB = 2**20
BAD = "bad_arguments"
RUN = {"command": "touch /tmp/never", "timeout": 60, "block_for": 0}

FIRST = {"id": "{ran}", "offset": 0}


def read_of(id: str, offset: int = 0) -> dict[str, Any]:
    """What rift_output takes to read one command."""
    return {"commands": [{"id": id, "offset": offset}], "block_for": 0}


WRONG: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("rift_bash", RUN | {"timeout": 0}, BAD, "`timeout` must be an integer from 1 to 259200", "rift_bash"),
    ("rift_bash", RUN | {"timeout": 300_000}, BAD, "from 1 to 259200; 300000 came", "rift_bash"),
    ("rift_bash", RUN | {"timeout": None}, BAD, "`timeout` is missing", "rift_bash"),
    ("rift_bash", RUN | {"block_for": -1}, BAD, "`block_for` must be an integer from 0 to 45", "rift_bash"),
    ("rift_bash", RUN | {"block_for": 46}, BAD, "`block_for` must be an integer from 0 to 45", "rift_bash"),
    ("rift_bash", RUN | {"block_for": None}, BAD, "`block_for` is missing", "rift_bash"),
    ("rift_bash", RUN | {"shell": "zsh"}, BAD, "`shell` is not one of its arguments", "rift_bash"),
    ("rift_bash", {}, BAD, "`command`, `timeout` and `block_for` are missing", "rift_bash"),
    ("rift_bash", RUN | {"command": "touch /tmp/never\0"}, "nul_byte", "command holds a NUL byte", "rift_bash"),
    ("rift_bash", RUN | {"command": " \n "}, "empty", "The argument command is empty", "rift_bash"),
    ("rift_bash", RUN | {"command": "#" + "x" * 131_072}, "too_long", "the most is 131072", "rift_bash"),
    ("rift_bash", RUN | {"vm": "b-000000000000000000000000"}, "vm_unknown", "The task has no VM", "rift_vm_ls"),
    ("rift_read", {"path": "../../../../../etc/shadow"}, "path_outside", "climbs above the root", "rift_bash"),
    ("rift_read", {"path": "/../etc/shadow"}, "path_outside", "climbs above the root", "rift_bash"),
    ("rift_read", {"path": "/etc/host\0name"}, "nul_byte", "The argument path holds a NUL byte", "rift_read"),
    ("rift_read", {"path": ""}, "empty", "The argument path is empty", "rift_read"),
    ("rift_write", {"path": "../../../../tmp/never", "content": "x"}, "path_outside", "climbs above", "rift_bash"),
    ("rift_write", {"path": "/tmp/never", "content": "a\0b"}, "nul_byte", "content holds a NUL", "rift_write"),
    ("rift_write", {"path": "/tmp/never", "content": "x" * (9 * MIB)}, "too_long", "the most is 8388608", "rift_write"),
    ("rift_write", {"path": "/tmp/never"}, BAD, "`content` is missing", "rift_write"),
    ("rift_output", read_of("{ran}", 3), "offset_past_end", "has 2 bytes", "rift_output"),
    ("rift_output", read_of("{ran}", -1), BAD, "of at least 0", "rift_output"),
    ("rift_output", {"commands": [{"id": f"{{vm}}.{n}", "offset": 0} for n in range(1, 6)], "block_for": 0},
     BAD, "`commands` must be a list of 1 to 4 objects; a list of 5 came", "rift_output"),
    ("rift_output", {"commands": [], "block_for": 0}, BAD, "of 1 to 4 objects; a list of 0 came", "rift_output"),
    ("rift_output", {"commands": [FIRST] * 2, "block_for": 0}, "command_twice", "twice", "rift_output"),
    ("rift_output", read_of("nonsense"), "command_id", "not a command's id", "rift_vm_ls"),
    ("rift_output", {"commands": [{"id": "{ran}"}], "block_for": 0}, BAD, "offset` is missing", "rift_output"),
    ("rift_stop", {"id": "b-1.1"}, "command_id", "not a command's id of a VM of this task", "rift_vm_ls"),
    ("rift_vm_new", {"repo": program.REPO, "ref": "nowhere"}, "ref_not_watched", "nowhere", "rift_watch"),
    ("rift_vm_new", {"repo": "acme/nothing", "ref": "main"}, "no_such_repository", "acme/nothing", "rift_repos"),
    ("rift_vm_destroy", {"vm": "app-main-999"}, "vm_unknown", "The task has no VM app-main-999", "rift_vm_ls"),
    ("rift_vm_suspend", {"vm": "../../etc"}, "vm_unknown", "The task has no VM", "rift_vm_ls"),
    ("rift_task_close", {"task": "{id}"}, "bare_task_id", "without its secret", "rift_task_attach"),
    ("rift_task_close", {"task": "{task}x"}, "task_held", "not the current lease", "rift_task_attach"),
    ("rift_task_close", {"task": "task_abcdefgh.{secret}"}, "task_unknown", "There is no task", "rift_task_ls"),
    ("rift_task_release", {"task": None}, BAD, "`task` is missing", "rift_task_new"),
    ("rift_task_attach", {"task": "task_zzzzzzzz"}, "task_unknown", "There is no task", "rift_task_ls"),
    ("rift_task_new", {"name": "\u200b\n"}, "task_name", "for a person to read", "rift_task_new"),
    ("rift_task_new", {}, BAD, "`name` is missing", "rift_task_new"),
]  # fmt: skip
"""A tool, what is wrong with its call, the refusal's code, words of its sentence, and the tool that mends it."""

TAKES_VM = ("rift_bash", "rift_read", "rift_write", "rift_vm_destroy", "rift_vm_suspend")


def filled(value: Any, facts: dict[str, str]) -> Any:
    """The value with the facts of the test in the place of their names."""
    if isinstance(value, str):
        for name, fact in facts.items():
            value = value.replace(f"{{{name}}}", fact)
        return value
    if isinstance(value, list):
        return [filled(one, facts) for one in value]
    if isinstance(value, dict):
        return {name: filled(one, facts) for name, one in value.items()}
    return value


@pytest.mark.parametrize(("tool", "wrong", "code", "words", "mend"), WRONG)
async def test_a_wrong_call_is_refused_with_its_mend_and_nothing_runs(
    desk: Hands, tool: str, wrong: dict[str, Any], code: str, words: str, mend: str
) -> None:
    ran = (await desk.bash("echo x"))["command"]
    facts = {"ran": ran, "vm": desk.vm, "id": desk.id, "task": desk.task, "secret": desk.task.partition(".")[2]}
    given = filled(wrong, facts)
    if tool not in ("rift_task_attach", "rift_task_new"):
        given = {"task": desk.task} | given
    if tool in TAKES_VM:
        given = {"vm": desk.vm} | given
    said = await desk.call(tool, **{name: value for name, value in given.items() if value is not None})
    assert said.refused == code, said.text
    assert words in said.text
    arguments = said.mend(mend)
    assert desk.task.partition(".")[2] not in said.text + str(said.mends)
    assert isinstance(arguments, dict)
    after = await desk.bash("ls /tmp/never 2>&1 | wc -l; ls /tmp/never 2>/dev/null | wc -l")
    assert after["output"] == "1\n0\n"
    assert int(after["command"].rpartition(".")[2]) == int(ran.rpartition(".")[2]) + 1  # the refused call was none
    assert (await desk.output((ran, 0)))["output"] == "x\n"
    assert [vm["open_commands"] for vm in await desk.vms()] == [[]]


async def test_a_write_of_20_mib_is_refused_with_how_to_write_it_in_parts(desk: Hands) -> None:
    raw = Raw(desk.stack.url, desk.stack.tokens["ada"])
    whole = {"task": desk.task, "vm": desk.vm, "path": "/tmp/never", "content": "x" * (20 * MIB)}
    reply = await raw.call("rift_write", whole)
    assert reply.status == 413
    for words in ("larger than 12 MiB", "nothing ran", "rift_write each to a file of its own"):
        assert words in reply.error["message"]
    assert (await desk.bash("ls /tmp/never"))["exit"] == 2


async def test_eight_mib_are_written_and_one_byte_more_is_refused(desk: Hands) -> None:
    content = "0123456\n" * MIB
    assert (await desk.write("/tmp/large", content))["exit"] == 0
    assert (await desk.bash("wc -c </tmp/large; tail -n 1 /tmp/large"))["output"] == f"{8 * MIB}\n0123456\n"
    assert (await desk.write("/tmp/large", content + "x")).refused == "too_long"
    assert (await desk.bash("wc -c </tmp/large; rm /tmp/large"))["output"] == f"{8 * MIB}\n"


async def test_commands_of_two_boxes_in_one_call_are_refused_with_a_call_for_each(hands: Hands) -> None:
    one, two = await hands.take(), await hands.take()
    ids = [(await hands.bash("true", vm=vm))["command"] for vm in (one, two)]
    said = await hands.output(*((id, 0) for id in ids))
    assert said.refused == "command_boxes"
    assert [mend["arguments"]["commands"][0]["id"] for mend in said.mends] == ids


async def test_a_path_out_of_the_jail_finds_only_what_is_in_it(desk: Hands) -> None:
    """A link may point anywhere: it is followed as the jail sees it, where the host's files are not."""
    secret = desk.stack.data / "people.json"
    await desk.bash(f"ln -sf {secret} /tmp/link; ln -sf /etc/shadow /tmp/shadow")
    for path in ("/tmp/link", "/tmp/shadow", str(secret)):
        said = await desk.read(path)
        assert (said["status"], said["exit"], said["output"]) == ("finished", 1, "")
    await desk.write("/tmp/link", "mine")
    assert "ada" in secret.read_text()
    await desk.bash("rm -f /tmp/link /tmp/shadow")


async def test_an_unknown_command_id_of_a_box_did_not_run(desk: Hands) -> None:
    said = await desk.output((f"{desk.vm}.4000", 0))
    assert (said["status"], said["reason"]) == ("did not run", "Rift has no record of this command")
    said = await desk.stop(f"{desk.vm}.4000")
    assert said["status"] == "did not run"
