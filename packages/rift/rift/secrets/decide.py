"""Which names and values a secret may have, and what of a text is one. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from keel.refusal import Refusal
from rift.secrets import refusals
from rift.secrets.model import MASK, MASKED_FROM, NAME_MOST, SECRETS_MOST, TOGETHER_MOST, VALUE_MOST

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_MOST - 1}}}")
_SHELLS = frozenset({
    "UID", "EUID", "PPID", "GROUPS", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "DIRSTACK", "FUNCNAME", "OPTIND",
    "OPTARG", "OPTERR", "SHELLOPTS", "SHLVL", "IFS", "PS1", "PS2", "PS3", "PS4", "ENV", "PWD", "OLDPWD", "CDPATH",
    "PROMPT_COMMAND", "EPOCHSECONDS", "EPOCHREALTIME", "HISTCMD", "PIPESTATUS", "COPROC", "MAPFILE", "REPLY", "_",
})  # fmt: skip
_BOXES = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TERM", "LANG", "TMPDIR"})
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"})
_ALIKE = 64
"""So many values of one length are looked for one by one."""
_LOADER = ("LD_", "GLIBC_TUNABLES", "MALLOC_", "GCONV_PATH", "LOCPATH")


def decide_name(name: str, again: str) -> Refusal | None:
    """Whether a secret may have this name: one of an environment variable that nothing else in a box goes by.

    `again` is where it is set under another one.
    """
    if not _NAME.fullmatch(name):
        return refusals.bad_name(name, again)
    if why := reserved(name):
        return refusals.name_taken(name, why, again)
    return None


def reserved(name: str) -> str:
    """Why no secret has this name; "" where it may."""
    upper = name.upper()
    if upper.startswith("RIFT_"):
        return "names that begin with RIFT_ are Rift's own"
    if upper.startswith("GIT_"):
        return "git takes orders by names that begin with GIT_, and a box's git speaks through Rift"
    if upper in _PROXIES:
        return "it says by which way a box reaches the network"
    if upper.startswith(_LOADER):
        return "it changes how every program in a box is loaded"
    if upper in _BOXES or upper.startswith("LC_"):
        return "every command in a box goes by it"
    if upper in _SHELLS or upper.startswith("BASH"):
        return "the shell sets it, or goes by it"
    return ""


def decide_value(name: str, value: str, again: str) -> Refusal | None:
    """Whether a value can be an environment variable's: text of at least one byte, without a NUL, not too long."""
    if not value:
        return refusals.bad_value(name, "it is empty", again)
    if "\0" in value:
        return refusals.bad_value(name, "it has a NUL byte in it, which no environment variable can have", again)
    try:
        count = len(value.encode())
    except UnicodeEncodeError:
        return refusals.bad_value(name, "it has half a character in it", again)
    if count > VALUE_MOST:
        return refusals.bad_value(name, f"it has {count:,} bytes, and at most {VALUE_MOST:,} are kept", again)
    return None


def decide_set(repo: str, name: str, value: str, have: Mapping[str, int], page: str) -> Refusal | None:
    """Whether a repository that has these secrets (their bytes by name) may have this one, in place of its older one.

    `page` is where its secrets are set and removed.
    """
    others = {one: count for one, count in have.items() if one != name}
    if len(others) >= SECRETS_MOST:
        return refusals.too_many(repo, SECRETS_MOST, page)
    total = sum(others.values()) + len(value.encode())
    return refusals.too_large(repo, total, TOGETHER_MOST, page) if total > TOGETHER_MOST else None


def typed(value: str) -> str:
    """A value as somebody typed or piped it: line breaks as in files, and none at its very end."""
    plain = value.replace("\r\n", "\n")
    return plain.removesuffix("\n")


def masked(text: str, values: Collection[str]) -> str:
    """The text with `***` for each run of it that is some of these values, of `MASKED_FROM` bytes or more, or of their
    lines.
    """
    ends = _ends(text, parts(values))
    told, upto = [], 0
    for start in sorted(ends):
        if start >= upto:
            told += [text[upto:start], MASK]
        upto = max(upto, ends[start])
    return "".join([*told, text[upto:]])


def _ends(text: str, sought: Collection[str]) -> dict[int, int]:
    """Where any of these begins in the text, and where the longest that begins there ends; of one that overlaps itself
    only where its run begins and ends. So it takes no more than an entry a character, whatever is sought.
    """
    lengths: dict[int, set[str]] = {}
    for part in sought:
        lengths.setdefault(len(part), set()).add(part)
    ends: dict[int, int] = {}
    for length, alike in sorted(lengths.items(), reverse=True):
        if len(alike) > _ALIKE:  # one look at each place of the text, instead of one at all of it for each of them
            places = (at for at in range(len(text) - length + 1) if at not in ends)
            runs = [(at, at + length) for at in places if text[at : at + length] in alike]
        else:
            runs = [run for part in alike for run in _runs(text, part)]
        for start, end in runs:
            ends[start] = max(end, ends.get(start, 0))
    return ends


def _runs(text: str, part: str) -> Iterator[tuple[int, int]]:
    start = text.find(part)
    while start >= 0:
        at, end = start, start + len(part)
        while (more := text.rfind(part, at + 1, end + len(part) - 1)) >= 0:
            at, end = more, more + len(part)
        yield start, end
        start = text.find(part, end)


def parts(values: Collection[str]) -> set[str]:
    """What is masked of these values: each whole, and each of its lines, where it has `MASKED_FROM` bytes or more."""
    found = {part for value in values for part in (value, *(line.strip("\r") for line in value.split("\n")))}
    return {part for part in found if len(part.encode()) >= MASKED_FROM}
