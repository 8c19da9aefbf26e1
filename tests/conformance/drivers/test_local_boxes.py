"""What only the local driver has: host users, files, a jail on this host, and what a crash leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.drivers.kit import LocalKit, started

from keel.testing import eventually
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.local import processes as table
from rift.drivers.boxes.local.places import BoxDir, find_box
from rift.drivers.boxes.protocol import DriverError, Presence

BOX = "b-00000000000000000000000a"
OTHER = "b-00000000000000000000000b"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="boxes have users of their own only where root makes them")


def box_dir(kit: LocalKit, box: str = BOX) -> BoxDir:
    found = find_box(kit.config, box)
    assert found is not None
    return found


async def test_a_jail_has_no_privilege_and_no_root(local: LocalKit) -> None:
    seat = await started(local, BOX)
    _, said = await seat.run("id -u; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; whoami; pwd")
    assert said.split() == [
        *("1000", "CapEff:", "0000000000000000", "CapBnd:", "0000000000000000"),
        *("NoNewPrivs:", "1", "dev", "/home/dev/app"),
    ]
    for pid in table.all_processes(box_dir(local)):
        assert Path(f"/proc/{pid}").stat().st_uid != 0 or os.geteuid() != 0


@root_only
async def test_each_box_has_a_host_user_of_its_own_for_agent_and_jail(local: LocalKit) -> None:
    await started(local, BOX)
    await started(local, OTHER)
    first, second = box_dir(local), box_dir(local, OTHER)
    assert first.uid != second.uid
    for box in (first, second):
        assert box.uid in range(local.config.first_uid, local.config.first_uid + local.config.uids)
        assert box.path.stat().st_mode & 0o777 == 0o700
        for pid in table.all_processes(box):
            status = Path(f"/proc/{pid}/status").read_text()
            assert f"Uid:\t{box.uid}\t{box.uid}\t{box.uid}\t{box.uid}\n" in status
            assert f"Gid:\t{local.config.group}" in status
            assert "Groups:\t \n" in status
            assert "NoNewPrivs:\t1" in status
    for path in first.path.rglob("*"):
        assert path.lstat().st_uid in (first.uid, 0 if path.name == "agent.pyz" else first.uid)


async def test_a_jail_sees_no_secret_of_the_host_nor_another_box(local: LocalKit) -> None:
    seat = await started(local, BOX)
    await started(local, OTHER)
    paths = ["/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/sudoers", "/root/.", "/sys", str(local.data), "/run/user"]
    _, said = await seat.run("\n".join(f"ls -d {path} >/dev/null 2>&1 && echo {path}" for path in paths))
    assert said == "/root/.\n"  # an empty folder
    assert (await seat.run("ls -A /root /home"))[1].split() == ["/home:", "dev", "/root:"]
    assert (await seat.run(f"cat /proc/1/environ /proc/1/root{local.data}/boxes/{BOX}/token"))[0] != 0
    assert local.plane.seat(BOX, 1).token.startswith("token-b-")
    places = "/etc /run /tmp /home /var /proc/*/environ /proc/*/cmdline"
    assert (await seat.run(f"grep -rs '[t]oken-b-' {places}"))[1] == ""


async def test_a_jail_has_its_own_writable_places_and_the_host_keeps_its_own(local: LocalKit) -> None:
    seat = await started(local, BOX)
    places = ["~", "/tmp", "/var/tmp", "."]
    if (await local.local._runtime.host()).overlay:
        places += ["/usr/local/bin", "/opt"]
    code, said = await seat.run(f"for d in {' '.join(places)}; do echo x > $d/rift-trial || exit 1; done")
    assert (code, said) == (0, "")
    code, _ = await seat.run("echo x > /etc/rift-trial")
    assert code != 0
    for place in ("/usr/local/bin", "/opt", "/tmp", "/var/tmp", "/etc"):
        assert not Path(place, "rift-trial").exists()
    await local.driver.stop(BOX)
    again = await started(local, BOX, incarnation=2)
    code, said = await again.run(f"for d in {' '.join(places)}; do cat $d/rift-trial || exit 1; done")
    assert (code, said) == (0, "x\n" * len(places))


async def test_the_programs_a_box_is_promised_are_there(local: LocalKit) -> None:
    seat = await started(local, BOX)
    assert (await seat.run("uv --version"))[1].startswith("uv ")
    assert (await seat.run("command -v uv"))[1] == "/run/rift/bin/uv\n"
    assert (await seat.run("echo $HTTPS_PROXY $no_proxy $LANG $TERM"))[1].split() == [
        *("http://127.0.0.1:3128", "localhost,127.0.0.1,::1", "C.UTF-8", "dumb"),
    ]
    python = "import ssl, sys; print(len(ssl.create_default_context().get_ca_certs()) > 10)"
    assert (await seat.run(f"python3 -c '{python}'"))[1] == "True\n"


async def test_the_checkout_stands_at_the_commit_on_the_branch_and_borrows_its_objects(local: LocalKit) -> None:
    seat = await started(local, BOX)
    code, said = await seat.run("git status --porcelain=2 --branch; git log --format=%s; git describe; git branch -r")
    assert code == 0
    lines = said.splitlines()
    assert f"# branch.oid {local.commit}" in lines
    assert {"# branch.head main", "# branch.upstream origin/main", "# branch.ab +0 -0", "first", "v1"} <= set(lines)
    assert {"  origin/main", "  origin/other/branch"} <= set(lines)
    assert (await seat.run("git config remote.origin.url"))[1] == f"{local.source}\n"
    assert (await seat.run("find .git/objects -type f | grep -v info/alternates"))[1] == ""
    commit = "git -c user.name=a -c user.email=a@example.org commit -qam mine && git fsck --no-dangling"
    code, said = await seat.run(f"echo more >> README.md; {commit}")
    assert code == 0, said


async def test_a_head_that_moved_since_leaves_the_box_at_its_commit(local: LocalKit) -> None:
    before = local.commit
    (local.source / "README.md").write_text("second\n")
    local.make_commit("second")
    local.commit = before
    seat = await started(local, BOX)
    assert (await seat.run("git rev-parse HEAD origin/main; cat README.md"))[1].split("\n")[:3] == [
        before,
        before,
        "# app",
    ]


async def test_a_ref_with_slashes_and_a_quote_is_checked_out(local: LocalKit) -> None:
    local.git("branch", 'feature/"x"')
    local.plane.seat(BOX, 1)
    await local.driver.start(dataclasses.replace(local.spec(BOX), ref='feature/"x"'))
    seat = local.plane.seat(BOX, 1)
    await seat.up()
    assert (await seat.run("git status -sb"))[1] == '## feature/"x"...origin/feature/"x"\n'


async def test_a_half_made_checkout_is_made_anew_and_a_whole_one_never_touched(local: LocalKit) -> None:
    with pytest.raises(DriverError):
        await local.driver.start(dataclasses.replace(local.spec(BOX), commit="1" * 40))
    half = box_dir(local).path / "home" / "app"
    (half / "left-over").touch()
    seat = await started(local, BOX)
    assert (await seat.run("git status --porcelain; ls"))[1] == "README.md\nlib\n"
    await seat.run("git config core.fsmonitor 'touch /tmp/ran'; rm README.md; git switch -q -c mine")
    again = await started(local, BOX, incarnation=2)
    assert (await again.run("ls; git branch --show-current"))[1] == "lib\nmine\n"


async def test_missing_submodules_and_lfs_files_are_told_at_every_start(local: LocalKit) -> None:
    (local.source / ".gitmodules").write_text('[submodule "a"]\n\tpath = third/a\n\turl = ../a\n')
    (local.source / ".gitattributes").write_text("*.bin filter=lfs diff=lfs\n*.txt text\n")
    local.commit = local.make_commit("lacking")
    expected = (
        "Submodules are not checked out: third/a.",
        "LFS files are pointers, not their content: *.bin.",
    )
    for _ in range(2):
        assert (await local.driver.start(local.spec(BOX))).lacks == expected


async def test_nothing_a_repository_holds_is_run_on_the_host(local: LocalKit) -> None:
    trap = local.data / "trapped"
    (local.source / ".gitattributes").write_text("* filter=trap\n")
    (local.source / "link").symlink_to(local.data)
    hooks = local.source / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {trap}\n")
    (hooks / "post-checkout").chmod(0o755)
    local.commit = local.make_commit("trap")
    await started(local, BOX)
    assert not trap.exists()
    assert (box_dir(local).path / "home/app/link").is_symlink()


async def test_another_driver_of_the_same_data_finds_the_boxes(local: LocalKit) -> None:
    seat = await started(local, BOX)
    n = await seat.order("bash", command=local.wait_for("go"))
    replica = LocalBoxes(local.config)
    assert await replica.inspect(BOX) == Presence("running", 1)
    await replica.start(local.spec(BOX))
    await replica.park(BOX, 1)
    assert await local.driver.inspect(BOX) == Presence("parked", 1)
    await local.driver.resume(BOX, 2)
    local.release(BOX, "go")
    assert (await seat.event("ended", n))["exit"] == 0
    await replica.destroy(BOX)
    assert await local.driver.inventory() == []


async def test_destroying_ends_every_process_even_with_a_dead_agent(local: LocalKit) -> None:
    seat = await started(local, BOX)
    await seat.run("sleep 1000 & setsid sleep 1000 & nohup sh -c 'trap \"\" TERM; sleep 1000' >/dev/null 2>&1 &")
    box = box_dir(local)
    alive = table.all_processes(box)
    os.kill(table.agents(box)[0], signal.SIGKILL)
    await local.driver.destroy(BOX)
    # A jail's first process, which hides from its own user, may take a moment longer to go.
    await eventually(lambda: [pid for pid in alive if table._uid(pid) is not None] == [])


async def test_destroying_removes_what_was_made_hard_to_remove(local: LocalKit) -> None:
    seat = await started(local, BOX)
    code, said = await seat.run(
        "mkdir -p closed/inner && touch closed/inner/x && chmod 0 closed/inner closed && "
        "ln -s / root && ln -s /home/dev/app loop && touch \"$(printf 'line\\nbreak')\" && mkfifo pipe && "
        'python3 -c "\n'
        "import os\n"
        "for _ in range(1500):\n"
        "    os.mkdir('d' * 100); os.chdir('d' * 100)\n"
        '"'
    )
    assert code == 0, said
    precious = local.data / "precious"
    precious.touch()
    (box_dir(local).path / "home" / "out").symlink_to(local.data)
    await local.driver.destroy(BOX)
    assert precious.exists()
    precious.unlink()
    assert not (local.config.boxes / BOX).exists()
    assert await local.driver.inventory() == []


async def test_a_box_left_half_removed_is_in_the_inventory_and_goes(local: LocalKit) -> None:
    await started(local, BOX)
    await local.driver.stop(BOX)
    (box_dir(local).path / "agent.json").unlink()
    assert await local.driver.inventory() == [BOX]
    assert await local.driver.inspect(BOX) == Presence("stopped", None)
    await local.driver.destroy(BOX)
    assert await local.driver.inventory() == []


async def test_a_control_plane_that_is_away_does_not_keep_a_box_from_starting(local: LocalKit) -> None:
    await local.driver.start(dataclasses.replace(local.spec(BOX), server="http://127.0.0.1:9"))
    assert await local.driver.inspect(BOX) == Presence("running", 1)
    await local.driver.destroy(BOX)


async def test_a_dead_agents_box_is_ended_by_its_next_start(local: LocalKit) -> None:
    await started(local, BOX)
    box = box_dir(local)
    before = table.all_processes(box)
    await local.kill_agent(BOX)
    await eventually(lambda: not set(table.all_processes(box)) & set(before))
    await started(local, BOX, incarnation=2)


@root_only
async def test_a_data_folder_that_boxes_cannot_enter_is_refused_with_the_mend(local: LocalKit) -> None:
    closed = local.data / "closed"
    closed.mkdir(mode=0o700)
    boxes = LocalBoxes(LocalConfig(closed / "data"))
    with pytest.raises(DriverError) as refused:
        await boxes.start(local.spec(BOX))
    assert f"`chmod o+x {closed}`" in refused.value.reason
    assert "--data /var/lib/rift" in refused.value.reason
    subprocess.run(["rm", "-rf", closed], check=True)


async def test_a_data_folder_that_is_none_is_told_as_a_driver_s_error(local: LocalKit) -> None:
    (local.data / "file").touch()
    boxes = LocalBoxes(LocalConfig(local.data / "file"))
    with pytest.raises(DriverError, match="file"):
        await boxes.start(local.spec(BOX))
    (local.data / "file").unlink()


@root_only
async def test_only_boxes_get_into_the_mirror(local: LocalKit) -> None:
    await started(local, BOX)
    found = local.mirror.stat()
    assert (found.st_mode & 0o777, found.st_gid) == (0o750, local.config.group)


async def test_a_folder_shown_read_only_is_seen_at_its_place(local: LocalKit) -> None:
    local.driver = LocalBoxes(dataclasses.replace(local.config, show_read_only=(Path("/srv"),)))
    seat = await started(local, BOX)
    assert (await seat.run("stat -c %i /srv"))[1] == f"{Path('/srv').stat().st_ino}\n"
    assert "Read-only file system" in (await seat.run("touch /srv/other"))[1]


@pytest.mark.parametrize("folder", ["/", "/home", "/etc/ssh", "/usr/share", "relative"])
async def test_a_folder_that_would_show_too_much_is_refused(local: LocalKit, folder: str) -> None:
    boxes = LocalBoxes(dataclasses.replace(local.config, show_read_only=(Path(folder),)))
    with pytest.raises(DriverError, match="Rift:Boxes:ShowReadOnly"):
        await boxes.start(local.spec(BOX))


async def test_a_start_that_is_cancelled_leaves_a_box_that_can_be_destroyed(local: LocalKit) -> None:
    local.plane.seat(BOX, 1)
    task = asyncio.create_task(local.driver.start(local.spec(BOX)))
    await eventually(lambda: (local.config.boxes / BOX).exists(), every=0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await local.driver.destroy(BOX)
    assert await local.driver.inventory() == []
    assert [name for name in os.listdir(local.config.boxes) if name.startswith(".lock")] == []


STARTING = """
import asyncio, pathlib, sys
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.protocol import BoxSpec

