"""The end of a repository's setup, which ran in the jail before its box was up: a mark, or why it failed."""

from __future__ import annotations

import binascii
import os

from rift_agent.agent import SETUP, SETUP_DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rift_agent.spool import Spool, Spools

OUTPUT_MOST = 1 << 20  # bytes of its output that are told; of a longer one the middle is left out


def ended(event: dict[str, Any], spools: Spools, seconds: int) -> dict[str, Any] | None:
    """The `failed` event of a setup that ended so; None where it succeeded, which is marked for all later starts.

    What an agent that is killed before the mark has run is run again by the next one.
    """
    spool = spools.get(SETUP)
    if event["exit"] == 0:
        os.close(os.open(SETUP_DONE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        spools.end(spools.new(SETUP))  # nobody reads it any more
        return None
    output = whole(spool) if spool else b""
    return {
        "type": "failed", "setup": True, "reason": reason(event, seconds),
        "output": binascii.b2a_base64(output, newline=False).decode(),
    }  # fmt: skip


def reason(event: dict[str, Any], seconds: int) -> str:
    """Why it failed, in a sentence."""
    why = event["reason"] or ""
    if why.startswith("timeout"):
        return f"the repository's setup did not end within {seconds} s (Rift:Environments:SetupFor) and was stopped"
    if event["exit"] is None:
        return f"the repository's setup did not run to its end: {why}"
    return f"the repository's setup failed with exit {event['exit']}" + (f" ({why})" if why else "")


def whole(spool: Spool) -> bytes:
    """Its output, the middle of a long one left out."""
    lost = b"[the first %d bytes are lost]\n" % spool.first if spool.first else b""
    if spool.kept <= OUTPUT_MOST:
        return lost + spool.read(spool.first, OUTPUT_MOST)
    half = OUTPUT_MOST // 2
    left_out = b"\n[%d bytes left out]\n" % (spool.kept - 2 * half)
    return lost + spool.read(spool.first, half) + left_out + spool.read(spool.size - half, half)
