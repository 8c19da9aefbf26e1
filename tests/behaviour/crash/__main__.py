"""`python -m tests.behaviour.crash`: the whole crash matrix, a cell for each boundary in each phase.

`--only TEXT` plays the boundaries whose name holds the text; `--part` those that the tests play, one of each class;
`--packed` kills once in every phase of each play; `--at-once N` plays at once. Prints what was wrong, and exits 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from tests.behaviour.crash import matrix, place
from tests.behaviour.crash.cells import plant, zygote

from keel.clock import SystemClock


async def main(options: argparse.Namespace) -> int:
    """Record, play, tell."""
    task = asyncio.current_task()
    assert task
    for number in (signal.SIGINT, signal.SIGTERM):  # what was started is put away
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    clock = SystemClock()
    began, wrong, played = clock.monotonic(), 0, 0
    with place.cluster() as cluster, zygote() as forks:
        async with plant(cluster, forks) as made:
            recording = await matrix.record(made)
            names = recording.part() if options.part else recording.names
            names = [name for name in names if options.only in name]
            cells = (recording.packed if options.packed else recording.cells)(names)[options.skip :]
            print(f"{len(recording.names)} boundaries, {len(cells)} cells", flush=True)

            def told(outcome: matrix.Outcome) -> None:
                nonlocal wrong, played
                played += 1
                if played % 20 == 0:
                    print(f"{played} of {len(cells)}, {clock.monotonic() - began:.0f} s", flush=True)
                missed = [name for name in outcome.missed if name in recording.steady]
                if outcome.wrong or missed:
                    wrong += 1
                    lines = [
                        *(f"WRONG {name}" for name in outcome.targets),
                        *(f"NOT REACHED {name}" for name in missed),
                    ]
                    print("\n".join([*lines, outcome.wrong]), flush=True)

            await matrix.run(made, cells, at_once=options.at_once, told=told)
    print(f"{len(cells)} cells, {wrong} wrong, {clock.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--skip", type=int, default=0)
    sys.exit(asyncio.run(main(parser.parse_args())))
