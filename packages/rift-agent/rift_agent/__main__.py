"""`run <agent.json>` beside the jail, `init <descriptor>` inside it as process 1."""

from __future__ import annotations

import sys


def main() -> None:
    """Becomes one of the two programs and ends the process with its exit code."""
    if len(sys.argv) == 3 and sys.argv[1] == "init":
        from rift_agent.init import Init

        sys.exit(Init(int(sys.argv[2])).run())
    if len(sys.argv) == 3 and sys.argv[1] == "run":
        from rift_agent.agent import run

        sys.exit(run(sys.argv[2]))
    sys.exit("usage: agent.pyz run <agent.json> | agent.pyz init <descriptor>")


if __name__ == "__main__":
    main()
