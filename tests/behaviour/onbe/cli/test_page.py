"""The first ten minutes of docs/onbe.md, typed as they stand there, against the real program."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import WITHIN, environment
from tests.behaviour.onbe.cli.programs import server

PAGE = Path(__file__).parents[4] / "docs" / "onbe.md"
USUAL = "http://127.0.0.1:7434"


def blocks() -> list[str]:
    """What a newcomer types, a block after the other."""
    part = PAGE.read_text("utf-8").partition("## The first ten minutes")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="the page is for a shell with curl")
def test_the_first_ten_minutes_are_as_the_page_says(tmp_path: Path) -> None:
    where, *typed = blocks()
    assert "ONBE_DATA=" in where, "the first block alone depends on where this is played"
    with server() as one:
        script = "\necho '--'\n".join(typed).replace(USUAL, one.url)
        bin_folder = str(Path(sys.executable).parent)
        env = environment({"ONBE_DATA": str(one.data), "no_proxy": "127.0.0.1"})
        env["PATH"] = f"{bin_folder}:{env['PATH']}"
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=WITHIN,
        )  # fmt: skip
        said = done.stdout
        assert (done.returncode, done.stderr) == (0, ""), (said, done.stderr)
        registered, _, exchanged, refreshed, off, audit = said.split("--\n")
        assert "1 created, 0 changed, 0 unchanged" in registered
        assert exchanged.startswith("eyJ")
        assert '"access_token"' in refreshed
        assert '"reason":"sponsor_disabled"' in off
        assert off.endswith('"enabled":true}')
        assert "sponsor_disabled" in audit
        assert "Intact: " in audit
