"""Whom the server runs as: one finding of `rift doctor`."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys

from keel.accounts import SYSTEM_PATH, look_up
from rift.cli.place import SERVER_USER
from rift.drivers.boxes.local.doctor import Check

NAME = "server"
NOBODY = 65534
TRIAL = "import os, sys; from rift.keeper.drop import become; become(*map(int, sys.argv[1:]), parent=os.getppid())"


def check_server() -> Check:
    """Whether the server can run as whom it should. As root a process gives root away, for a trial."""
    if os.geteuid() != 0:
        return Check(NAME, True, f"The server runs as {_me()}, and so does everything of Rift.")
    found = look_up(SERVER_USER)
    if found is None and shutil.which("useradd", path=SYSTEM_PATH) is None:
        sentence = f"The server needs the system user {SERVER_USER}, and there is no useradd to make it with."
        return Check(NAME, False, sentence, "apt install passwd")
    uid, gid = (found.uid, found.gid) if found else (NOBODY, NOBODY)
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRIAL, str(uid), str(gid)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2]
        closed = said.rpartition(": ")[2].strip("'\"") if said.startswith("PermissionError") else ""
        mend = f"chmod -R o+rX {shlex.quote(closed)}" if closed else None
        return Check(NAME, False, f"The server cannot give root away: {said}.", mend)
    made = "" if found else ", which the first start makes"
    return Check(NAME, True, f"The server runs as the system user {SERVER_USER}{made}; a small keeper stays root.")


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
