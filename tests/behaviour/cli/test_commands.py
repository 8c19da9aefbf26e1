"""The commands beside a running system: people, tokens, repositories, and a second `rift up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import SAMPLE, Running, Told, folder, free_port, processes, rift, system

from keel.testing import eventually
from rift.drivers.boxes.local.opening import Lack, find_opening


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system() as one:
        yield one


def refused(told: Told, sentence: str, mend: str) -> None:
    """One sentence, and below it what mends it; on stderr alone."""
    assert (told.status, told.out) == (1, ""), told
    lines = [line for line in told.err.splitlines() if not line.endswith(" …")]
    assert lines[0].startswith("rift: "), told
    assert sentence in lines[0], told
    assert len(lines) == 2, told
    assert lines[1].startswith("  "), told
    assert mend in lines[1], told
    assert "ask whoever" not in told.err


def test_up_says_in_under_a_screen_where_it_is_the_token_how_to_connect_and_what_to_try(up: Running) -> None:
    said = "\n".join(up.said)
    assert len(up.said) < 24
    assert f"Rift is up at http://127.0.0.1:{up.port}" in said
    assert f"claude mcp add --transport http rift http://127.0.0.1:{up.port}/mcp\n" in said
    assert f'--header "Authorization: Bearer {up.token}"' in said
    assert said.count(up.token) == 2
    assert said.count(f"http://127.0.0.1:{up.port}/sign-in/link/riftl_") == 1
    assert "rift user link admin@localhost.localdomain" in said
    for command in ("demo", "repo add", "doctor", "down"):
        assert f"rift {command}" in said
    assert f"--data {up.data}" in said
    assert up.errors() == "Starting the database …\n"


def test_up_where_somebody_is_already_names_them_and_no_sample() -> None:
    with folder() as data:
        assert rift("user", "add", "ada@example.com", "--admin", "--data", data).status == 0
        one = Running(data)
        try:
            one.up()
        finally:
            one.kill()
        said = "\n".join(one.said)
        assert "token new --user ada@example.com --client Claude" in said
        assert "call rift_whoami" in said
        assert SAMPLE not in said


def test_a_second_up_on_the_same_data_says_where_the_first_is_and_changes_nothing(up: Running) -> None:
    assert up.process
    for command in ("up", "serve"):
        told = rift(command, "--data", up.data, "--port", str(free_port()))
        assert (told.status, told.out) == (1, "")
        assert f"already runs on {up.data}: http://127.0.0.1:{up.port} (process {up.process.pid})" in told.err
        assert f"rift down --data {up.data}` stops it" in told.err
        assert told.err.count("\n") == 1
    assert rift("token", "ls", "--data", up.data, "--json").json != []


def test_a_taken_port_is_one_sentence_naming_port_and_nothing_was_made(up: Running) -> None:
    with folder() as data:
        told = rift("up", "--data", data, "--port", str(up.port))
        assert (told.status, told.out) == (1, "")
        assert told.err == (
            f"rift: cannot listen on 127.0.0.1:{up.port}: Address already in use. --port N takes another.\n"
        )
        assert not (data / "postgres").exists()
        assert not (data / "sample").exists()


async def test_a_token_of_a_new_person_works_at_once_shows_as_the_holder_and_ends_when_revoked(up: Running) -> None:
    assert "ada@example.com has an account." in rift("user", "add", "ada@example.com", "--data", up.data).out
    made = rift("token", "new", "--user", "Ada@Example.com", "--client", "My Client", "--data", up.data)
    assert made.status == 0
    id, secret = made.out.split()[1], made.out.split()[-1]
    opened = await up.raw("rift_task_new", token=secret, name="hers")
    assert (opened.status, opened.result.get("isError", False)) == (200, False)
    seen = await up.raw("rift_task_ls", token=secret)
    assert "mcp:My Client" in seen.result["content"][0]["text"]

    listed = rift("token", "ls", "--data", up.data)
    assert f"{id}  ada@example.com  mcp:My Client  last used 20" in listed.out
    assert "never used" not in listed.out.replace("mcp:First  never used", "")
    assert secret not in listed.out
    (row,) = rift("token", "ls", "--user", "ada@example.com", "--json", "--data", up.data).json
    assert (row["id"], row["client"], row["revoked_at"]) == (id, "My Client", None)
    assert secret not in json.dumps(row)

    assert rift("token", "revoke", id, "--data", up.data).out == f"{id} (ada@example.com, mcp:My Client) is revoked.\n"
    after = await up.raw("rift_task_ls", token=secret)
    assert after.status == 401
    assert "resource_metadata" in after.headers["www-authenticate"]
    assert rift("token", "revoke", id, "--data", up.data).status == 0
    assert f"{id}  ada@example.com  mcp:My Client  revoked" in rift("token", "ls", "--data", up.data).out


def test_people_are_listed_and_rift_data_names_the_system_too(up: Running) -> None:
    env = {"RIFT_DATA": str(up.data)}
    assert rift("user", "add", "root@example.com", "--admin", env=env).status == 0
    assert "root@example.com  (admin)\n" in rift("user", "ls", env=env).out
    rows = {row["email"]: row["admin"] for row in rift("user", "ls", "--json", env=env).json}
    assert rows["admin@localhost.localdomain"] is rows["root@example.com"] is True


@pytest.mark.parametrize(
    ("line", "sentence", "mend"),
    [
        ("user add nobody", "nobody is not an email address", "rift user add EMAIL"),
        ("user add admin@localhost.localdomain", "has an account already", "rift token new --user admin@"),
        ("token new --user x@example.com --client C", "Nobody here has the email", "rift user add x@example.com"),
        ("token ls --user x@example.com", "Nobody here has the email", "rift user ls"),
        ("token revoke tok_nope", "There is no token tok_nope.", "rift token ls"),
        ("repo add app .", "app is no repository name", "rift repo add OWNER/NAME"),
        ("repo add acme/app /nonexistent", "there is no /nonexistent", "rift repo add OWNER/NAME"),
        ("repo add acme/app https://127.0.0.1:1/x", "could not be fetched", "git ls-remote https://127.0.0.1:1/x"),
        ("repo add sample/hello /tmp", "sample/hello", "rift repo sync sample/hello"),
        ("repo sync acme/nope", "This Rift has no repository acme/nope.", "rift repo ls"),
        ("repo network acme/nope --allow a.example.com", "This Rift has no repository acme/nope.", "rift repo ls"),
        ("repo push acme/nope --watched", "This Rift has no repository acme/nope.", "rift repo ls"),
        ("repo rename acme/nope acme/x", "This Rift has no repository acme/nope.", "rift repo ls"),
        ("repo rename sample/hello x", "x is no repository name", "rift repo add OWNER/NAME"),
        ("repo limits acme/nope --memory 1GiB", "This Rift has no repository acme/nope.", "rift repo ls"),
        (
            "repo limits sample/hello --memory 8GB",
            "TiB, and 8GB is not one. Nothing was",
            "rift repo limits sample/hello",
        ),
        (
            "repo limits sample/hello --processes 1",
            "from 16 to 4,194,304, and 1 is not one.",
            "rift repo limits sample/hello",
        ),
        ("repo network sample/hello --allow http://x/", "http://x/ is not a host", "rift repo network sample/hello"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_with_its_mend(up: Running, line: str, sentence: str, mend: str) -> None:
    refused(rift(*line.split(), "--data", up.data), sentence, mend)


def test_a_repository_is_added_listed_and_synced(up: Running, tmp_path: Path) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=ada@example.com")

    def commit(text: str) -> str:
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", text], check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run([*git, "init", "-q", "-b", "trunk"], check=True)
    commit("one")
    added = rift("repo", "add", "acme/app", ".", "--data", up.data, cwd=tmp_path)
    assert added.status == 0, added
    assert added.err == "Fetching acme/app …\n"
    assert added.out.startswith("acme/app is here.")
    assert f"acme/app  {tmp_path}\n" in rift("repo", "ls", "--data", up.data).out
    assert "acme/app" in [row["repo"] for row in rift("repo", "ls", "--json", "--data", up.data).json]
    for text in ("two", "three", "four"):  # the server may look at the very moment in between, and then nothing moved
        head = commit(text)
        synced = rift("repo", "sync", "acme/app", "--data", up.data).out
        if synced != "acme/app: nothing moved\n":
            break
    assert synced == f"acme/app: trunk is at {head[:12]}\n"
    assert "acme/app: nothing moved\n" in rift("repo", "sync", "--data", up.data).out
    (tmp_path / ".git").rename(tmp_path / "gone")
    lost = rift("repo", "sync", "acme/app", "--data", up.data)
    assert lost.status == 1
    assert str(tmp_path) in lost.out


def test_a_command_with_other_settings_leaves_the_database_of_a_running_server_alone(up: Running) -> None:
    """Onbe is switched off for the server alone: a command would open a door for it, which starts Postgres anew."""
    before = (up.data / "postgres" / "cluster" / "postmaster.pid").read_text()
    assert rift("user", "ls", "--data", up.data, env={"Rift__Onbe__Enabled": "true"}).status == 0
    assert (up.data / "postgres" / "cluster" / "postmaster.pid").read_text() == before


async def test_an_added_host_reaches_the_next_box_and_none_means_none(up: Running) -> None:
    for host in ("api.example.com", "*.example.org"):
        assert rift("repo", "network", SAMPLE, "--allow", host, "--data", up.data).status == 0
    told = rift("repo", "network", SAMPLE, "--data", up.data)
    assert told.out.endswith("usual registries and forges, and api.example.com, *.example.org.\n")
    shown = rift("repo", "network", SAMPLE, "--json", "--data", up.data).json
    assert shown["added"] == ["api.example.com", "*.example.org"]
    assert {"pypi.org", *shown["added"]} <= set(shown["reached"])

    task, _ = await up.take()  # the warm one, which started before
    made = (await up.call("rift_vm_new", task=task, repo=SAMPLE, ref="main"))[1]
    box = (await up.call("rift_vm_ls", task=task))[1]["vms"][-1]["id"]
    assert made is not None
    settings = json.loads((up.data / "boxes" / box / "agent.json").read_text())
    assert {"pypi.org", "api.example.com", "*.example.org"} <= set(settings["allow"])
    await up.call("rift_task_close", task=task)

    assert rift("repo", "network", SAMPLE, "--deny", "api.example.com", "--mode", "none", "--data", up.data).status == 0
    assert rift("repo", "network", SAMPLE, "--data", up.data).out == f"Boxes of {SAMPLE} reach nothing.\n"
    opened = rift("repo", "network", SAMPLE, "--mode", "open", "--data", up.data)
    lack = find_opening()
    if isinstance(lack, Lack):
        assert opened.out == f"Boxes of {SAMPLE} are to reach the public internet, and no private network.\n"
        assert lack.mend.removeprefix("sudo ") in opened.err
    else:
        assert opened.out == f"Boxes of {SAMPLE} reach the public internet, and no private network.\n"
        assert "cannot make" not in opened.err
    assert rift("repo", "network", SAMPLE, "--json", "--data", up.data).json["reached"] == ["*"]
    back = rift("repo", "network", SAMPLE, "--mode", "proxy", "--json", "--data", up.data).json
    assert back["added"] == ["*.example.org"]


async def test_a_repositorys_limits_reach_the_next_box_and_are_told_where_they_are_met(up: Running) -> None:
    shown = rift("repo", "limits", SAMPLE, "--data", up.data).out
    assert shown == (
        f"A box of {SAMPLE} may use: memory 4 GiB, processes 1,024, disk 20 GiB, cpu shares 1,024, open files 65,536.\n"
    )
    told = rift("repo", "limits", SAMPLE, "--open-files", "120", "--memory", "1.5GiB", "--data", up.data)
    assert "memory 1.5 GiB (its own)" in told.out
    assert "warm ones are made anew" in told.out
    again = rift("repo", "limits", SAMPLE, "--open-files", "120", "--data", up.data)
    assert "made anew" not in again.out

    held: list[str] = []

    async def renewed() -> bool:
        held[:] = await up.take()
        settings = json.loads((up.data / "boxes" / held[1] / "agent.json").read_text())
        if settings["limits"]["open_files"]["value"] == 120:
            return True
        await up.call("rift_task_close", task=held[0])
        return False

    await eventually(renewed, within=60, every=0.5)
    task, box = held
    many = "python3 -c 'f = [open(\"/dev/null\") for _ in range(200)]'"
    text, said = await up.call("rift_bash", task=task, vm=box, command=many, timeout=30, block_for=30)
    reason = (
        "its output says 'Too many open files': a process of this VM may open 120 "
        f"(rift repo limits {SAMPLE} --open-files)"
    )
    assert (said["exit"], said["reason"]) == (1, reason)
    assert reason in text
    await up.call("rift_task_close", task=task)
    back = rift("repo", "limits", SAMPLE, "--default", "--json", "--data", up.data).json
    assert (back["open_files"], back["memory"], back["own"]) == (65_536, 4 * 2**30, [])


def test_where_boxes_push_and_what_a_repository_is_called_is_set_at_the_terminal(up: Running) -> None:
    def push(*options: str) -> str:
        return rift("repo", "push", SAMPLE, *options, "--data", up.data).out

    assert push() == f"Boxes of {SAMPLE} push to any branch but its default branch and watched refs.\n"
    assert push("--watched") == f"Boxes of {SAMPLE} push to any branch but its default branch.\n"
    assert push("--default-branch") == f"Boxes of {SAMPLE} push to any branch.\n"
    told = rift("repo", "push", SAMPLE, "--no-watched", "--no-default-branch", "--json", "--data", up.data).json
    assert told == {"repo": SAMPLE, "default_branch": False, "watched": False}
    assert rift("repo", "rename", SAMPLE, "sample/other", "--data", up.data).out == "It is sample/other now.\n"
    assert rift("repo", "rename", "sample/other", SAMPLE, "--data", up.data).status == 0
    assert [row["outcome"] for row in rift("audit", "ls", "--json", "--data", up.data).json][:1] == ["ok"]


def test_the_link_that_makes_the_app_leads_to_where_rift_runs(up: Running) -> None:
    address = up.url.removesuffix("/mcp")
    told = rift("github", "app-manifest", "--json", "--data", up.data).json
    assert told["url"] == f"{address}/github/app/new"
    assert told["manifest"]["redirect_url"] == f"{address}/github/app/made"
    assert f"Open {address}/github/app/new as a platform admin" in rift("github", "app-manifest", "--data", up.data).out


def test_who_is_to_mend_something_at_the_terminal_is_not_told_to_ask_themselves(up: Running) -> None:
    told = rift("secret", "rm", SAMPLE, "ABSENT", "--data", up.data)
    assert told.status == 1
    assert f"{SAMPLE} has no secret called ABSENT.\n  /app/secrets/" in told.err
    assert "yourself" not in told.err


def test_migrate_says_the_step_and_a_second_time_the_same(up: Running) -> None:
    once, again = (rift("migrate", "--data", up.data) for _ in range(2))
    assert once == again
    assert (once.status, once.err) == (0, "")
    assert once.out.startswith("The database is at step ")


def test_a_command_where_nothing_runs_says_what_it_waits_for_and_leaves_nothing_running() -> None:
    with folder() as data:
        told = rift("user", "ls", "--data", data)
        assert (told.status, told.err) == (0, "Starting the database …\n")
        assert told.out == "Nobody yet. `rift user add EMAIL --admin` adds the first.\n"
        assert rift("token", "ls", "--data", data).out.startswith("No tokens yet.")
        assert rift("repo", "ls", "--data", data).out.startswith("No repositories yet.")
        assert rift("user", "ls", "--json", "--data", data).json == []
        refused(
            rift("repo", "add", "a/b", "/tmp", "--data", data), "no platform admin yet", "rift user add EMAIL --admin"
        )
        assert processes(data) == []
