"""What a command call is refused with, before anything runs."""

from __future__ import annotations

from keel.refusal import YOUR_HANDLE, Call, Refusal, kind
from rift.names import COMMAND_BYTES, WRITE_BYTES

_NUL = kind("nul_byte", "The argument {argument} holds a NUL byte, which no shell and no path can carry. Nothing ran.")
_TEXT = kind("not_text", "The argument {argument} holds half a surrogate pair, which is no text in UTF-8. Nothing ran.")
_LONG = kind("too_long", "The argument {argument} has {size} bytes; the most is {most}. Nothing ran.")
_CLIMBS = kind(
    "path_outside",
    "The path climbs above the root of the jail. Give an absolute path in the jail, or one relative to the checkout. "
    "Nothing ran.",
)
_EMPTY = kind("empty", "The argument {argument} is empty. Nothing ran.")
_ID = kind(
    "command_id",
    "{id} is not a command's id of a VM of this task: an id is <vm>.<n>, as rift_bash and rift_vm_ls give it.",
)
_TWICE = kind("command_twice", "The command {id} stands twice in commands. Each may stand there once.")
_BOXES = kind("command_boxes", "The commands belong to {count} VMs; one rift_output call reads the commands of one VM.")
_PAST = kind("offset_past_end", "The offset {offset} is past the end of {id}: its output has {size} bytes so far.")


def nul(tool: str, argument: str) -> Refusal:
    """A NUL byte in a command, a path or a file's content."""
    return _NUL(again(tool), argument=argument)


def not_text(tool: str, argument: str) -> Refusal:
    """A string that has no UTF-8 form."""
    return _TEXT(again(tool), argument=argument)


def empty(tool: str, argument: str) -> Refusal:
    """Nothing to run, or no path."""
    return _EMPTY(again(tool), argument=argument)


def too_long(tool: str, argument: str, size: int, most: int) -> Refusal:
    """More than a call may carry; the mend says how to do it in pieces."""
    return _LONG(again(tool), argument=argument, size=size, most=most)


def climbs() -> Refusal:
    """More `..` than there are folders."""
    return _CLIMBS(
        Call("rift_bash", {"task": YOUR_HANDLE, "vm": "<vm>", "command": "pwd; ls -la", "timeout": 10, "block_for": 10})
    )


def bad_id(id: str) -> Refusal:
    """Not an id, or of a VM that the task never had."""
    return _ID(Call("rift_vm_ls", {"task": YOUR_HANDLE}), id=id[:80])


def twice(id: str) -> Refusal:
    """The same command named twice."""
    return _TWICE(reading([(id, 0)]), id=id)


def several_boxes(ids: list[str], count: int) -> Refusal:
    """Commands of more than one box: the mends read them box by box."""
    by_box: dict[str, list[tuple[str, int]]] = {}
    for id in ids:
        by_box.setdefault(id.rpartition(".")[0], []).append((id, 0))
    return _BOXES(*(reading(one) for one in by_box.values()), count=count)


def past_end(id: str, offset: int, size: int) -> Refusal:
    """Nothing is there yet, and perhaps never will be."""
    return _PAST(reading([(id, size)]), id=id, offset=offset, size=size)


def reading(commands: list[tuple[str, int]], block_for: int = 30) -> Call:
    """The rift_output call that reads these commands on, each from its offset."""
    listed = [{"id": id, "offset": offset} for id, offset in commands]
    return Call("rift_output", {"task": YOUR_HANDLE, "commands": listed, "block_for": block_for})


def again(tool: str) -> Call:
    """The same tool, with what it takes."""
    base: dict[str, object] = {"task": YOUR_HANDLE, "vm": "<vm>"}
    if tool == "rift_bash":
        return Call(tool, base | {"command": f"<at most {COMMAND_BYTES} bytes>", "timeout": 60, "block_for": 45})
    if tool == "rift_write":
        return Call(tool, base | {"path": "<path>", "content": f"<at most {WRITE_BYTES} bytes of text>"})
    return Call(tool, base | {"path": "<path>"})
