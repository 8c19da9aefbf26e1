"""Which cgroups boxes can have, on trees that are made of plain files: of each version, of both, and of neither."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rift.drivers.boxes.local import cgroups, limits
from rift.drivers.boxes.local.cgroups import MAIN, Mounted, Plan
from rift.drivers.boxes.local.groups import Groups, weight
from rift.drivers.boxes.protocol import BoxSpec, Limits

V2 = "cgroup.controllers"
SCOPE = "user.slice/user-1000.slice/user@1000.service/app.slice/run-r5.scope"


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def line(point: Path, kind: str, controllers: str = "rw", root: str = "/") -> str:
    """One line of /proc/self/mountinfo."""
    return f"30 24 0:26 {root} {point} rw,nosuid,nodev shared:4 - {kind} {kind} {controllers}\n"


def v1(root: Path, *names: str) -> str:
    return "".join(line(tree(root, {f"{name}/tasks": ""}) / name, "cgroup", f"rw,{name}") for name in names)


def test_root_takes_the_top_of_version_2(tmp_path: Path) -> None:
    tree(tmp_path, {V2: "cpuset cpu io memory pids\n"})
    found = cgroups.plan(line(tmp_path, "cgroup2"), "0::/system.slice/rift.service\n", root=True, systemd=True)
    assert (found.v1, found.v2, found.crowded) == ({}, tmp_path, False)
    assert all(map(found.holds, ("memory", "pids", "cpu")))


def test_in_a_container_the_top_is_none_and_its_processes_have_to_move(tmp_path: Path) -> None:
    tree(tmp_path, {V2: "memory pids\n", "cgroup.type": "domain\n"})
    found = cgroups.plan(line(tmp_path, "cgroup2"), "0::/\n", root=True, systemd=False)
    assert (found.v2, found.crowded, found.holds("cpu")) == (tmp_path, True, False)


def test_root_takes_the_top_of_each_tree_of_version_1(tmp_path: Path) -> None:
    text = v1(tmp_path, "memory", "pids", "freezer") + v1(tmp_path, "cpu,cpuacct")
    found = cgroups.plan(text, "4:memory:/a\n", root=True, systemd=False)
    assert found.v1 == {
        "memory": tmp_path / "memory",
        "pids": tmp_path / "pids",
        "cpu": tmp_path / "cpu,cpuacct",
    }
    assert found.v2 is None


def test_of_both_versions_each_gives_what_it_has(tmp_path: Path) -> None:
    text = v1(tmp_path, "memory") + line(tree(tmp_path / "unified", {V2: "pids hugetlb\n"}), "cgroup2")
    found = cgroups.plan(text, "4:memory:/a\n0::/\n", root=True, systemd=False)
    assert (list(found.v1), found.v2, found.v2_controllers) == (["memory"], tmp_path / "unified", frozenset({"pids"}))
    assert (found.holds("memory"), found.holds("pids"), found.holds("cpu")) == (True, True, False)
    assert Groups(found, tmp_path)._wanted() == ["pids"]


def test_an_empty_tree_of_version_2_holds_nothing_and_is_used_to_end_boxes(tmp_path: Path) -> None:
    found = cgroups.plan(line(tree(tmp_path, {V2: ""}), "cgroup2"), "0::/\n", root=True, systemd=False)
    assert found.v2 == tmp_path
    assert not any(map(found.holds, ("memory", "pids", "cpu")))


@pytest.mark.parametrize("root", [True, False])
def test_a_host_without_cgroups_is_told_so(root: bool) -> None:
    found = cgroups.plan("22 1 8:1 / / rw - ext4 /dev/sda rw\n", "", root=root, systemd=True)
    assert found == Plan(why="no cgroups are mounted here")


def test_a_user_takes_the_group_that_was_delegated(tmp_path: Path) -> None:
    tree(tmp_path, {f"{SCOPE}/{V2}": "memory pids\n", f"{SCOPE}/cgroup.type": "domain\n"})
    for own in (SCOPE, f"{SCOPE}/{MAIN}"):  # before and after Rift has moved
        found = cgroups.plan(line(tmp_path, "cgroup2"), f"0::/{own}\n", root=False, systemd=True)
        assert (found.v2, found.crowded, found.v2_controllers) == (
            tmp_path / SCOPE,
            True,
            frozenset({"memory", "pids"}),
        )


def test_a_users_own_session_is_left_alone_though_it_could_be_written_to(tmp_path: Path) -> None:
    own = "user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.scope"
    tree(tmp_path, {f"{own}/{V2}": "memory pids\n"})
    found = cgroups.plan(line(tmp_path, "cgroup2"), f"0::/{own}\n", root=False, systemd=True)
    assert found == Plan(mounted=True, why="no cgroup here was delegated to this user")
    assert cgroups.plan(line(tmp_path, "cgroup2"), f"0::/{own}\n", root=False, systemd=False).v2 == tmp_path / own


@pytest.mark.parametrize(
    ("root", "own", "there"),
    [
        ("/", "/a/b", "a/b"),
        ("/", "/", "."),
        ("/docker/x", "/docker/x/inner", "inner"),
        ("/docker/x", "/docker/x", "."),
        ("/docker/x", "/docker/xy", None),
        ("/docker/x", "/elsewhere", None),
        ("/", "/../outside", None),
        ("/", None, None),
    ],
)
def test_a_group_is_found_where_its_tree_is_mounted(root: str, own: str | None, there: str | None) -> None:
    found = cgroups.place(Mounted(Path("/cg"), root, None), own)
    assert found == (None if there is None else Path("/cg") / there)


def test_two_data_folders_have_groups_of_their_own(tmp_path: Path) -> None:
    found = Plan(v1={"pids": tmp_path / "cg"})
    one, two = (Groups(found, tmp_path / name) for name in ("one", "two"))
    tree(tmp_path / "cg", {f"{one._name}/box-b-1/tasks": "", f"{two._name}/box-b-2/tasks": ""})
    assert (one.boxes(), two.boxes()) == (["b-1"], ["b-2"])


@pytest.mark.parametrize(
    ("shares", "its"), [(1024, 100), (10, 1), (2048, 200), (100_000, 9766), (1, 1), (10**9, 10_000)]
)
def test_shares_are_weights_in_version_2(shares: int, its: int) -> None:
    assert weight(shares) == its


ALL = Plan(v1={"memory": Path("/m"), "pids": Path("/p"), "cpu": Path("/c")})


@pytest.mark.parametrize(
    ("plan", "release", "own_user", "memory", "processes"),
    [
        (ALL, "4.19.0", False, "cgroup", "cgroup"),
        (Plan(), "6.1.0-amd64", False, "rlimit", "rlimit"),
        (Plan(), "5.14.0", False, "rlimit", "rlimit"),
        (Plan(), "5.10.0-28", False, "rlimit", ""),
        (Plan(), "5.10.0-28", True, "rlimit", "rlimit"),
        (Plan(v2=Path("/u"), v2_controllers=frozenset({"pids"})), "5.10.0", False, "rlimit", "cgroup"),
    ],
)
def test_what_no_cgroup_holds_a_resource_limit_does_where_it_can(
    plan: Plan, release: str, own_user: bool, memory: str, processes: str
) -> None:
    found = limits.held(plan, release, own_user=own_user)
    assert (found["memory"], found["processes"]) == (memory, processes)


def test_without_a_cgroup_a_box_steps_back_by_its_share() -> None:
    none, some = limits.held(Plan(), "6.1", own_user=True), limits.held(ALL, "6.1", own_user=True)
    nice = [limits.nice(Limits(cpu_shares=shares), none) for shares in (100_000, 2048, 1024, 512, 10)]
    assert nice == sorted(nice)
    assert (nice[0], nice[2], nice[-1]) == (0, 5, 19)
    assert limits.nice(Limits(cpu_shares=10), some) == 0


def test_a_limit_is_told_with_what_changes_it() -> None:
    spec = BoxSpec(
        *("b-1", 1, "app-main-1", "acme/app", "main", "0" * 40, Path("/m"), "https://example.org/app", "token"),
        *("proxy", (), 0, "http://127.0.0.1:7433"),
        limits=Limits(cpu_shares=7, own=("cpu_shares",)),
    )
    told = limits.told(spec, limits.held(ALL, "6.1", own_user=True))
    assert told["memory"] == {"value": 4 * 2**30, "setting": "Rift:Boxes:Memory", "by": "cgroup"}
    assert told["cpu_shares"]["setting"] == "rift repo limits acme/app --cpu-shares"
