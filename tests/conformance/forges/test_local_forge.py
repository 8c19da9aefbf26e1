"""What only the local forge does: git as a subprocess, its errors, its mirror on disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import POINTED, LocalKit

from rift.drivers.boxes.local import checkout
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.local import git as git_itself
from rift.drivers.forge.local.git import shown
from rift.drivers.forge.protocol import ForgeError


def command_lines() -> Iterator[str]:
    """The command line of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_text(errors="replace").replace("\0", " ")


async def test_a_mirror_never_collects_garbage_and_can_be_read_by_boxes(local: LocalKit) -> None:
    local.commit("main")
    await local.forge.fetch(local.url, local.mirror)
    assert local.git(local.mirror, "config", "gc.auto") == "0"
    assert local.git(local.mirror, "config", "gc.pruneExpire") == "never"
    assert local.git(local.mirror, "config", "core.bare") == "true"
    for path in (local.mirror / "objects").rglob("*"):
        assert path.stat().st_mode & 0o004, path


async def test_tags_come_along_and_go_again(local: LocalKit) -> None:
    commit = local.commit("main")
    local.git(local.source, "tag", "v1", commit)
    await local.forge.fetch(local.url, local.mirror)
    assert local.git(local.mirror, "tag") == "v1"
    local.git(local.source, "tag", "-d", "v1")
    await local.forge.fetch(local.url, local.mirror)
    assert local.git(local.mirror, "tag") == ""


async def test_a_repository_of_the_longer_hash_is_mirrored(local: LocalKit, tmp_path: Path) -> None:
    local.source = tmp_path / "long.git"
    local.git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", str(local.source))
    commit = local.commit("main")
    assert len(commit) == 64
    assert await local.forge.fetch(str(local.source), local.mirror) == {"main": commit}
    await local.forge.pin(local.mirror, "b-1", commit)


async def test_a_half_made_mirror_is_made_anew(local: LocalKit) -> None:
    commit = local.commit("main")
    local.mirror.mkdir(parents=True)
    (local.mirror / "HEAD").write_text("ref: refs/heads/")
    assert await local.forge.fetch(local.url, local.mirror) == {"main": commit}


@pytest.mark.parametrize("lost", ["", "objects", "objects/*"])
async def test_a_mirror_that_was_lost_is_noticed_and_made_anew(local: LocalKit, lost: str) -> None:
    """Whole, its folder of objects, or every object; an empty one that was never more is none of these."""
    await local.forge.fetch(local.url, local.mirror)
    assert await local.forge.has(local.mirror)
    commit = local.commit("main")
    await local.forge.fetch(local.url, local.mirror)
    for path in local.mirror.glob(lost) if "*" in lost else [local.mirror / lost]:
        shutil.rmtree(path)
    assert not await local.forge.has(local.mirror)
    assert await local.forge.fetch(local.url, local.mirror) == {"main": commit}
    assert local.has(commit)
    await local.forge.pin(local.mirror, "b-1", commit)


async def test_locks_and_packs_of_a_killed_git_are_cleared(local: LocalKit) -> None:
    local.commit("main")
    local.commit("side")
    await local.forge.fetch(local.url, local.mirror)
    (local.mirror / "packed-refs.lock").touch()
    (local.mirror / "refs/heads/main.lock").touch()
    pack = local.mirror / "objects/pack/tmp_pack_x"
    pack.touch()
    local.delete("side")
    commit = local.commit("main")
    assert await local.forge.fetch(local.url, local.mirror) == {"main": commit}
    assert not pack.exists()


@pytest.mark.parametrize(
    "url", ["ext::touch /tmp/never", "--upload-pack=touch /tmp/never", "-oProxyCommand=x", "", "a\nb", "fd::0", "x::y"]
)
async def test_an_address_that_is_none_is_refused(local: LocalKit, url: str) -> None:
    for call in (local.forge.heads(url), local.forge.fetch(url, local.mirror)):
        with pytest.raises(ForgeError):
            await call
    assert not Path("/tmp/never").exists()


@pytest.mark.parametrize("box", ["../x", "a b", "", "a..b", "x.lock", "-d"])
async def test_a_pin_s_name_cannot_be_anything_but_a_box(local: LocalKit, box: str) -> None:
    commit = local.commit("main")
    await local.forge.fetch(local.url, local.mirror)
    with pytest.raises(ForgeError, match="is not the id of a box"):
        await local.forge.pin(local.mirror, box, commit)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
async def test_a_branch_named_beyond_a_line_s_end_of_unicode_s_is_no_other_branch(local: LocalKit, end: str) -> None:
    """Whoever may make such a branch would else say where `main` is, and what the boxes of it run."""
    own, theirs = local.commit("main"), local.commit(f"main{end}x")
    local.commit(f"main{end}{'1' * 64}")  # nor does it make a repository one of longer names
    found = await local.forge.fetch(local.url, local.mirror)
    assert found == await local.forge.heads(local.url)
    assert found["main"] == own
    assert found[f"main{end}x"] == theirs
    assert len(found) == 3
    text, head = checkout.references({"git": "git"}, str(local.mirror), "main", own)
    assert f"\n{own} refs/remotes/origin/main\n" in text
    assert head == "main"
    session = await local.forge.open(local.mirror, local.url, "receive-pack", "refs")
    assert f"{own} refs/heads/main".encode() in (await local.forge.drain(session) or b"")
    await local.forge.close(session)


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    forge = LocalForge(heads_seconds=0.3)
    with pytest.raises(ForgeError, match=r"git took longer than 0\.3 s"):
        await forge.heads(f"http://127.0.0.1:{port}/app.git")
    assert not [line for line in command_lines() if f"127.0.0.1:{port}/app.git" in line]
    server.close()


