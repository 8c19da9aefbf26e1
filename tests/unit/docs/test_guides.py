"""Pages that the contract names say what it says they do, and every page there is stands in the list."""

from __future__ import annotations

import re

from docs.generate import HERE

from keel.sizes import KIB
from rift.drivers.nix.protocol import SETUP_BYTES, VARIABLES_BYTES, VARIABLES_MOST
from rift.settings import RiftSettings
from rift.wire.docs import pages


def heads(name: str) -> str:
    """The headings of a page, one a line."""
    return "\n".join(re.findall(r"^#+ (.*)$", (HERE / f"{name}.md").read_text("utf-8"), re.MULTILINE))


def test_every_page_stands_in_the_list_with_what_it_tells() -> None:
    listed = [page.name for those in pages.GROUPS.values() for page in those]
    assert len(listed) == len(set(listed))
    files = {path.stem for path in HERE.glob("*.md")} - {"README"}
    assert files - set(listed) == set(), "add it to GROUPS in rift/wire/docs/pages.py, in the order of reading"
    assert all(page.title and page.tells and "\n" not in page.tells for page in pages.listed())
    assert [page.name for page in pages.listed()] == listed, "a page of the list is not there"


def test_the_pages_are_found_in_the_checkout_and_only_those() -> None:
    folder = pages.folder()
    assert folder
    assert folder.resolve() == HERE
    assert (pages.text("tasks") or "").startswith("# Tasks")
    for name in ("../README", "adr/../tasks", "adr", "", ".", "tasks.md", "/etc/passwd", "adr/0000-template/x", "a\0b"):
        assert pages.text(name) is None, name


def test_the_page_on_handing_over_walks_release_attach_and_takeover() -> None:
    page = (HERE / "hand-over.md").read_text("utf-8")
    calls = re.findall(r"^(?:first|second) +(rift_task_\w+) (.*)$", page, re.MULTILINE)
    done = [(tool, "takeover" in arguments) for tool, arguments in calls if tool != "rift_task_ls"]
    assert done == [
        ("rift_task_release", False), ("rift_task_attach", False),
        ("rift_task_attach", False), ("rift_task_attach", True),
    ]  # fmt: skip
    clocks = RiftSettings().tasks
    assert f"{clocks.quiet_lease.total_seconds() / 60:.0f} minutes" in page
    assert f"{clocks.quiet_close.total_seconds() / 3600:.0f} hours" in page


def test_the_nix_guide_has_the_contract_an_example_and_the_lifecycle() -> None:
    page = (HERE / "nix-guide.md").read_text("utf-8")
    assert "later version" not in page
    for limit in (VARIABLES_MOST, f"{VARIABLES_BYTES // KIB} KiB", f"{SETUP_BYTES // KIB} KiB"):
        assert f"{limit}" in page
    assert f"{RiftSettings().environments.setup_for.total_seconds() / 60:.0f} minutes" in page
    order = ["The contract", "The older envelope", "A complete example", "From an edit to a fresh box"]
    assert [head for head in heads("nix-guide").splitlines() if head in order] == order
    assert {"packages", "env", "setup"} <= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    (example,) = (block for block in re.findall(r"```nix\n(.*?)```", page, re.DOTALL) if "outputs" in block)
    assert all(re.search(rf"^ +{member} = ", example, re.MULTILINE) for member in ("packages", "env", "setup"))
    assert "fixed-labs.rift" in example
    assert [example.count(left) for left in "{[("] == [example.count(right) for right in "}])"]
    assert "fixed-labs.rift = { version = 1; image" in page


def test_the_feedback_guide_says_when_when_not_and_how() -> None:
    said = heads("send-feedback").lower()
    for part in ("when to offer", "when not", "good item"):
        assert part in said
