"""What opens an origin reaches git by no command line, environment or file, and no other host; hostile origins."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import POINTED, LocalKit

from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.local.access import lent, origin_of
from rift.drivers.forge.local.modules import BadModule, check_place, local_path, source
from rift.drivers.forge.protocol import Access, ForgeError

SECRET = "correct-horse-7f3a"
ACCESS = Access("x-access-token", SECRET)
RIGHT = b"Basic " + base64.b64encode(f"{ACCESS.user}:{SECRET}".encode())


class Origin:
    """A repository over HTTP, which asks for the right password; or leads to `instead`, before or after it asked."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self.instead = ""
        self.first = False
        self.heard: list[bytes] = []
        self.seen: list[str] = []
        self.endless = False

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/app.git"
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            line, *rest = head.split(b"\r\n")
            said = next((one.partition(b": ")[2] for one in rest if one.lower().startswith(b"authorization:")), b"")
            self.heard.append(said)
            self.seen.append(await asyncio.to_thread(everything_about_processes))
            path = line.split()[1].decode()
            if self.instead and (self.first or said):
                to = f"{self.instead}{path.partition('/app.git')[2]}"
                writer.write(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())
            elif said != RIGHT:
                writer.write(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')
            elif self.endless:
                line = b"0040" + b"a" * 40 + b" refs/heads/endless\n"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n")
                writer.write(b"001e# service=git-upload-pack\n0000")
                while True:
                    writer.write(line * 100_000)  # more than a socket takes at once
                    await writer.drain()
            else:
                body = await asyncio.to_thread(advertised, self._repository)
                kind = b"application/x-git-upload-pack-advertisement"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nConnection: close\r\n\r\n" + body)
            await writer.drain()
            writer.close()


def advertised(repository: Path) -> bytes:
    words = ["git", "-C", str(repository), "upload-pack", "--stateless-rpc", "--advertise-refs", "."]
    told = subprocess.run(words, capture_output=True, check=True).stdout
    return b"001e# service=git-upload-pack\n0000" + told


def everything_about_processes() -> str:
    """The command lines and environments of all processes of git's."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if b"git" in line:
                found.append((line + (folder / "environ").read_bytes()).decode(errors="replace"))
    return "\n".join(found)


@pytest.fixture
def origin(local: LocalKit) -> Origin:
    local.commit("main")
    return Origin(local.source)


async def test_access_opens_its_origin_and_stands_in_no_command_line_or_environment(
    local: LocalKit, origin: Origin
) -> None:
    async with origin.served() as url:
        assert await local.forge.heads(url, ACCESS) == await local.forge.heads(local.url)
    assert origin.heard == [b"", RIGHT]
    assert all("ls-remote" in seen and SECRET not in seen and RIGHT[6:].decode() not in seen for seen in origin.seen)
    assert not lent_descriptors()


def lent_descriptors() -> list[str]:
    links = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(str(one.readlink()))
    return [link for link in links if "memfd:access" in link]


@pytest.mark.parametrize("first", [True, False])
async def test_access_is_not_sent_where_its_origin_leads_to(local: LocalKit, origin: Origin, first: bool) -> None:
    """Before it asks for a password, and with the password in its hands."""
    other = Origin(local.source)
    async with origin.served() as url, other.served() as elsewhere:
        origin.instead, origin.first = elsewhere, first
        with pytest.raises(ForgeError) as raised:
            await local.forge.heads(url, ACCESS)
    assert other.heard
    assert set(other.heard) == {b""}
    assert SECRET not in raised.value.reason


async def test_a_wrong_access_is_told_without_it_and_nothing_else_is_tried(
    local: LocalKit, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's own helper is asked where there is no access, and told nothing where there is one."""
    notes = tmp_path / "notes"
    config = tmp_path / "config"
    config.write_text(
        f'[credential]\n\thelper = "!f() {{ cat >> {notes}; echo username=op; echo password=own; }}; f"\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    async with origin.served() as url:
        with pytest.raises(ForgeError) as raised:
            await local.forge.heads(url, Access("x-access-token", "wrong-one"))
        assert not notes.exists()
        with pytest.raises(ForgeError):
            await local.forge.heads(url)
    assert "wrong-one" not in raised.value.reason
    assert notes.exists()
    assert b"Basic " + base64.b64encode(b"op:own") in origin.heard


LISTING = '[submodule "in"]\n\tpath = in\n\turl = {}\n'


async def lacks_of_a_submodule_elsewhere(local: LocalKit, origin: Origin, config: Path, inner: str) -> tuple[str, ...]:
    """What is told of a commit with a submodule on another host, at this commit; `origin` stands for all hosts."""
    other = "http://1.1.1.1/other.git"
    await local.forge.fetch(local.url, local.mirror)
    known = local.mirror / "modules" / hashlib.sha256(other.encode()).hexdigest()[:32]
    local.git(config.parent, "clone", "-q", "--bare", str(local.source), str(known))
    outer = local.files({".gitmodules": LISTING.format(other)}, {"in": inner})
    await local.forge.fetch(local.url, local.mirror)
    async with origin.served() as proxy:
        config.write_text(f"[http]\n\tproxy = {proxy.removesuffix('/app.git')}\n")
        return (await local.forge.gather("http://8.8.8.8/app.git", local.mirror, outer, ACCESS)).lacks


async def test_access_is_lent_to_no_other_host_for_what_a_submodule_there_lists_beside_itself(
    local: LocalKit, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the submodule is on the submodule's host, which is not the one that the access is for."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    inner = local.files({".gitmodules": LISTING.format("../beside.git")}, {"in": "1" * 40})
    lacks = await lacks_of_a_submodule_elsewhere(local, origin, tmp_path / "config", inner)
    assert origin.heard == [b""]
    assert lacks[0].startswith("Submodules are not checked out: in/in: http://1.1.1.1/beside.git cannot be read")


async def test_lfs_files_of_a_submodule_on_another_host_are_not_asked_for(
    local: LocalKit, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server's answer would lead git-lfs anywhere, with headers of its choice: git alone is held to one address."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    lacks = await lacks_of_a_submodule_elsewhere(local, origin, tmp_path / "config", local.files(POINTED))
    assert origin.heard == []
    told = "They are at another host than the repository's: git alone is asked there."
    assert lacks == (f"LFS files are pointers, not their content: *.bin. {told}",)


async def test_an_origin_that_tells_branches_without_end_is_given_up(local: LocalKit, origin: Origin) -> None:
    origin.endless = True
    async with origin.served() as url:
        with pytest.raises(ForgeError, match="cannot be read"):
            await LocalForge(heads_seconds=3).heads(url, ACCESS)


def test_access_is_for_http_alone_and_for_one_host() -> None:
    for url in ("ssh://git@x/y", "/srv/x", "git@x:y", "file:///x", "http://a b/x", "ftp://x/y"):
        with lent(url, ACCESS) as lending:
            assert lending.words == ()
    assert origin_of("https://Example.ORG/a/b") == "https://example.org:443"
    assert origin_of("https://u:p@example.org:8443/a") == "https://example.org:8443"
    with pytest.raises(ForgeError), lent("https://x/y", Access("a", "b\nhost=evil")):
        pass


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% /tmp/never", "fd::7", "--upload-pack=touch /tmp/never", "-x", "a\nb", "", "file:///etc", "/etc",
     "../../../../etc", "ftp://x/y", "https://u:p@example.org/x", "ssh://other.test/x", "git@other.test:x",
     "ssh://-oProxyCommand=x/y", "http://exa mple/x", "../../.."],
)  # fmt: skip
def test_a_submodule_s_address_that_leads_to_the_host_or_to_a_program_is_refused(url: str) -> None:
    with pytest.raises(BadModule):
        source("https://forge.test/acme/app.git", url, None)


def test_a_submodule_s_address_is_read_as_git_reads_it(tmp_path: Path) -> None:
    base = "https://forge.test/acme/app.git"
    for url, expected in {
        "../lib.git": "https://forge.test/acme/lib.git",
        "./lib": "https://forge.test/acme/app.git/lib",
        "../../other/lib": "https://forge.test/other/lib",
        "git@forge.test:acme/lib.git": "https://forge.test/acme/lib.git",
        "ssh://git@forge.test/acme/lib": "https://forge.test/acme/lib",
    }.items():
        assert source(base, url, None).url == expected
        assert source(base, url, None).own
    foreign = source(base, "https://example.org/x", None)
    assert (foreign.own, foreign.host, foreign.port) == (False, "example.org", 443)
    assert not source(base, "http://forge.test/acme/lib", None).own
    assert source("git@forge.test:acme/app", "../lib", None).url == "git@forge.test:acme/lib"
    beside = tmp_path / "lib.git"
    assert source(str(tmp_path / "app.git"), "../lib.git", None).url == str(beside)
    for data, url in ((tmp_path, "../lib.git"), (None, "/etc"), (None, "../../lib.git"), (None, "file:///etc")):
        with pytest.raises(BadModule):
            source(str(tmp_path / "app.git"), url, data)
    (tmp_path / "way").symlink_to("/etc")
    with pytest.raises(BadModule, match="not beside"):
        source(str(tmp_path / "app.git"), "../way/x", None)


@pytest.mark.parametrize(
    "place",
    ["", "../x", "a/../../x", "/x", "a//b", ".git", "a/.GIT/b", ".git/hooks", "git~1", ".git.", ".g\u200cit", "-u",
     ".git::$INDEX", "a/./b", "x" * 600],
)  # fmt: skip
def test_a_submodule_s_name_or_path_that_leads_elsewhere_is_refused(place: str) -> None:
    for name, path in ((place, "fine"), ("fine", place)):
        with pytest.raises(BadModule):
            check_place(name, path)
    check_place("libs/one", "third party/one")


def test_what_is_a_path_of_this_host() -> None:
    assert local_path("file:///a%20b") == Path("/a b")
    assert local_path("a:b") is None
    assert local_path("./a:b") == Path("./a:b")
