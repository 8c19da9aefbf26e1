"""`run <agent.json>` beside the jail, `init <descriptor>` inside it as process 1, `measure …` to count its files,
`verb …` for a program of the jail's, `warden` beside the jail in which an environment is built.
"""

from __future__ import annotations

import os
import sys

# How python runs this archive: one named on the command line is started through `runpy`, whose imports an idle box
# would keep in memory (1.2 MiB in each of its two processes).
BOOT = "import sys; del sys.argv[0]; sys.path.insert(0, sys.argv[0]); from rift_agent.__main__ import main; main()"


def words(python: str, archive: str, *arguments: str) -> list[str]:
    """The command line that runs `archive` with these arguments."""
    return [python, "-I", "-S", "-c", BOOT, archive, *arguments]


def main() -> None:
    """Becomes one of the programs and ends the process with its exit code."""
    if len(sys.argv) == 3 and sys.argv[1] == "init":
        from rift_agent.init import Init

        sys.exit(Init(int(sys.argv[2])).run())
    if len(sys.argv) == 3 and sys.argv[1] == "run":
        if "runpy" in sys.modules and sys.executable:
            # One arena for all threads: they mostly wait, and each arena would keep memory of its own.
            environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
            os.execve(sys.executable, words(sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]), environment)
        from rift_agent.agent import run

        sys.exit(run(sys.argv[2]))
    if len(sys.argv) > 2 and sys.argv[1] == "verb":
        from rift_agent import verb

        sys.exit(verb.main(sys.argv[2], sys.argv[3:]))
    if len(sys.argv) == 6 and sys.argv[1] == "measure":
        from rift_agent import measure

        sys.exit(measure.main(sys.argv[2], *map(int, sys.argv[3:])))
    if sys.argv[1:] == ["warden"]:
        from rift_agent import warden

        sys.exit(warden.main())
    sys.exit("usage: agent.pyz run <agent.json> | agent.pyz init <descriptor>")


if __name__ == "__main__":
    main()
