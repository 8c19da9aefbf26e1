"""A state machine of commands in one box: queued, claimed, expired, stopped, lost and ended in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.behaviour.machines.harness import Bench, Place

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.agents.model import Agent
from rift.commands import actions as commands
from rift.commands.model import Answer, End

ALLOWED = {
    (None, "queued"),
    ("queued", "claimed"),
    ("queued", "unrun"),
    ("claimed", "claimed"),  # its stop is wanted
    ("claimed", "finished"),
    ("claimed", "unrun"),  # its stop came before its agent heard of it
    ("claimed", "lost"),
    ("finished", "finished"),  # its tail is forgotten
}
TEN_MINUTES, MINUTE = timedelta(minutes=10), timedelta(seconds=60)


@dataclass
class Expected:
    """A command as it should be, and what its box's agents did with it."""

    created: datetime
    state: str = "queued"
    stop: bool = False
    exit: int | None = None
    output: bytes = b""
    started_by: list[int] = field(default_factory=list)
    """The incarnations that got it."""

    @property
    def open(self) -> bool:
        return self.state in ("queued", "claimed")


class Commands(RuleBasedStateMachine):
    """One task, one box, and the box's agent, whose requests and answers may get lost."""

    bench: Bench

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = self.bench.fresh()
        self.handle = self.bench.run(self.place.open_task()).handle
        self.box = self.bench.run(self.place.running_box(self.handle)).id
        self.agent: Agent = self.place.agent(self.box)
        self.heard = self.place.clock.now()
        self.commands: dict[int, Expected] = {}
        self.known: set[int] = set()
        self.gone = False
        self.looked = 0

    # The model.

    def now(self) -> datetime:
        return self.place.clock.now()

    def open(self) -> list[int]:
        return [n for n, command in self.commands.items() if command.open]

    def id(self, n: int) -> str:
        return f"{self.box}.{n}"

    def status(self, n: int) -> tuple[str, bool]:
        """What an answer says of a command, and whether it stands in `ended`."""
        command = self.commands[n]
        if command.state in ("finished", "unrun"):
            return "finished" if command.state == "finished" else "did not run", True
        silent = self.now() - self.heard >= MINUTE
        return "has not finished", command.state == "lost" or (command.state == "claimed" and silent)

    def check(self, n: int, answer: Answer) -> None:
        command, report = self.commands[n], answer.report
        assert (report.id, report.status, report.ended) == (self.id(n), *self.status(n))
        assert report.exit == (command.exit if command.state == "finished" else None)
        if report.status == "has not finished" and report.ended:
            assert report.reason is not None
            assert report.reason.startswith("lost")
        if report.status == "did not run":
            assert report.reason

    # The steps.

    @rule(count=st.integers(1, 5))
    def commands_are_sent(self, count: int) -> None:
        for _ in range(count):
            self.send()

    def send(self) -> None:
        got = self.bench.run(self.place.bash(self.handle, self.box))
        if self.gone:
            assert isinstance(got, Refusal)
            assert got.code == "vm_gone"
        elif len(self.open()) >= 4:
            assert isinstance(got, Refusal)
            assert got.code == "vm_full"
            assert all(self.id(n) in got.sentence for n in self.open())
        else:
            assert isinstance(got, Answer)
            n = len(self.commands) + 1
            self.commands[n] = Expected(self.now())
            self.check(n, got)

    @precondition(lambda self: not self.gone)
    @rule(lost=st.booleans())
    def the_agent_asks_for_work(self, lost: bool) -> None:
        """It gets what waits; a lost answer is as if it had never been given."""
        work = self.bench.run(self.place.poll(self.agent, *self.known))
        assert work is not None
        self.heard = self.now()
        expected = []
        for n, command in self.commands.items():
            if command.state == "queued" and self.now() - command.created < TEN_MINUTES:
                command.state = "claimed"
            if command.state == "claimed" and n not in self.known and not command.stop:
                expected.append(n)
        assert [one["n"] for one in work.commands] == expected
        stops = [n for n, command in self.commands.items() if command.state == "claimed" and command.stop]
        assert list(work.stops) == stops
        if lost:
            return
        for n in expected:
            self.known.add(n)
            self.commands[n].started_by.append(self.agent.incarnation)
        for n in stops:
            if n not in self.known:  # it never got this one, and says so
                never = End(n, None, "stopped by rift_stop before it started", 0, b"", ran=False)
                assert self.bench.run(agents.events(self.place.deps, self.agent, [never]))
                self.commands[n].state = "unrun"

    @precondition(lambda self: self.known)
    @rule(which=st.integers(0, 3), exit=st.sampled_from([0, 1, 143]), size=st.sampled_from([0, 5, 8192, 8193, 70_000]))
    def a_command_ends(self, which: int, exit: int, size: int) -> None:
        n = sorted(self.known)[which % len(self.known)]
        command, output = self.commands[n], (b"0123456789" * (size // 10 + 1))[:size]
        said = self.bench.run(agents.events(self.place.deps, self.agent, [End(n, exit, None, size, output[-8192:])]))
        assert said is not self.gone
        if self.gone:
            return
        self.heard = self.now()
        if command.state == "claimed":
            command.state, command.exit, command.output = "finished", exit, output
        self.known.discard(n)

    @precondition(lambda self: self.commands)
    @rule(which=st.integers(0, 63), exit=st.sampled_from([0, 9]))
    def an_end_is_told_that_nobody_can_tell(self, which: int, exit: int) -> None:
        """An end of a command that this agent never got, or had told already; nothing changes."""
        n = list(self.commands)[which % len(self.commands)]
        if self.commands[n].state == "claimed":
            return  # this one could
        self.bench.run(agents.events(self.place.deps, self.agent, [End(n, exit, "made up", 3, b"abc")]))
        if not self.gone:
            self.heard = self.now()

    @precondition(lambda self: self.commands)
    @rule(which=st.integers(0, 63))
    def a_stop_is_asked_for(self, which: int) -> None:
        n = list(self.commands)[which % len(self.commands)]
        got = self.bench.run(self.place.stop(self.handle, self.id(n)))
        command = self.commands[n]
        if command.state == "queued":
            command.state = "unrun"
        elif command.state == "claimed":
            command.stop = True
        assert isinstance(got, Answer)
        self.check(n, got)

    @precondition(lambda self: self.commands)
    @rule(which=st.integers(0, 63), count=st.integers(1, 4))
    def output_is_read(self, which: int, count: int) -> None:
        numbers = [1 + (which + step) % len(self.commands) for step in range(min(count, len(self.commands)))]
        got = self.bench.run(self.place.output(self.handle, *((self.id(n), 0) for n in numbers)))
        assert isinstance(got, list)
        for n, answer in zip(numbers, got, strict=True):
            self.check(n, answer)
            command, piece = self.commands[n], answer.piece
            if command.state == "finished" and piece.why is None:
                assert piece.output == command.output.decode()
            if command.state == "finished" and command.exit is not None:
                assert piece.size == len(command.output)
                assert piece.why == (None if len(command.output) <= 8192 else "gone" if self.gone else "silent")

    @rule()
    def upkeep_comes_round(self) -> None:
        self.bench.run(commands.expire(self.place.deps))
        for command in self.commands.values():
            if command.state == "queued" and self.now() - command.created >= TEN_MINUTES:
                command.state = "unrun"

    @rule(seconds=st.sampled_from([1.0, 59.0, 60.0, 540.0, 599.0, 600.0]))
    def time_passes(self, seconds: float) -> None:
        self.place.clock.advance(seconds)
        self.bench.run(self.place.output(self.handle, (f"{self.box}.99", 0)))  # or the task would close itself

    @precondition(lambda self: not self.gone)
    @rule()
    def the_agent_starts_anew(self) -> None:
        """It dies, is missed, and its next incarnation knows nothing of what ran. Long after its last start."""
        self.bench.run(self.place.rows("UPDATE boxes SET tries = 0 RETURNING id"))
        old = self.agent
        self.bench.run(self.place.driver.kill_agent(self.box))
        self.bench.run(self.place.worker.jobs["boxes.revive"](self.place.deps, box=self.box))
        self.agent, self.heard = self.place.agent(self.box), self.now()
        assert self.agent.incarnation == old.incarnation + 1
        for command in self.commands.values():
            if command.state == "claimed":
                command.state = "lost"
        assert self.bench.run(self.place.poll(old)) is None
        ends = [End(n, 0, None, 1, b"x") for n in self.commands]
        assert not self.bench.run(agents.events(self.place.deps, old, [*ends[:1]])) or not ends
        assert self.bench.run(self.place.up(self.box))
        self.known.clear()

    @precondition(lambda self: not self.gone and len(self.commands) > 2)
    @rule()
    def the_box_is_destroyed(self) -> None:
        self.bench.run(self.place.destroy(self.handle, self.box))
        self.gone = True
        for command in self.commands.values():
            if command.open:
                command.state = "unrun" if command.state == "queued" else "finished"

    # What always holds.

    @invariant()
    def the_records_are_as_the_model_says(self) -> None:
        rows = self.bench.run(self.place.rows("SELECT * FROM commands ORDER BY n"))
        assert [row["n"] for row in rows] == list(self.commands)
        for row in rows:
            command = self.commands[row["n"]]
            assert (row["state"], row["exit"], row["stop_wanted"]) == (command.state, command.exit, command.stop), row
            assert row["content"] is None or command.open
        assert len(self.open()) <= 4

    @invariant()
    def each_command_is_started_at_most_once_and_one_that_did_not_run_never_was(self) -> None:
        for command in self.commands.values():
            assert len(command.started_by) <= 1
            assert not (command.state == "unrun" and command.started_by)

    @invariant()
    def what_has_ended_stays_as_it_ended(self) -> None:
        steps = self.bench.run(
            self.place.rows(f"SELECT * FROM steps WHERE what = 'command' AND seq > {self.looked} ORDER BY seq")
        )
        for step in steps:
            self.looked = cast(int, step["seq"])
            assert (step["old_state"], step["new_state"]) in ALLOWED, step


def test_commands_end_once_and_start_at_most_once_whatever_is_done_to_them(bench: Bench) -> None:
    Commands.bench = bench
    run_state_machine_as_test(
        Commands,
        settings=settings(
            max_examples=50, stateful_step_count=35, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
