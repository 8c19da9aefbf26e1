"""Flakes that attack the host, other repositories, or whoever builds them."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.nix.attacks import BUILD, SYSTEM_PYTHON, built, package, reason, run
from tests.conformance.nix.conftest import LocalKit
from tests.conformance.nix.flakes import flake

from rift.drivers.nix.local import LocalBuilder

pytestmark = SYSTEM_PYTHON


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of the host's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


async def test_the_builder_reads_nothing_of_the_host(local: LocalKit) -> None:
    canary = local.data / "canary"
    canary.parent.mkdir(exist_ok=True)
    canary.write_text("a secret of the host")
    canary.chmod(0o644)
    mark = Path("/var/tmp") / f"rift-canary-{os.getpid()}"
    mark.write_text("a secret of the host")
    mark.chmod(0o644)
    try:
        said = await run(
            local,
            f"""
            import os
            for path in ("{canary}", "{mark}", "/etc/shadow", "/etc/ssh", "/etc/nix", "/etc/hostname", "/root", "/var",
                         "{local.data}", "{local.mirror}", "/sys/fs", "/dev/sda", "/dev/kmsg", "/proc/kcore",
                         "/proc/sysrq-trigger", "/nix/var/nix/daemon-socket"):
                try:
                    print("LEAK", path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(60))
                except OSError as error:
                    print("kept", path)
            pids = [name for name in os.listdir("/proc") if name.isdigit()]
            print("HOMES", os.listdir("/home"), "UID", os.getuid(), "PIDS", len(pids) < 12)
            print("ENV", {{name for name in os.environ if "RIFT" in name.upper() or "TOKEN" in name.upper()}})
            """,
        )
    finally:
        mark.unlink()
    assert said.count("kept") >= 15
    assert "LEAK" not in said
    assert "a secret" not in said
    assert "HOMES ['nix'] UID 1000 PIDS True" in said
    assert "ENV set()" in said


async def test_evaluating_reads_nothing_of_the_host(local: LocalKit) -> None:
    for expression in (
        "builtins.readFile /etc/shadow",
        'builtins.readFile "/etc/passwd"',
        "builtins.readFile ./link",
        'builtins.toString (builtins.attrNames (builtins.readDir "/"))',
        "builtins.toString <nixpkgs>",
    ):
        text = await reason(local, flake(f"{{ env.READ = {expression}; }}"), {"link": "/etc/passwd"})
        assert "forbidden" in text or "cannot look up" in text, text
    made = await built(local, flake('{ env.READ = builtins.getEnv "HOME"; }'))
    assert made.env == (("READ", ""),)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("path:/root", "No such file or directory"),
        ("path:/var/tmp", "No such file or directory"),
        ("git+file:///root/x", "does not appear to be a git repository"),
        ("git+ssh://git@localhost/x", "error:"),
        ("http://127.0.0.1:{port}/x.tar.gz", "Port {port} of 127.0.0.1 is not reachable"),
        ("http://127.0.0.1/x.tar.gz", "127.0.0.1 is none of the hosts that builds may reach"),
        ("http://169.254.169.254/latest/x.tar.gz", "169.254.169.254 is none of the hosts that builds may reach"),
        ("https://unlisted.example/x.tar.gz", "unlisted.example is none of the hosts that builds may reach"),
    ],
)
async def test_an_input_leads_to_nothing_of_the_host(
    local: LocalKit, listener: socket.socket, url: str, told: str
) -> None:
    port = listener.getsockname()[1]
    inputs = f'inputs.x = {{ url = "{url.format(port=port)}"; flake = false; }};'
    text = await reason(local, flake('{ env.READ = "${all.x}"; }', inputs=inputs))
    assert told.format(port=port) in text
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_the_builder_reaches_no_service_of_the_host(local: LocalKit, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    everywhere = LocalBuilder(dataclasses.replace(local.config, hosts=("*",)))
    local.builder = everywhere
    abstract = f"\\0rift-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(abstract.replace("\\0", "\0"))
        hidden.listen()
        said = await run(
            local,
            f"""
            import socket
            def ask(host, port):
                with socket.create_connection(("127.0.0.1", 3128), 10) as proxy:
                    proxy.sendall(f"CONNECT {{host}}:{{port}} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
                    return proxy.recv(200).split(b"\\r\\n")[0].decode()
            for where in (("127.0.0.1", {port}), ("10.0.0.1", 80), ("192.168.0.1", 443), ("169.254.169.254", 80)):
                try:
                    socket.create_connection(where, 3)
                    print("LEAK", where)
                except OSError:
                    print("kept", where)
            try:
                socket.socket(socket.AF_UNIX).connect("{abstract}")
                print("LEAK abstract")
            except OSError:
                print("kept abstract")
            for host, number in (("127.0.0.1", {port}), ("127.0.0.1", 80), ("localhost", 443), ("169.254.169.254", 80),
                                 ("0x7f.1", 80), ("[::1]", 80), ("10.0.0.1", 443), ("github.com", 22)):
                print(host, ask(host, number))
            """,
        )
    assert "LEAK" not in said
    assert said.count("kept") == 5
    for host in ("127.0.0.1", "localhost", "169.254.169.254", "0x7f.1", "[::1]", "10.0.0.1", "github.com"):
        assert f"{host} HTTP/1.1 403" in said, said
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_the_builder_writes_nowhere_but_into_its_own(local: LocalKit) -> None:
    said = await run(
        local,
        """
        import os
        for path in ("/", "/usr", "/usr/bin", "/etc", "/src", "/nix", "/bin", "/lib", "/dev", "/run",
                     "/proc/sys/kernel", "/etc/ssl/certs", "/mirror"):
            try:
                open(path + "/planted", "w").close()
                print("LEAK", path)
            except OSError:
                print("kept", path)
        for act in (lambda: os.rename("/nix/store", "/nix/x"), lambda: os.rename("/nix", "/x"),
                    lambda: os.rmdir("/nix/var"), lambda: os.symlink("/", "/nix/other")):
            try:
                act()
                print("LEAK")
            except OSError:
                print("kept")
        """,
    )
    assert "LEAK" not in said
    assert said.count("kept") == 17


async def test_the_store_of_another_repository_is_out_of_reach(local: LocalKit) -> None:
    other = await local.builder.build("e-other", "r-other", local.mirror, local.good())
    assert other is not None
    before = sorted(path.name for path in other.store.iterdir())
    said = await run(
        local,
        f"""
        import os
        path = "{other.paths[0]}"
        print("SEEN" if os.path.exists(path) else "unseen", os.path.exists("{other.store}"))
        os.mkdir(path)  # in this repository's own store, where Nix knows nothing of it
        os.makedirs("/nix/var/nix/gcroots/x")
        """,
    )
    assert "unseen False" in said
    assert sorted(path.name for path in other.store.iterdir()) == before
    again = await local.builder.build("e-other", "r-other", local.mirror, local.good())
    assert again == other
    # The planted folder was not valid, so what is asked for is built.
    mine = await local.builder.build("e-2", local.repo, local.mirror, local.good())
    assert mine is not None
    assert (mine.store / Path(mine.paths[0]).name / "bin" / "hello").exists()


async def test_links_that_lead_out_of_the_store_are_followed_by_nobody_on_the_host(
    local: LocalKit, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    script = f"ln -s {tmp_path} $out; ln -s {tmp_path} /tmp/x; ln -s / /home/nix/y; ln -s {tmp_path} /nix/store/z"
    made = await built(local, package(script))
    link = made.store / Path(made.paths[0]).name
    assert link.readlink() == tmp_path
    await local.builder.keep(local.repo, ())
    assert not link.is_symlink()
    await local.builder.forget(local.repo)
    assert precious.read_text() == "kept"


async def test_what_a_builder_closes_is_removed_all_the_same(local: LocalKit) -> None:
    await run(
        local,
        """
        import os
        for top in ("/tmp", "/home/nix", "/nix/var", "/nix/store"):
            os.makedirs(top + "/closed/in", exist_ok=True)
            open(top + "/closed/in/file", "w").close()
            os.chmod(top + "/closed/in", 0)
            os.chmod(top + "/closed", 0)
        os.chmod("/nix/store", 0)
        os.chmod("/tmp", 0)
        """,
    )
    assert not (local.data / "nix" / local.repo / "work").exists()
    await local.builder.forget(local.repo)
    assert not (local.data / "nix" / local.repo).exists()
    assert await local.builder.build(BUILD, local.repo, local.mirror, local.good()) is not None
