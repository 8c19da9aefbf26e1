"""Names, paths and numbers of files at the edge of what there can be: the box bears them, and goes with them."""

from __future__ import annotations

from tests.behaviour.attacks.conftest import Attacker
from tests.behaviour.stack.hands import Hands

MANY = 30_000
NAMES = [
    *(b"n" * 255, "\u0416".encode() * 127, b"new\nline", b"\xff\xfe", b" ", b"-rf", b"*", b"$(touch out)", b"a\\b"),
    b"\x1b[31m",
]


async def test_a_box_full_of_odd_files_is_read_parked_and_destroyed(hands: Hands) -> None:
    """Names of 255 bytes, paths of 4,096, nine hundred levels, no text, closed folders, holes, links in circles."""
    await hands.take()
    attacker = Attacker(hands)
    said = await attacker.python(
        f"""
import os
home = os.path.expanduser("~")
os.chdir(home)
for name in {NAMES!r}:
    with open(name, "wb") as file:
        file.write(b"odd")
os.mkdir("deep"); os.chdir("deep")
for level in range(900):  # deeper than 1,000 whoever does it is ended, as nothing there can be counted
    os.mkdir("d" * 250); os.chdir("d" * 250)
os.chdir(home)
path = home
while len(path) < 4095 - 256:
    path += "/" + "p" * 200
    os.mkdir(path)
path += "/" + "q" * (4095 - len(path) - 1)
os.mkdir(path)
print(len(path))
os.mkdir("closed"); open("closed/in", "w").close(); os.chmod("closed/in", 0); os.chmod("closed", 0)
with open("hole", "wb") as file:
    file.truncate(1 << 34)
for number in range(1000):
    os.symlink("link%d" % ((number + 1) % 1000), "link%d" % number)
os.mkfifo("fifo")
print("made")
""",
        timeout=120,
    )
    assert said[-1] == "made"
    assert (await hands.read("/home/dev/" + "n" * 255))["output"] == "odd"
    assert (await hands.read("/home/dev/" + "n" * 256))["exit"] == 1
    assert (await hands.read("/" + "p/" * 2047 + "x"))["exit"] == 1
    for path in ("/home/dev/hole", "/home/dev/fifo", "/home/dev/link0", "/home/dev/closed/in"):
        assert (await hands.read(path))["exit"] == 1
    assert (await hands.suspend()).refused is None
    assert (await hands.bash("echo back"))["output"] == "back\n"
    destroyed = await hands.call("rift_vm_destroy", task=hands.task, vm=hands.vm)
    assert destroyed.refused is None
    assert hands.vm not in hands.stack.boxes


async def test_many_thousands_of_files_hold_up_neither_calls_nor_the_end(hands: Hands) -> None:
    await hands.take()
    made = await Attacker(hands).python(
        f"""
import os
os.makedirs("/tmp/many"); os.chdir("/tmp/many")
for number in range({MANY}):
    os.close(os.open("file-%d" % number, os.O_CREAT | os.O_WRONLY))
print(len(os.listdir(".")))
""",
        timeout=120,
    )
    assert made == [str(MANY)]
    assert (await hands.bash("ls /tmp/many | wc -l"))["output"].strip() == str(MANY)
    assert (await hands.call("rift_vm_destroy", task=hands.task, vm=hands.vm)).refused is None
