"""Answers: status first, then output, then the exact next call; the structure says what the text says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Call as CallMend
from rift.boxes.model import Box, BoxLine, Closed, OpenCommand, TaskLine
from rift.checklist.model import Gap, WhoAmI
from rift.commands.model import Answer as CommandAnswer
from rift.commands.model import Piece, Report
from rift.invites.model import Invitation
from rift.people.model import Member, Membership
from rift.repos.model import OrgRepos, OrgView, Repo, RepoView, Unwatched, Watch, Watched
from rift.tasks.model import Task
from rift.wire.mcp.common import COMMAND_ANSWER
from rift.wire.mcp.render import command_answer, commands_answer
from rift.wire.mcp.tools import (
    output,
    read,
    repos,
    task_close,
    task_ls,
    unwatch,
    vm_destroy,
    vm_ls,
    vm_new,
    vm_suspend,
    whoami,
)
from rift.wire.mcp.tools import watch as watch_tool

NOW = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)
ID = "b-0123456789abcdef01234567"
COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"


def box(**more: Any) -> Box:
    settings: dict[str, Any] = {
        "id": ID, "name": "app-main-1", "number": 1, "repo": "repo_1", "ref": "main", "commit": COMMIT,
        "task": "task_abcdefgh", "state": "running", "failure": None, "incarnation": 1, "epoch": 0,
        "token_sha256": None, "next_command": 1, "seen_at": NOW, "used_at": NOW, "created_at": NOW, "ended_at": None,
        "repo_owner": "acme",
        "repo_name": "app", "org": "org_1", "network": "proxy",
    }  # fmt: skip
    fields = Box.__dataclass_fields__
    return Box(**{name: value for name, value in {**settings, **more}.items() if name in fields})


def task(**more: Any) -> Task:
    settings: dict[str, Any] = {
        "id": "task_abcdefgh", "owner": "user_1", "name": "fix the login", "status": "open", "secret_sha256": b"x",
        "holder": "mcp:Claude", "held_since": NOW - timedelta(hours=1), "activity_at": NOW - timedelta(minutes=4),
        "created_at": NOW - timedelta(hours=1), "closed_at": None,
    }  # fmt: skip
    return Task(**{**settings, **more})


def command(
    status: Any = "finished",
    exit: int | None = 0,
    reason: str | None = None,
    text: str = "",
    next_offset: int | None = None,
    size: int | None = None,
    n: int = 1,
    **more: Any,
) -> CommandAnswer:
    """One command's answer; its offsets default to having read all of `text`."""
    ended = more.pop("ended", status != "has not finished")
    lacking, why = more.pop("lacking", None), more.pop("why", None)
    read_to = len(text.encode()) if next_offset is None else next_offset
    piece = Piece(text, read_to, read_to if size is None else size, lacking, why)
    return CommandAnswer(Report(f"{ID}.{n}", status, reason, exit, ended), piece, **more)


def test_a_finished_command_says_its_exit_then_its_output_and_no_next_call() -> None:
    answer = command_answer(command(text="hello\n"))
    assert answer.text == f"finished, exit 0\ncommand {ID}.1: next_offset 6, size 6\noutput:\nhello"
    assert answer.structured == {
        "status": "finished",
        "reason": None,
        "command": f"{ID}.1",
        "exit": 0,
        "output": "hello\n",
        "next_offset": 6,
        "size": 6,
        "next": None,
    }


def test_blank_lines_of_output_stay() -> None:
    assert command_answer(command(text="\n\na\n\n\n")).text.endswith("output:\n\n\na\n\n")


def test_a_command_that_printed_nothing_has_no_output_part() -> None:
    assert command_answer(command()).text == f"finished, exit 0\ncommand {ID}.1: next_offset 0, size 0"


def test_a_reason_stands_beside_the_exit_code() -> None:
    answer = command_answer(command(exit=143, reason="timeout: stopped after 60 s"))
    assert answer.text.startswith("finished, exit 143: timeout: stopped after 60 s\n")
    gone = command_answer(command(exit=None, reason="box destroyed"))
    assert gone.text.startswith("finished: box destroyed\n")


def test_while_bytes_remain_the_answer_ends_with_the_call_that_reads_them() -> None:
    answer = command_answer(command(text="abc", next_offset=3, size=10))
    call = f'rift_output {{"task": "<your handle>", "commands": [{{"id": "{ID}.1", "offset": 3}}], "block_for": 0}}'
    assert answer.text.splitlines()[-1] == f"next: {call}"
    assert answer.structured is not None
    assert answer.structured["next"] == call


