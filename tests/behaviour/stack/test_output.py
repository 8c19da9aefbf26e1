"""Bytes of commands over MCP, from real jails: each one there, once, as it was."""

from __future__ import annotations

import hashlib

import pytest
from tests.behaviour.stack.hands import Hands

WORDS = "aé€😀\u00adß漢🏳️\u200d🌈z"
"""Characters of one to four bytes."""


async def test_a_character_cut_at_any_byte_by_its_writer_comes_back_whole(desk: Hands) -> None:
    """The writer pauses inside every character, at every boundary; a reader that reads on meanwhile sees each whole."""
    writer = f"""
import sys, time
for byte in {WORDS!r}.encode():
    sys.stdout.buffer.write(bytes([byte])); sys.stdout.buffer.flush(); time.sleep(0.02)
"""
    said = await desk.bash(f"python3 - <<'END'\n{writer}\nEND", block_for=0)
    id, offset, text, reads = said["command"], said["next_offset"], said["output"], 0
    while said.next is not None:
        said = await desk.output((id, offset))
        assert len(said["output"].encode()) == said["next_offset"] - offset
        offset, reads = said["next_offset"], reads + 1
        text += said["output"]
    assert text == WORDS
    assert reads > 2


async def test_an_answer_of_64_kib_is_cut_before_a_character_that_does_not_fit_at_every_alignment(desk: Hands) -> None:
    for shift in range(4):
        said = await desk.bash(f"printf 'x%.0s' $(seq {shift}); python3 -c \"print('😀' * 16500, end='')\"")
        first = "x" * shift if shift else "x"  # seq 0 is empty, and printf then prints its text once
        assert said["size"] == len(first) + 66_000
        assert said["output"] == first + "😀" * ((65_536 - len(first)) // 4)
        assert said["next_offset"] == len(said["output"].encode()) <= 65_536
        rest = await desk.go(said.next)
        assert said["output"] + rest["output"] == first + "😀" * 16_500
        assert rest.next is None


async def test_bytes_that_are_no_text_show_as_one_mark_each_and_count_as_one(desk: Hands) -> None:
    said = await desk.bash(r"printf 'a\xff\xfe\xe2\x82b\xc3'")
    assert said["output"] == "a\ufffd\ufffd\ufffd\ufffdb\ufffd"
    assert said["size"] == said["next_offset"] == 7


async def test_blank_lines_and_both_streams_come_back_in_the_order_written(desk: Hands) -> None:
    said = await desk.bash(r"printf '\n\n  a\n\n'; echo to stderr >&2; printf '\n\nb\n\n\n'; printf '\r\n \t\n'")
    assert said["output"] == "\n\n  a\n\nto stderr\n\n\nb\n\n\n\r\n \t\n"


async def test_a_long_output_read_by_the_given_calls_is_byte_for_byte_what_was_written(desk: Hands) -> None:
    """2 MiB through rift_output, 64 KiB a call; each answer's text ends with the call for the next."""
    said = await desk.run("python3 -c \"for n in range(2 * 2**20 // 16): print(f'{n:015d}')\"")
    assert said["size"] == said["next_offset"] == 2 * 2**20
    assert said["output"] == "".join(f"{n:015d}\n" for n in range(2 * 2**20 // 16))


async def test_a_hundred_mebibytes_are_all_there_and_read_at_any_offset(desk: Hands) -> None:
    """The whole is hashed where it is written; pieces over the wire are compared with the line that stands there."""
    size = 100 * 2**20
    writer = """python3 - <<'END' | tee /dev/fd/3 3>&1 >/tmp/whole
import sys
for n in range(0, 6553600, 4096):
    sys.stdout.write("".join(f"{m:015d}\\n" for m in range(n, n + 4096)))
END"""
    said = await desk.bash(f"{writer}\nsha256sum /tmp/whole | cut -c-64 >/tmp/sum", 120)
    id = said["command"]
    while (said := await desk.output((id, 0), block_for=45))["status"] == "has not finished":
        pass
    assert (said["size"], said["exit"]) == (size, 0)
    for line in (0, 1, 3_000_000, 6_553_600 - 4096, 6_553_600 - 512):
        piece = (await desk.output((id, line * 16)))["output"]
        assert piece == "".join(f"{n:015d}\n" for n in range(line, line + len(piece) // 16))
        assert len(piece) == min(65_536, size - line * 16)
    ours = hashlib.sha256()
    for n in range(0, 6_553_600, 4096):
        ours.update("".join(f"{m:015d}\n" for m in range(n, n + 4096)).encode())
    assert (await desk.bash("cat /tmp/sum; rm /tmp/whole"))["output"].strip() == ours.hexdigest()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_one_answer_gives_64_kib_shared_equally_by_its_commands(desk: Hands, count: int) -> None:
    ids = []
    for _ in range(count):
        said = await desk.bash("head -c 70000 /dev/zero | tr '\\0' x")
        ids.append(said["command"])
    answer = await desk.output(*((id, 0) for id in ids))
    pieces = [answer["output"]] if count == 1 else [one["output"] for one in answer["commands"]]
    assert [len(piece) for piece in pieces] == [65_536 // count] * count
    tool, arguments = answer.next or ("", {})
    assert tool == "rift_output"
    assert arguments["commands"] == [{"id": id, "offset": 65_536 // count} for id in ids]


async def test_an_answer_on_several_commands_names_the_ended_and_the_call_for_the_rest(desk: Hands) -> None:
    short = (await desk.bash("echo short"))["command"]
    waits = (await desk.bash("echo begins; until test -e /tmp/go; do sleep 0.05; done; echo ends", block_for=0))[
        "command"
    ]
    unknown = f"{desk.vm}.99999"
    answer = await desk.output((short, 0), (waits, 0), (unknown, 0), block_for=0)
    assert answer["ended"] == [short]
    assert [one["command"] for one in answer["commands"]] == [short, waits, unknown]
    assert [one["status"] for one in answer["commands"]] == ["finished", "has not finished", "did not run"]
    fields = {"status", "reason", "command", "exit", "output", "next_offset", "size"}
    assert all(set(one) == fields for one in answer["commands"])
    assert [call["id"] for call in (answer.next or ("", {}))[1]["commands"]] == [waits]
    await desk.bash("touch /tmp/go")
    last = await desk.until_ended(waits)
    assert (last["output"], last["exit"]) == ("begins\nends\n", 0)
    await desk.bash("rm /tmp/go")


async def test_a_reader_that_waits_is_answered_when_the_first_command_ends(desk: Hands) -> None:
    slow = (await desk.bash("sleep 30", block_for=0))["command"]
    quick = (await desk.bash("until test -e /tmp/go; do sleep 0.05; done; rm /tmp/go", block_for=0))["command"]
    await desk.bash("touch /tmp/go")
    answer = await desk.output((slow, 0), (quick, 0), block_for=45)
    assert answer["ended"] == [quick]
    assert answer.seconds < 20


async def test_the_last_64_commands_keep_their_tails_without_the_box(hands: Hands) -> None:
    await hands.take()
    first = (await hands.bash("head -c 9000 /dev/zero | tr '\\0' y; echo the end"))["command"]
    for n in range(64):
        await hands.bash(f"echo number {n}")
    assert (await hands.suspend()).text.startswith("parked: ")
    old = await hands.output((first, 0))
    assert old["output"] == ""
    assert "bytes 0 to 9008 of its output need the VM awake" in old.text
    second = await hands.output((f"{hands.vm}.2", 0))
    assert second["output"] == "number 0\n"
    assert await hands.status(hands.vm) == "parked"
    await hands.bash("true")
    assert (await hands.output((first, 9_000 - 1)))["output"] == "ythe end\n"


async def test_a_parked_box_gives_the_tail_and_names_the_bytes_that_need_it_awake(hands: Hands) -> None:
    await hands.take()
    id = (await hands.bash("head -c 20000 /dev/zero | tr '\\0' z"))["command"]
    await hands.suspend()
    said = await hands.output((id, 100))
    assert f"bytes 100 to {20_000 - 8_192} of its output need the VM awake" in said.text
    assert said["output"] == "z" * 8_192
    assert (said["next_offset"], said["size"]) == (20_000, 20_000)
    assert await hands.status(hands.vm) == "parked"
    assert (await hands.stop(id))["status"] == "finished"
    assert await hands.status(hands.vm) == "parked"
