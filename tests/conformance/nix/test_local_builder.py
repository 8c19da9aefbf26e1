"""What Nix on this host makes of flakes, and the exact texts that whoever wrote them gets."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.conformance.nix.conftest import LocalKit
from tests.conformance.nix.flakes import HELLO, SYSTEM, derivation, flake, whole

from keel.sizes import MIB
from keel.testing import eventually
from rift.drivers.nix.local import LocalBuilder
from rift.drivers.nix.protocol import BuildError, BuildInterrupted, Built

BUILD = "e-1"
HERE = f"fixed-labs.rift.{SYSTEM}"


async def built(kit: LocalKit, text: str, **files: str) -> Built:
    """What a flake of this text comes to."""
    commit = kit.origin.commit({"flake.nix": text, **files})
    made = await kit.builder.build(BUILD, kit.repo, kit.mirror, commit)
    assert made is not None
    return made


async def reason(kit: LocalKit, text: str, **files: str) -> str:
    """Why a flake of this text is not built."""
    with pytest.raises(BuildError) as told:
        await built(kit, text, **files)
    return told.value.reason


async def said(kit: LocalKit) -> str:
    """The log."""
    return (await kit.builder.log(BUILD, 0)).data.decode()


async def test_packages_are_in_the_store_that_boxes_see_in_the_order_of_the_flake(local: LocalKit) -> None:
    other = derivation("mkdir -p $out/bin; echo other > $out/bin/other", name="other")
    made = await built(local, flake(f"{{ packages = [ {other} {HELLO} {other} ]; }}"))
    assert [path.partition("-")[2] for path in made.paths] == ["other", "tool"]
    assert made.store == local.data / "nix" / local.repo / "store"
    program = made.store / Path(made.paths[1]).name / "bin" / "hello"
    assert program.read_text() == "echo hello\n"
    assert program.stat().st_mode & 0o777 == 0o555
    assert made.env == ()
    assert made.setup == ""


async def test_what_variables_and_the_setup_name_is_built_too(local: LocalKit) -> None:
    library = derivation("mkdir $out; echo so > $out/lib.so", name="library")
    text = f'{{ env.LIBRARY = "${{{library}}}/lib.so"; env.SOURCE = "${{./data}}"; setup = "cat ${{{HELLO}}}"; }}'
    made = await built(local, flake(text), data="in the repository")
    env = dict(made.env)
    in_store = {name: made.store / Path(value).relative_to("/nix/store") for name, value in env.items()}
    assert in_store["LIBRARY"].read_text() == "so\n"
    assert in_store["SOURCE"].read_text() == "in the repository"
    assert (made.store / Path(made.setup.removeprefix("cat ")).name / "bin" / "hello").exists()
    await local.builder.keep(local.repo, (BUILD,))
    assert in_store["LIBRARY"].exists()
    assert in_store["SOURCE"].exists()


async def test_what_the_host_refuses_is_no_failure_of_the_flake_and_may_go_better(local: LocalKit) -> None:
    (local.data / "nix").write_text("in the way")
    with pytest.raises(BuildInterrupted, match=f"^{local.data}/nix: File exists.$"):
        await built(local, flake("{ }"))
    (local.data / "nix").unlink()
    assert (await built(local, flake("{ }"))).paths == ()


async def test_an_environment_may_be_empty(local: LocalKit) -> None:
    made = await built(local, flake("{ }"))
    assert (made.paths, made.env, made.setup) == ((), (), "")


async def test_import_from_a_derivation_is_built_while_evaluating(local: LocalKit) -> None:
    made = await built(local, flake(f"{{ env.MADE = builtins.readFile {derivation('echo -n there > $out')}; }}"))
    assert made.env == (("MADE", "there"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            whole('{ version = 1; image = "ubuntu"; }'),
            (
                "fixed-labs.rift is written in the older form, { version = …; image = …; }, which names an image. "
                f"Images are not used any more: write {HERE} = {{ packages = [ … ]; }}; instead, with the packages "
                "that the image had."
            ),
        ),
        (
            whole("{ riscv64-linux = { }; s390x-linux = { }; }"),
            (
                f"This Rift runs on {SYSTEM}, and fixed-labs.rift has: riscv64-linux, s390x-linux. Add {HERE} to "
                "flake.nix."
            ),
        ),
        (
            whole("[ ]"),
            (
                "fixed-labs.rift is a list; it should be an attribute set with a member for each system: "
                f"{HERE} = {{ packages = [ … ]; }};"
            ),
        ),
        (flake("[ ]"), f"{HERE} is a list; it should be an attribute set."),
        (
            flake("{ package = [ ]; shell = 1; }"),
            f"{HERE} has package, shell; its members are packages, env and setup, and no others.",
        ),
        (
            flake(f"{{ packages = {HELLO}; }}"),
            f"{HERE}.packages is an attribute set; it should be a list of derivations.",
        ),
        (
            flake(f'{{ packages = [ {HELLO} "git" ]; }}'),
            f"{HERE}.packages: element 1 (from 0) is a string; each should be a derivation.",
        ),
        (flake("{ env = [ ]; }"), f"{HERE}.env is a list; it should be an attribute set of strings."),
        (
            flake("{ env.PORT = 80; }"),
            f'{HERE}.env.PORT is a number; it should be a string. Write it as a string: "…".',
        ),
        (
            flake('{ env."A-B" = ""; }'),
            f"{HERE}.env has A-B, which cannot be a variable's name: letters, digits and _ can, the first no digit.",
        ),
        (flake("{ setup = [ ]; }"), f"{HERE}.setup is a list; it should be a string."),
        (
            "{ outputs = { self }: { /* fixed-labs */ }; }",
            (
                "flake.nix speaks of fixed-labs, and its outputs have no fixed-labs.rift. "
                f"Add {HERE} = {{ packages = [ … ]; }}; to them."
            ),
        ),
    ],
)
async def test_another_shape_is_refused_with_what_it_should_be(local: LocalKit, text: str, told: str) -> None:
    assert await reason(local, text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{ fixed-labs = ; }", ["The flake cannot be evaluated:", "syntax error, unexpected ';'", "at flake.nix:1:16"]),
        (flake('{ packages = throw "not today"; }'), ["The flake cannot be evaluated:", "not today"]),
        (flake("{ packages = x; }", before="x = x;"), ["infinite recursion encountered", "at flake.nix:"]),
        (flake("{ packages = [ (import ./absent.nix) ]; }"), ["The flake cannot be evaluated:", "absent.nix"]),
    ],
)
async def test_what_cannot_be_evaluated_is_told_in_nix_own_words(local: LocalKit, text: str, told: list[str]) -> None:
    text = await reason(local, text)
    assert [one for one in told if one not in text] == []
    assert "/src" not in text
    assert "-source" not in text
    assert str(local.data) not in text
    assert "\x1b" not in text


async def test_a_failed_build_is_told_with_all_that_it_said(local: LocalKit) -> None:
    first = derivation("mkdir $out", name="first")
    lines = "; ".join(f"echo line {number}" for number in range(80))
    broken = derivation(f"cat {'$dep'}/absent; {lines}; exit 7", name="broken", more=f"dep = {first};")
    text = await reason(local, flake(f"{{ packages = [ {broken} ]; }}"))
    assert text.startswith("A package cannot be built:\n")
    assert all(f"line {number}\n" in text for number in range(80))
    assert "failed with exit code 7" in text


async def test_the_source_is_laid_out_byte_for_byte_whatever_its_attributes_say(local: LocalKit) -> None:
    files = {
        ".gitattributes": "*.txt eol=crlf\nsubst export-subst\nleft export-ignore\nf filter=evil\nw ident\n",
        "a.txt": "one\ntwo\n",
        "subst": "$Format:%H$",
        "left": "still here",
        "f": "unfiltered",
        "w": "$Id$",
        "odd \\ name": "odd",
        "flake.nix": flake(
            '{ env = builtins.mapAttrs (name: type: builtins.readFile (./. + "/${name}")) '
            '(removeAttrs (builtins.readDir ./.) [ "flake.nix" ".gitattributes" "a.txt" "odd \\\\ name" ]) '
            '// { a = builtins.readFile ./a.txt; odd = builtins.readFile (./. + "/odd \\\\ name"); }; }'
        ),
    }
    made = await local.builder.build(BUILD, local.repo, local.mirror, local.origin.commit(files))
    assert made is not None
    assert dict(made.env) == {
        "a": "one\ntwo\n",
        "subst": "$Format:%H$",
        "left": "still here",
        "f": "unfiltered",
        "w": "$Id$",
        "odd": "odd",
    }


async def test_a_flake_that_is_a_link_is_followed_in_the_jail_alone(local: LocalKit) -> None:
    files = {"nix/flake.nix": flake('{ env.LINKED = "yes"; }')}
    commit = local.origin.commit(files, {"flake.nix": "nix/flake.nix"})
    made = await local.builder.build(BUILD, local.repo, local.mirror, commit)
    assert made is not None
    assert made.env == (("LINKED", "yes"),)
    away = local.origin.commit({}, {"flake.nix": "/etc/passwd"})
    with pytest.raises(BuildError):
        await local.builder.build(BUILD, local.repo, local.mirror, away)


async def test_a_commit_that_is_not_there_is_told(local: LocalKit) -> None:
    with pytest.raises(BuildError, match="cannot be read"):
        await local.builder.build(BUILD, local.repo, local.mirror, "f" * 40)


async def test_what_is_built_once_is_not_built_again(local: LocalKit) -> None:
    commit = local.good()
    await local.builder.build(BUILD, local.repo, local.mirror, commit)
    assert "made it" in await said(local)
    await local.builder.build(BUILD, local.repo, local.mirror, commit)
    assert "made it" not in await said(local)


async def test_what_only_a_dropped_build_needs_is_collected(local: LocalKit) -> None:
    first = await local.builder.build("e-1", local.repo, local.mirror, local.good())
    other = derivation("mkdir $out", name="other")
    commit = local.origin.commit({"flake.nix": flake(f"{{ packages = [ {other} ]; }}")})
    second = await local.builder.build("e-2", local.repo, local.mirror, commit)
    assert first is not None
    assert second is not None
    await local.builder.keep(local.repo, ("e-2",))
    assert not (first.store / Path(first.paths[0]).name).exists()
    assert (second.store / Path(second.paths[0]).name).exists()
    assert await local.builder.build("e-3", local.repo, local.mirror, commit) == second


async def test_a_build_that_runs_is_collected_after_it_and_keeps_what_it_made(local: LocalKit) -> None:
    first = await local.builder.build("e-1", local.repo, local.mirror, local.good())
    slow = derivation("sleep 1; mkdir $out", name="slow")
    commit = local.origin.commit({"flake.nix": flake(f"{{ packages = [ {slow} ]; }}")})
    building = asyncio.create_task(local.builder.build("e-2", local.repo, local.mirror, commit))
    await eventually(lambda: (local.data / "nix" / local.repo / "work").exists(), within=60)
    await local.builder.keep(local.repo, ("e-2",))
    second = await building
    assert first is not None
    assert second is not None
    assert (second.store / Path(second.paths[0]).name).exists()
    assert not (first.store / Path(first.paths[0]).name).exists()


async def test_builds_of_two_repositories_share_nothing(local: LocalKit) -> None:
    commit = local.good()
    first = await local.builder.build("e-1", "r-1", local.mirror, commit)
    second = await local.builder.build("e-2", "r-2", local.mirror, commit)
    assert first is not None
    assert second is not None
    assert first.paths == second.paths
    stores = [made.store.stat() for made in (first, second)]
    assert stores[0].st_ino != stores[1].st_ino
    if local.as_root:
        assert stores[0].st_uid != stores[1].st_uid
        assert {store.st_uid for store in stores} & {0} == set()
    await local.builder.forget("r-1")
    assert not first.store.exists()
    assert second.store.exists()


async def test_so_many_are_built_at_once_and_the_others_wait(local: LocalKit) -> None:
    builder = LocalBuilder(dataclasses.replace(local.config, at_once=1))
    slow = local.origin.commit({"flake.nix": flake(f"{{ packages = [ {derivation('sleep 0.6; mkdir $out')} ]; }}")})
    marks = [local.data / "nix" / repo / "work" for repo in ("r-1", "r-2")]
    both = asyncio.gather(*(builder.build(f"e-{repo}", repo, local.mirror, slow) for repo in ("r-1", "r-2")))

    def one_alone() -> bool:
        assert not all(mark.exists() for mark in marks)
        return both.done()

    await eventually(one_alone, within=60)
    await both


async def test_a_build_that_takes_too_long_is_ended_and_says_so(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, build_seconds=2.0))
    with pytest.raises(BuildError) as told:
        await local.builder.build(BUILD, local.repo, local.mirror, local.endless())
    assert told.value.reason.startswith("It was not built within 2 s (Rift:Environments:BuildFor):\n")
    assert told.value.reason.endswith("\nbegun")
    assert not (await local.builder.log(BUILD, 0)).running


async def test_a_build_that_says_too_much_is_ended_and_says_so(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, log_most=MIB))
    text = await reason(local, flake(f"{{ packages = [ {derivation('while :; do echo on and on; done')} ]; }}"))
    assert text.startswith("A package cannot be built:\nIt said more than 1 MiB, and was ended for that.\n")
    assert (local.data / "nix" / local.repo / "builds" / BUILD / "log").stat().st_size == MIB


async def test_a_host_without_nix_says_how_to_install_it(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, places="/nonexistent"))
    lack = await local.builder.lacking()
    assert lack is not None
    assert "`sudo apt install nix-bin`" in lack
    with pytest.raises(BuildError) as told:
        await local.builder.build(BUILD, local.repo, local.mirror, local.good())
    assert told.value.reason == lack
    assert await local.builder.build(BUILD, local.repo, local.mirror, local.bare()) is None


async def test_a_host_with_nix_lacks_nothing(local: LocalKit) -> None:
    assert await local.builder.lacking() is None