def test_a_command_that_has_not_finished_says_not_to_send_it_again_and_how_to_read_on() -> None:
    answer = command_answer(command("has not finished", None, "running", "so far\n"))
    status, head, warning, *rest, last = answer.text.splitlines()
    assert status == "has not finished: running"
    assert head == f"command {ID}.1: next_offset 7, size 7"
    assert warning == "Do not send the command again."
    assert rest == ["output:", "so far"]
    assert last.startswith("next: rift_output ")
    assert last.endswith('"block_for": 30}')


def test_a_lost_command_too_gives_the_call_that_reads_on() -> None:
    lost = command("has not finished", None, "lost: the agent is silent", ended=True)
    assert command_answer(lost).text.splitlines()[-1].startswith("next: rift_output ")


def test_a_command_that_did_not_run_says_why_and_nothing_to_read() -> None:
    answer = command_answer(command("did not run", None, "no agent took it within 10 minutes"))
    assert answer.text.startswith("did not run: no agent took it within 10 minutes\n")
    assert "next:" not in answer.text


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            "parked",
            f"bytes 0 to 100 of its output need the VM awake: a rift_bash, rift_read or rift_write on {ID} wakes it",
        ),
        ("silent", "cannot be read now"),
        ("gone", "are kept nowhere any more"),
    ],
)
def test_bytes_that_cannot_be_given_are_named_in_the_text_and_in_the_structure(why: str, said: str) -> None:
    answer = command_answer(command(text="tail", next_offset=104, size=104, lacking=(0, 100), why=why))
    assert said in answer.text
    assert answer.structured is not None
    assert said in answer.structured["reason"]


def test_several_commands_are_told_one_by_one_and_end_with_one_call_for_what_is_open_or_unread() -> None:
    answers = [
        command(text="done\n", n=1),
        command("has not finished", None, "running", "x", n=2),
        command(text="part", next_offset=4, size=9, n=3),
        command("has not finished", None, "lost: the agent is silent", n=4, ended=True),
    ]
    answer = commands_answer(answers)
    assert answer.structured is not None
    assert answer.structured["ended"] == [f"{ID}.1", f"{ID}.3", f"{ID}.4"]
    assert [one["command"] for one in answer.structured["commands"]] == [f"{ID}.{n}" for n in (1, 2, 3, 4)]
    wanted = f'"commands": [{{"id": "{ID}.2", "offset": 1}}, {{"id": "{ID}.3", "offset": 4}}], "block_for": 30}}'
    assert answer.text.endswith(wanted)
    assert answer.structured["next"].endswith(wanted)
    assert answer.text.index(f"{ID}.1:") < answer.text.index(f"{ID}.2:") < answer.text.index(f"{ID}.3:")


def test_several_commands_that_all_ended_and_are_read_name_no_next_call() -> None:
    answer = commands_answer([command(n=1), command("did not run", None, "box destroyed", n=2)])
    assert answer.structured is not None
    assert answer.structured["next"] is None
    assert "next:" not in answer.text


def test_one_command_of_rift_output_has_its_fields_flat() -> None:
    assert commands_answer([command(text="x")]) == command_answer(command(text="x"))


