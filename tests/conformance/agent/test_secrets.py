"""Secrets in a real jail: which commands have them, and that nothing the agent tells holds one."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import Plane, tail

Make = Callable[..., Box]
KEY = "sk_live_4242424242424242"
AWAIT = "mkfifo ~/go; read line < ~/go"
GO = "until [ -p ~/go ]; do sleep 0.02; done; echo second-value > ~/go"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nab\n-----END KEY-----"


def run(box: Box, command: str, timeout: int = 60) -> tuple[dict[str, Any], bytes]:
    event = box.plane.run(command, timeout)
    return event, box.plane.output(event["n"])


def told(plane: Plane) -> str:
    """All that the agent ever told, with what it told in base64 read."""
    parts = [repr(plane.events), repr(plane.answers)]
    parts += [base64.b64decode(event["tail"]).decode("utf-8", "replace") for event in plane.events if "tail" in event]
    parts += [base64.b64decode(answer["data"]).decode("utf-8", "replace") for answer in plane.answers.values()]
    return "\n".join(parts)


def test_a_secret_is_in_the_environment_of_each_command_and_shown_by_none(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY, PRIVATE_KEY=PEM)
    _, output = run(box, 'echo "$API_KEY"; echo "$PRIVATE_KEY"; echo "${#API_KEY} ${#PRIVATE_KEY}"; env | grep API')
    assert output == f"***\n***\n{len(KEY)} {len(PEM)}\nAPI_KEY=***\n".encode()
    assert KEY not in told(box.plane)


def test_the_values_are_those_of_when_a_command_starts(box: Box) -> None:
    plane = box.plane
    assert run(box, "echo ${API_KEY:-none}")[1] == b"none\n"
    plane.set_secrets(API_KEY="first-value")
    slow = plane.bash(f"{AWAIT}; echo $API_KEY $line; [ $API_KEY = first-value ] && echo same")
    run(box, "until [ -p ~/go ]; do sleep 0.02; done")
    plane.set_secrets(API_KEY="second-value")
    assert run(box, "[ $API_KEY = second-value ] && echo new; echo second-value first-value")[1] == b"new\n*** ***\n"
    plane.set_secrets()
    assert run(box, f"echo ${{API_KEY:-none}}; {GO}")[1] == b"none\n"
    plane.ended(slow)
    assert plane.output(slow) == b"*** ***\nsame\n"
    assert plane.delivered == [1, 2, 3]


def test_what_was_lost_on_the_way_comes_again(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    box.plane.lose_next_work()
    assert run(box, "echo ${#API_KEY}")[1] == f"{len(KEY)}\n".encode()
    assert run(box, "echo ${#API_KEY}")[1] == f"{len(KEY)}\n".encode()
    assert box.plane.delivered == [1, 1]


def test_a_new_start_of_the_agent_gets_them_anew(make_box: Make, plane: Plane) -> None:
    box = make_box().start().ready()
    plane.set_secrets(API_KEY=KEY)
    assert run(box, "echo ${#API_KEY}")[1] == b"24\n"
    assert box.agent
    box.agent.kill()
    box.agent.wait()
    plane.events.clear()
    box.config["incarnation"] = 2
    box.start().ready()
    assert run(box, "echo ${#API_KEY} $API_KEY")[1] == b"24 ***\n"
    assert plane.delivered == [1, 1]


def test_parking_changes_nothing_for_a_command_that_runs(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    n = box.plane.bash(f"{AWAIT}; echo $API_KEY")
    run(box, "until [ -p ~/go ]; do sleep 0.02; done")
    box.plane.set_power(1, True)
    box.plane.set_secrets(API_KEY="other-value")
    box.plane.set_power(2, False)
    assert run(box, f"{GO}; echo $API_KEY")[1] == b"***\n"
    box.plane.ended(n)
    assert box.plane.output(n) == b"***\n"


@pytest.mark.parametrize(
    "write",
    [
        "for byte in value: os.write(1, bytes([byte]))",
        "for at in range(0, len(value), 3): os.write(1, value[at:at + 3]); os.sched_yield()",
        "os.write(1, value[:9]); time.sleep(0.3); os.write(1, value[9:])",
        "os.write(1, value[:9]); os.write(2, value[9:])",
        "os.write(1, b'x' * 65530 + value + b'y' * 65530)",
        "os.write(1, b'x' * (262144 - 5) + value)",
    ],
)
def test_a_secret_is_masked_however_it_is_written(box: Box, write: str) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    (box.home / "app/say.py").write_text(
        f"import os, time\nvalue = os.environ['API_KEY'].encode()\nos.write(1, b'<')\n{write}\nos.write(1, b'>')\n"
    )
    event, output = run(box, "python3 say.py")
    assert output.replace(b"x", b"").replace(b"y", b"") == b"<***>"
    assert event["size"] == len(output)
    assert KEY not in told(box.plane)


def test_what_is_no_secret_is_shown_while_a_command_waits(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    n = box.plane.bash(f"printf 'your key: sk_'; {AWAIT}; printf 'ip it'; printf sk_live_")
    eventually(lambda: box.plane.ask(n, 0)["data"] == b"your key: ")
    run(box, GO)
    box.plane.ended(n)
    assert box.plane.output(n) == b"your key: sk_ip itsk_live_"


def test_a_background_process_shows_no_secret_to_later_commands(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    run(box, "(sleep 0.3; echo $API_KEY > ~/left; echo $API_KEY) & echo started")
    box.plane.set_secrets()
    assert run(box, "while ! [ -s ~/left ]; do sleep 0.05; done; cat ~/left")[1] == b"***\n"
    assert KEY not in told(box.plane)


def test_files_are_read_without_the_secrets_in_them(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    run(box, "echo export API_KEY=$API_KEY > ~/app/.env; mkdir ~/$API_KEY; cp ~/app/.env ~/$API_KEY/")
    n = box.plane.order("read", path=".env")
    assert box.plane.ended(n)["exit"] == 0
    assert box.plane.output(n) == b"export API_KEY=***\n"
    assert sorted(run(box, "ls ~")[1].split()) == [b"***", b"app"]
    missing = box.plane.order("read", path=f"/home/dev/{KEY}/none")
    assert box.plane.ended(missing)["reason"] == "no such file"
    written = box.plane.order("write", path=f"/home/dev/{KEY}/new", content=f"key: {KEY}\n")
    assert tail(box.plane.ended(written)) == b"wrote 30 bytes to /home/dev/***/new\n"
    assert KEY not in told(box.plane)


def test_reasons_hold_no_secret(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY, WORD="rift_stop", LIMIT="timeout")
    n = box.plane.bash("sleep 100")
    eventually(lambda: box.control({"op": "status"})["open"] == [n])
    box.plane.stop(n)
    assert box.plane.ended(n)["reason"] == "stopped by ***"
    assert box.plane.run("sleep 100", timeout=1)["reason"] == "***: stopped after 1 s"


def test_a_host_that_a_jail_asked_for_is_not_told_where_its_name_holds_a_secret(make_box: Make, plane: Plane) -> None:
    box = make_box(network="proxy", env={"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:3128"})
    box.start().ready()
    plane.set_secrets(API_KEY="Sk-Live-424242")
    run(box, "curl -s http://$API_KEY.example.com; curl -s http://plain.example.com")
    hosts = plane.wait(lambda: [e["host"] for e in plane.events if e["type"] == "refused"][1:] and plane.events)
    assert sorted(e["host"] for e in hosts if e["type"] == "refused") == ["", "plain.example.com"]


def test_values_may_be_as_many_and_as_long_as_there_may_be(box: Box) -> None:
    values = {f"SECRET_{n}": f"value-{n:03}-" + "x" * 1990 for n in range(96)} | {"LONG": "é" * 32_768}
    box.plane.set_secrets(**values)
    event, output = run(box, 'env | grep -c ^SECRET_; echo "$LONG$SECRET_7"; printf %s "$LONG" | wc -c')
    assert (event["exit"], output) == (0, b"96\n******\n65536\n")
    long = "# " + "x" * 40_000 + "\necho $SECRET_95 ${#LONG}"
    assert run(box, long)[1] == b"*** 32768\n"


def test_nothing_of_a_secret_is_on_the_disk_or_in_any_command_line(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    n = box.plane.bash("echo $API_KEY; sleep 100")
    eventually(lambda: box.plane.ask(n, 0)["data"] == b"***\n")
    for path in box.path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert KEY.encode() not in path.read_bytes(), path
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [line for line in lines if KEY.encode() in line]
    assert KEY.encode() not in Path(f"/proc/{box.pid}/environ").read_bytes()
    assert KEY not in box.log()


def test_the_agent_and_what_it_starts_leave_no_core(box: Box) -> None:
    box.plane.set_secrets(API_KEY=KEY)
    _, output = run(box, "cat /proc/self/limits | grep core; (cd /tmp; kill -SEGV $BASHPID); ls /tmp")
    assert output.split()[:6] == [b"Max", b"core", b"file", b"size", b"1", b"1"]
    assert b"core." not in output
    owner = Path(f"/proc/{box.pid}/environ").stat().st_uid
    assert owner == 0  # what is not dumpable is root's
    if os.geteuid() == 0:
        reader = f"import os; os.setuid({box.uid}); open('/proc/{box.pid}/mem', 'rb')"
        assert os.system(f'/usr/bin/python3 -c "{reader}" 2>/dev/null') != 0


def test_another_command_of_the_box_sees_what_the_docs_say_it_does(box: Box) -> None:
    """The environment is the box's own secret: whatever runs in it as the same user may read it, and is masked."""
    box.plane.set_secrets(API_KEY=KEY)
    n = box.plane.bash("sleep 100")
    eventually(lambda: box.control({"op": "status"})["open"] == [n])
    output = run(box, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep API_KEY | sort -u")[1]
    assert output == b"API_KEY=***\n"


def test_another_spelling_is_not_masked(box: Box) -> None:
    """As docs/secrets.md says: it keeps an accident out of a transcript, and no program that means it."""
    box.plane.set_secrets(API_KEY=KEY)
    code = base64.b64encode(f"{KEY}\n".encode()).decode()
    output = run(box, "echo $API_KEY | base64 -w0; echo; echo $API_KEY | rev; echo ${API_KEY:0:12} ${API_KEY:12}")[1]
    assert output == f"{code}\n{KEY[::-1]}\n{KEY[:12]} {KEY[12:]}\n".encode()


@pytest.mark.parametrize("count", [1, 5, 100])
def test_a_hundred_mebibytes_come_back_whole_and_the_agent_stays_small(box: Box, count: int) -> None:
    values = {f"SECRET_{n}": hashlib.sha256(b"%d" % n).hexdigest() for n in range(count)}
    box.plane.set_secrets(**values)
    block = base64.b64encode(os.urandom(3 << 18))
    with (box.home / "big").open("wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "big") + block[4:])
    began = time.monotonic()
    event = box.plane.run("cat ~/big; echo $SECRET_0")
    print(f"{count} secrets: {100 / (time.monotonic() - began):.0f} MiB/s")
    assert (event["exit"], event["size"]) == (0, (100 << 20) + 4)
    digest, at = hashlib.sha256(), 0
    while at < event["size"] - 4:
        answer = box.plane.ask(event["n"], at, min(1 << 20, event["size"] - 4 - at))
        digest.update(answer["data"])
        at += len(answer["data"])
    assert digest.digest() == hashlib.sha256((box.home / "big").read_bytes()).digest()
    peak = int(Path(f"/proc/{box.pid}/status").read_text().partition("VmHWM:")[2].split()[0])
    assert peak < 40 << 10
