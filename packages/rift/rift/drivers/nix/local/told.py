"""What Nix says, as whoever wrote the flake should read it. Pure."""

from __future__ import annotations

import re

REASON_MOST = 256 * 1024
"""Characters of a failure's text: the end of what was said, which is where Nix says why."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[@-Z\\-_])")
_OURS = re.compile(r"path:/src(?:\?[^\s'\"#]*)?")
_NOISE = re.compile(
    r"^(?:\(use '--show-trace' to show detailed location information\)|warning: "
    r"(?:you don't have Internet access; disabling some network-dependent features"
    r"|you did not specify '--add-root'; the result might be removed by the garbage collector"
    r"|not writing modified lock file of flake [^\n]*))(?:\n|$)",
    re.MULTILINE,
)


def plain(said: bytes) -> str:
    """Text without colours and other control characters; a line that was drawn over itself keeps its last state."""
    text = _ANSI.sub("", said.decode("utf-8", "replace")).replace("\r\n", "\n")
    text = re.sub(r"[^\n]*\r(?=[^\n])", "", text).replace("\r", "")
    return "".join(letter if letter in "\n\t" or letter.isprintable() else "\ufffd" for letter in text)


def reason(said: bytes, source: str) -> str:
    """What a command of Nix said, for the failure's text. `source` is where the store has the flake, or ""."""
    text = _NOISE.sub("", plain(said))
    text = _OURS.sub("the flake", text)
    for place in filter(None, (source, "/src")):
        text = text.replace(f"{place}/", "").replace(place, "the flake")
    text = text.strip("\n")
    if len(text) > REASON_MOST:
        cut = len(text) - REASON_MOST
        text = f"[{cut:,} characters before this are in the build's log]\n{text[cut:]}"
    return text
