"""A program in the place of a browser: opens the address that a client gives it, as somebody who is signed in.

It presses Allow, and goes where it is sent on to. Run as `python stand_in.py URL`; STAND_IN_COOKIE is the session,
STAND_IN_SEEN a file to which each address is added.
"""

from __future__ import annotations

import os
import re
import sys
from html import unescape
from pathlib import Path

import httpx2


def main(url: str) -> None:
    """Allow it."""
    with Path(os.environ["STAND_IN_SEEN"]).open("a") as seen:
        seen.write(f"{url}\n")
    with httpx2.Client(timeout=30, headers={"Cookie": os.environ["STAND_IN_COOKIE"]}) as http:
        page = http.get(url)
        csrf = re.search(r'name="csrf" value="([^"]*)"', page.text)
        if csrf is None:
            sys.exit(f"{page.status_code} {page.text}")
        sent = http.post(url, data={"csrf": unescape(csrf[1]), "answer": "allow"})
    with httpx2.Client(timeout=30) as other:
        other.get(sent.headers["location"])


def installed(folder: Path) -> dict[str, str]:
    """What an environment needs so that this program is its browser, but for the session."""
    programs = folder / "browser"
    programs.mkdir()
    for name in ("browser", "xdg-open"):
        script = programs / name
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$1" >>"{folder}/browser.log" 2>&1\n'
        )
        script.chmod(0o755)
    return {
        "BROWSER": str(programs / "browser"),
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STAND_IN_SEEN": str(folder / "seen"),
        "HOME": str(folder),
    }


if __name__ == "__main__":
    main(sys.argv[1])
