from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rift_agent.processes import Process, select

INIT = 1


@st.composite
def jails(draw: st.DrawFn) -> list[Process]:
    """A tree below process 1: parents first; a session is the parent's or its own, a tag is inherited or cut."""
    found = [Process(INIT, 0, INIT)]
    for pid in range(2, draw(st.integers(2, 25))):
        parent = draw(st.sampled_from(found))
        own = parent.pid == INIT or draw(st.booleans())
        tag = draw(st.sampled_from(["b.7", "b.8"])) if parent.pid == INIT else draw(st.sampled_from([parent.tag, ""]))
        found.append(Process(pid, parent.pid, pid if own else parent.session, tag=tag))
    return found


def below(processes: list[Process], root: int) -> set[int]:
    found = {root}
    for process in processes:
        if process.parent in found:
            found.add(process.pid)
    return found


@given(jail=jails(), data=st.data())
def test_a_command_owns_its_own_and_never_the_init_or_anothers(jail: list[Process], data: st.DataObject) -> None:
    shells = [process.pid for process in jail if process.parent == INIT]
    if not shells:
        return
    root = data.draw(st.sampled_from(shells))
    others = [shell for shell in shells if shell != root]
    mine = select(jail, INIT, root, "b.7", others)
    assert INIT not in mine
    assert mine >= below(jail, root)
    for other in others:
        assert not mine & below(jail, other)


@given(jail=jails())
def test_all_that_carries_the_tag_is_found_when_nobody_else_is_open(jail: list[Process]) -> None:
    mine = select(jail, INIT, 0, "b.7", [])
    tagged = {process.pid for process in jail if process.tag == "b.7"}
    assert mine >= tagged
    for pid in mine - tagged:
        assert any(pid in below(jail, root) for root in tagged)


def test_a_double_fork_into_its_own_session_is_found_by_its_tag() -> None:
    jail = [Process(1, 0, 1), Process(10, 1, 10, tag="b.7"), Process(11, 1, 11, tag="b.7"), Process(12, 11, 11)]
    assert select(jail, 1, 10, "b.7", []) == {10, 11, 12}


def test_an_orphan_that_cleared_its_environment_is_found_by_its_session() -> None:
    jail = [Process(1, 0, 1), Process(10, 1, 10, tag="b.7"), Process(11, 1, 10), Process(12, 11, 12)]
    assert select(jail, 1, 10, "b.7", []) == {10, 11, 12}


def test_a_liar_in_another_commands_session_is_not_taken() -> None:
    jail = [
        Process(1, 0, 1),
        Process(10, 1, 10, tag="b.7"),
        Process(20, 1, 20, tag="b.8"),
        Process(21, 20, 20, tag="b.7"),
    ]
    assert select(jail, 1, 10, "b.7", [20]) == {10}


def test_a_background_child_of_an_ended_command_is_nobodys() -> None:
    jail = [Process(1, 0, 1), Process(5, 1, 4, tag="b.2"), Process(10, 1, 10, tag="b.7")]
    assert select(jail, 1, 10, "b.7", []) == {10}


def test_a_read_that_hangs_has_no_tag_and_is_found_by_its_session() -> None:
    jail = [Process(1, 0, 1), Process(10, 1, 10), Process(20, 1, 20, tag="b.8")]
    assert select(jail, 1, 10, "b.7", [20]) == {10}
