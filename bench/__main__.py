"""`python -m bench [ROW…]`: run the rows, print them, keep them in bench/results/."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from pathlib import Path

from bench.harness import Row, line, machine, system
from bench.rows import ROWS

RESULTS = Path(__file__).with_name("results")


async def main(names: list[str], label: str) -> None:
    """Run the named rows against one fresh Rift."""
    rows: list[Row] = []
    async with system() as running:
        for name in names:
            for row in await ROWS[name](running):
                rows.append(row)
                print(line(row), flush=True)
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    (RESULTS / f"{label}.json").write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    table = ["| what | ours | beside it | ratio | goal | met |", "|---|---|---|---|---|---|", *map(line, rows)]
    (RESULTS / f"{label}.md").write_text("\n".join(table) + "\n")


parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Rift beside its floors and a peer.")
parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="which rows; all when left out")
parser.add_argument("--label", default="latest", help="the name of the results' files")
chosen = parser.parse_args()
asyncio.run(main(chosen.rows or list(ROWS), chosen.label))