async def main():
    data, mirror, commit = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    boxes = LocalBoxes(LocalConfig(data))
    await boxes._runtime.host()
    print("go", flush=True)
    words = ("app-main-1", "x/app", "main", commit, mirror, "x", "token", "none", (), 0, "http://127.0.0.1:9")
    await asyncio.gather(*(boxes.start(BoxSpec(f"b-{n}", 1, *words)) for n in range(4)))

asyncio.run(main())
"""


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.2])
async def test_a_control_plane_killed_during_starts_leaves_boxes_that_start_and_go(
    local: LocalKit, moment: float
) -> None:
    dying = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STARTING, local.data, local.mirror, local.commit), stdout=subprocess.PIPE
    )
    assert dying.stdout is not None
    assert await dying.stdout.readline() == b"go\n"
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(dying.wait(), moment)
    with contextlib.suppress(ProcessLookupError):
        dying.kill()
    await dying.wait()
    seats = await asyncio.gather(*(started(local, f"b-{n}", incarnation=2) for n in range(4)))
    assert [await seat.run("git status --porcelain; echo well") for seat in seats] == [(0, "well\n")] * 4
    for n in range(4):
        await local.driver.destroy(f"b-{n}")
    assert await local.driver.inventory() == []


async def test_a_box_starts_again_whatever_its_user_put_in_the_place_of_its_folders(local: LocalKit) -> None:
    """And none of it leads the host's side anywhere: a link is left as it is, not followed."""
    trap = local.data / "trap"
    trap.mkdir()
    trap.chmod(0o777)
    seat = await started(local, BOX)
    await seat.run(
        f"rm -rf ~/.local /var/lib /var/log /var/cache /var/tmp; ln -s {trap} ~/.local; ln -s {trap}/absent /var/lib; "
        f"touch /var/log; mkfifo /var/cache; rm -rf /usr/local/bin; ln -s {trap} /usr/local/bin; chmod 0 /var ~"
    )
    again = await started(local, BOX, incarnation=2)
    code, said = await again.run("chmod 700 /var ~; ls -d /var/log; readlink ~/.local")
    assert (code, said.splitlines()[-2:]) == (0, ["/var/log", str(trap)])
    assert list(trap.iterdir()) == []


async def test_an_agent_whose_folder_is_gone_is_found_and_ended_with_its_jail(local: LocalKit) -> None:
    """Somebody removed the folder by hand: no file tells of the box any more, its processes do."""
    seat = await started(local, BOX)
    await seat.order("bash", command="sleep 600", timeout=900)
    (local.data / "boxes" / BOX).rename(local.data / "taken-away")
    assert await local.driver.inventory() == [BOX]
    await local.driver.destroy(BOX)
    await eventually(lambda: table.agents_below(local.data / "boxes") == {}, within=10)
    assert await local.driver.inventory() == []