@given(
    st.lists(
        st.builds(
            command,
            status=st.sampled_from(["finished", "did not run", "has not finished"]),
            exit=st.none() | st.integers(0, 255),
            reason=st.none() | st.text(max_size=20),
            text=st.text(max_size=20),
            size=st.integers(100, 200),
            n=st.integers(1, 9),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_command_answer_fits_its_output_schema_and_its_next_calls_fit_rift_output(
    answers: list[CommandAnswer],
) -> None:
    several = commands_answer(answers)
    jsonschema.validate(several.structured, dict(output.TOOL.output_schema or {}))
    single = command_answer(answers[0])
    jsonschema.validate(single.structured, COMMAND_ANSWER)
    for answer in (several, single):
        assert answer.structured is not None
        if (call := answer.structured["next"]) is not None:
            jsonschema.validate(json.loads(call.removeprefix("rift_output ")), dict(output.TOOL.input_schema))


def test_an_image_is_given_beside_the_text_that_names_it() -> None:
    answer = command_answer(command(kind="read", input="a.png", media="image/png", image=b"PNG", next_offset=3, size=3))
    assert answer.text.startswith("finished, exit 0: an image, image/png, beside this text")
    assert [image.data for image in answer.images] == [b"PNG"]


def test_a_file_that_is_too_large_is_answered_with_the_call_that_reads_a_part() -> None:
    reason = "the file has 100000 bytes; rift_read gives up to 65536"
    answer = command(exit=1, reason=reason, kind="read", input="it's big.txt")
    call = read.in_parts(answer)
    assert isinstance(call, CallMend)
    assert call.tool == "rift_bash"
    assert call.arguments["vm"] == ID
    assert call.arguments["command"] == "head -c 65536 -- 'it'\"'\"'s big.txt'"
    assert read.in_parts(command(exit=1, reason="no such file", kind="read", input="x")) is None


def test_open_tasks_are_listed_with_holder_ages_and_boxes_and_without_handles() -> None:
    tasks = [TaskLine(task(), (box(),)), TaskLine(task(id="task_zzzzzzzz", holder=None, secret_sha256=None), ())]
    answer = task_ls.render(tasks, NOW)
    active = "last activity 2026-11-30T14:56:00Z (4 minutes ago)"
    assert answer.text.splitlines() == [
        "2 open tasks",
        'task_abcdefgh "fix the login": held by mcp:Claude since 2026-11-30T14:00:00Z (1 hour ago); ' + active,
        f"  VM {ID} app-main-1: running, acme/app at main, commit {COMMIT}",
        f'task_zzzzzzzz "fix the login": free; {active}',
        'next: rift_task_attach {"task": "task_zzzzzzzz"}',
    ]
    jsonschema.validate(answer.structured, dict(task_ls.TOOL.output_schema or {}))


def test_no_open_task_names_the_tool_that_opens_one() -> None:
    answer = task_ls.render([], NOW)
    assert answer.text.startswith("no open tasks\nnext: rift_task_new ")
    jsonschema.validate(answer.structured, dict(task_ls.TOOL.output_schema or {}))


def test_boxes_are_listed_with_their_open_commands_and_what_persists() -> None:
    open = OpenCommand(ID, 7, "bash", "make\n  test " + "x" * 200, True, NOW - timedelta(minutes=2))
    failed = box(id="b-2", state="failed", failure="no space\nleft", lacks="Submodules are not checked out: lib.")
    answer = vm_ls.render([BoxLine(box(), (open,)), BoxLine(failed, ())], NOW)
    assert "2 VMs\n" in answer.text
    assert f"  command {ID}.7: running, sent 2 minutes ago, bash make test xxx" in answer.text
    assert "  why: no space\nleft" in answer.text
    assert "  Submodules are not checked out: lib." in answer.text
    assert "persist" in answer.text
    assert "next:" not in answer.text
    jsonschema.validate(answer.structured, dict(vm_ls.TOOL.output_schema or {}))
    assert answer.structured is not None
    assert answer.structured["vms"][0]["open_commands"][0]["id"] == f"{ID}.7"
    assert [vm["lacks"] for vm in answer.structured["vms"]] == [None, "Submodules are not checked out: lib."]


def test_a_starting_box_asks_for_another_look_and_no_box_for_one() -> None:
    starting = vm_ls.render([BoxLine(box(state="starting"), ())], NOW)
    assert starting.text.endswith('next: rift_vm_ls {"task": "<your handle>"}')
    assert vm_ls.render([], NOW).text.splitlines()[-1].startswith("next: rift_vm_new ")


def test_a_starting_box_says_what_is_being_done_for_it() -> None:
    starting = box(state="starting", doing="building the environment, 12 s so far")
    told = "starting: it does not run yet (building the environment, 12 s so far); poll rift_vm_ls until it does"
    assert vm_new.render(starting).splitlines()[0] == told
    answer = vm_ls.render([BoxLine(starting, ())], NOW)
    assert "\n  building the environment, 12 s so far\n" in answer.text
    jsonschema.validate(answer.structured, dict(vm_ls.TOOL.output_schema or {}))


@pytest.mark.parametrize(
    ("state", "status", "after", "persists"),
    [
        ("running", "running", "rift_bash", True),
        ("starting", "starting: it does not run yet; poll rift_vm_ls until it does", "rift_vm_ls", True),
        ("failed", "failed: the build broke", "rift_vm_destroy", False),
    ],
)
def test_a_new_box_says_its_status_first_and_what_to_call_last(
    state: str, status: str, after: str, persists: bool
) -> None:
    text = vm_new.render(box(state=state, failure="the build broke" if state == "failed" else None))
    assert text.splitlines()[0] == status
    assert f"id {ID}, name app-main-1" in text
    assert ("persist" in text) is persists
    assert text.splitlines()[-1].startswith(f"next: {after} ")


def test_a_destroyed_a_destroying_and_a_parked_box_say_so_first() -> None:
    assert vm_destroy.render(box(state="destroyed")).startswith("destroyed: ")
    assert vm_destroy.render(box(state="destroying")).startswith("destroying: ")
    assert vm_suspend.render(box(state="parked")).startswith("parked: ")


def test_a_closed_task_says_which_boxes_are_gone_and_which_are_going() -> None:
    closed = Closed(task(), (box(), box(id="b-2", name="app-main-2")), ("b-2",))
    text = task_close.render(closed)
    assert f"destroyed: {ID} (app-main-1)" in text
    assert "still being destroyed: b-2 (app-main-2)" in text
    assert "had no VMs" in task_close.render(Closed(task(), (), ()))


REPO = Repo("repo_1", "org_1", "acme", "app", "/srv/app", "proxy", NOW, None, NOW)
PERSONAL = Membership("org_1", "personal", "admin")
WATCHED = Watch("repo_1", "main", 2, COMMIT, 1, None, None)
BROKEN = Watch("repo_1", "dev", 1, COMMIT, 0, "line one\nline two", NOW - timedelta(minutes=4))


def test_repositories_are_listed_with_watched_refs_ready_counts_and_whole_failures() -> None:
    answer = repos.render(OrgRepos(PERSONAL, (RepoView(REPO, "personal", "/srv/app", (WATCHED, BROKEN)),)), NOW)
    assert "1 repository in personal, where you are admin" in answer.text
    assert f"    main: warm 2, ready 1, head {COMMIT}" in answer.text
    assert "failed 2026-11-30T14:56:00Z (4 minutes ago): line one\nline two" in answer.text
    jsonschema.validate(answer.structured, dict(repos.TOOL.output_schema or {}))
    empty = repos.render(OrgRepos(PERSONAL, ()), NOW)
    assert empty.text == "no repositories in personal, where you are admin\nnext: rift_whoami {}"


def test_whoami_ends_with_ready_and_the_call_that_takes_a_box() -> None:
    ready = CallMend("rift_vm_new", {"task": "<your handle>", "repo": "acme/app", "ref": "main"})
    org = OrgView(
        PERSONAL, (Member("org_1", "ada@example.org", "admin"),), (RepoView(REPO, "personal", "/srv/app", (WATCHED,)),)
    )
    text = whoami.render(WhoAmI("ada@example.org", True, "mcp:Claude", "not here.", (), (org,), (), (ready,)), NOW)
    assert text.splitlines()[0] == "You are ada@example.org, the platform admin; tasks show you as mcp:Claude."
    assert "members: ada@example.org (admin)" in text
    assert text.splitlines()[-1] == 'ready: rift_vm_new {"task": "<your handle>", "repo": "acme/app", "ref": "main"}'


INVITED = Invitation("inv_1", "org_3", "acme", "ada@example.org", "member", "eve@x.org", NOW, NOW + timedelta(days=14))


def test_whoami_names_for_each_gap_the_tool_that_closes_it() -> None:
    gap = Gap("acme/app: no ref is watched.", CallMend("rift_watch", {"repo": "acme/app", "ref": "main"}))
    org, team = OrgView(PERSONAL, (), ()), OrgView(Membership("org_2", 'the "A" team', "member"), (), ())
    text = whoami.render(
        WhoAmI("ada@example.org", False, "mcp:Claude", "not here.", (INVITED,), (org, team), (gap,), ()), NOW
    )
    assert text.splitlines()[-1] == (
        'gap: acme/app: no ref is watched. -> rift_watch {"repo": "acme/app", "ref": "main"}'
    )
    assert "no repositories" in text
    assert "Team \"the 'A' team\": you are member" in text
    accept = 'rift_org_accept {"org": "acme"}'
    assert f'Invitation to "acme" as member by eve@x.org, open until 2026-12-14T15:00:00Z: {accept}' in text


def test_watching_and_unwatching_say_what_is_kept_and_what_goes() -> None:
    assert watch_tool.render(Watched(REPO, "main", COMMIT, 1, None)).startswith(
        "watching main of acme/app: 1 warm VM at"
    )
    assert "its warm count was 1: 3 warm VMs" in watch_tool.render(Watched(REPO, "main", COMMIT, 3, 1))
    assert "no warm VMs" in watch_tool.render(Watched(REPO, "main", COMMIT, 0, 1))
    assert "1 warm VM will be drained" in unwatch.render(Unwatched(REPO, "main", 1))
