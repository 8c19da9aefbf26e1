"""The commands that the pages show: each statement of a shell, where it stands, and what the page says it prints."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^```(?P<kind>sh|console)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """One statement. `said` is what a page shows below it, in a block with a `$`; None in one without."""

    page: str
    heading: str
    line: int
    text: str
    said: str | None

    @property
    def bare(self) -> str:
        """Without the comment at its end."""
        return re.sub(r"\s+# .*$", "", self.text) if "\n" not in self.text else self.text


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> Iterator[Command]:
    """Every statement of a page, in its order."""
    text, name = page.read_text("utf-8"), page.relative_to(ROOT).as_posix()
    for block in FENCE.finditer(text):
        before = text[: block.start()]
        heads = re.findall(r"^#+ (.*)$", FENCE.sub("", before), re.MULTILINE)
        line = before.count("\n") + 2
        parts = _typed if block["kind"] == "sh" else _shown
        for at, statement, said in parts(block["body"]):
            yield Command(name, heads[-1] if heads else "", line + at, statement, said)


def _typed(body: str) -> Iterator[tuple[int, str, None]]:
    """The statements of a block without a prompt: as many lines as the shell wants for each."""
    held: list[str] = []
    for number, line in enumerate(body.splitlines()):
        held.append(line)
        text = "\n".join(held)
        if not text.strip():
            held.clear()
        elif not line.endswith("\\") and _whole(text):
            yield number - len(held) + 1, text, None
            held.clear()
    if held:
        raise ValueError(f"a block ends within a statement: {held}")


def _shown(body: str) -> Iterator[tuple[int, str, str]]:
    """What follows each `$`, and what is printed until the next."""
    for found in re.finditer(r"^\$ (?P<text>.*)\n(?P<said>(?:(?!\$ ).*\n?)*)", body, re.MULTILINE):
        yield body[: found.start()].count("\n"), found["text"], found["said"].strip("\n")


def _whole(text: str) -> bool:
    """Whether a shell takes it as it is."""
    if re.fullmatch(r"[\w./ =:@-]+", text):
        return True
    return subprocess.run(["bash", "-nc", text], capture_output=True, check=False).returncode == 0


def shape(text: str) -> list[str]:
    """The lines of an output, with numbers, ids, instants and paths made alike, and none of what a page cuts."""
    lines = []
    for line in text.splitlines():
        told = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ", "WHEN", line)
        told = re.sub(r"\b(riftl?_)[\w-]{40,}", r"\1…", told)
        told = re.sub(r"\b(task_|b-)[\w.-]+…?|\b[0-9a-f]{12,64}\b", "ID", told)
        told = re.sub(r"\beyJ[\w.-]+", "ID", told)
        told = re.sub(r"[\d,.]*\d", "N", told)
        told = re.sub(r"(/[\w.-]+){2,}", "PATH", told)
        lines.append(re.sub(r"\s+", " ", told).strip())
    return [line for line in lines if line]


def missing(expected: str, actual: str) -> list[str]:
    """The lines of what a page shows that are not, in its order, in what was printed; `…` stands for anything."""
    left = iter(shape(actual))
    lost = []
    for line in shape(expected):
        pattern = ".*".join(map(re.escape, re.split(r"\s*…\s*", line)))
        kept = []
        for one in left:
            kept.append(one)
            if re.fullmatch(pattern, one):
                break
        else:
            lost.append(line)
            left = iter(kept)
    return lost