async def test_no_fetch_takes_the_last_of_the_disk_and_what_it_had_begun_is_gone(local: LocalKit) -> None:
    commit = local.commit("main")
    await local.forge.fetch(local.url, local.mirror)
    begun = local.mirror / "objects" / "pack" / "tmp_pack_1"
    server = await asyncio.start_server(lambda reader, writer: begun.touch(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/app.git"
    forge = LocalForge(kept_free=1 << 62)  # more than any disk has
    with pytest.raises(ForgeError, match="cannot be fetched: this host has no room for what it sends") as told:
        await forge.fetch(url, local.mirror)
    assert told.value.reason.endswith("its disk is full; tell the platform admin")
    assert not begun.exists()
    assert not [line for line in command_lines() if url in line]
    server.close()
    assert await local.forge.fetch(local.url, local.mirror) == {"main": commit}


@pytest.mark.needs("git-lfs")
async def test_lfs_files_come_from_the_origin_whatever_the_repository_says_of_where(local: LocalKit) -> None:
    """A `.lfsconfig` would have the keeper's git ask any host, with what the operator's git knows of it."""
    asked: list[bytes] = []

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(ask, "127.0.0.1", 0)
    evil = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/evil"
    configured = f'[lfs]\n\turl = {evil}\n[remote "origin"]\n\tlfsurl = {evil}\n'
    commit = local.files({".lfsconfig": configured, **POINTED})
    await local.forge.fetch(local.url, local.mirror)
    for url in (local.url, f"file://{local.url}", "ssh://nobody@127.0.0.1:9/app.git"):
        found = await local.forge.gather(url, local.mirror, commit)
        assert found.lacks[0].startswith(
            "LFS files are pointers, not their content: *.bin. 1 of 1 could not be fetched"
        )
    server.close()
    assert asked == []


@pytest.mark.needs("git-lfs")
async def test_lfs_files_that_take_too_long_are_told_and_keep_nothing_else_from_being_brought(local: LocalKit) -> None:
    commit = local.files(POINTED)
    await local.forge.fetch(local.url, local.mirror)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/app.git"
    found = await LocalForge(fetch_seconds=0.5).gather(url, local.mirror, commit)
    assert found.lacks == (
        "LFS files are pointers, not their content: *.bin. 1 of 1 could not be fetched: git took longer than 0.5 s.",
    )
    server.close()


@pytest.mark.needs("git-lfs")
async def test_lfs_files_and_pushes_leave_as_much_of_the_disk_as_fetches(local: LocalKit) -> None:
    commit = local.files(POINTED)
    await local.forge.fetch(local.url, local.mirror)
    forge = LocalForge(kept_free=1 << 62)
    assert (await forge.gather(local.url, local.mirror, commit)).lacks == (
        "LFS files are pointers, not their content: *.bin. This host has no room for them.",
    )
    with pytest.raises(ForgeError, match="the host has no room for a push"):
        await forge.open(local.mirror, local.url, "receive-pack", "rpc")


async def test_a_list_of_branches_without_end_is_not_taken_to_its_end(
    local: LocalKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.commit("main")
    monkeypatch.setattr(git_itself, "OUTPUT_LIMIT", 20)  # less than one branch
    with pytest.raises(ForgeError, match="too many branches"):
        await local.forge.heads(str(local.source))
    assert not [line for line in command_lines() if f"ls-remote --heads -- {local.source}" in line]


async def test_what_git_complains_of_without_end_is_kept_at_its_end() -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo line-$i >&2; i=$((i+1)); done; false"
    with pytest.raises(ForgeError) as raised:
        await git_itself.git("-c", f"alias.many=!{script}", "many", seconds=60)
    assert "line-19999" in raised.value.reason
    assert len(raised.value.reason) <= git_itself.ERROR_CHARACTERS


async def test_without_git_its_installation_is_told(local: LocalKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ForgeError, match="`apt install git`"):
        await local.forge.heads(local.url)


async def test_a_mirror_that_cannot_be_made_is_told(local: LocalKit, tmp_path: Path) -> None:
    local.commit("main")
    (tmp_path / "file").touch()
    with pytest.raises(ForgeError, match="file"):
        await local.forge.fetch(local.url, tmp_path / "file" / "app.git")


async def test_errors_hold_no_credential(local: LocalKit) -> None:
    with pytest.raises(ForgeError) as failed:
        await local.forge.heads("http://someone:hunter2@127.0.0.1:9/app.git")
    assert "hunter2" not in failed.value.reason
    assert "someone" not in failed.value.reason
    assert "http://***@127.0.0.1:9/app.git" in failed.value.reason


def test_errors_are_short_and_without_gits_prefixes() -> None:
    assert shown("fatal: repository 'x' does not exist\n") == "repository 'x' does not exist"
    assert len(shown("error: a\n" * 10_000)) < 100
    assert len(shown("x" * 10_000)) == 1000
    assert shown("fatal: see https://a:b@c/d and ssh://e@f/g") == "see https://***@c/d and ssh://***@f/g"
