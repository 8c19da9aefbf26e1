"""Host uids of boxes, while boxes and locks come and go."""

from __future__ import annotations

import threading
from pathlib import Path

from rift.drivers.boxes.local import LocalConfig
from rift.drivers.boxes.local.places import free_uid


def test_a_uid_is_found_while_lock_files_come_and_go(tmp_path: Path) -> None:
    config = LocalConfig(tmp_path)
    config.boxes.mkdir()
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            locks = [config.boxes / f".lock-box-{number}" for number in range(40)]
            for lock in locks:
                lock.touch()
            for lock in locks:
                lock.unlink()

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        found = {free_uid(config, set()) for _ in range(2000)}
    finally:
        over.set()
        others.join()
    assert len(found) == 1
    assert config.first_uid <= found.pop() < config.first_uid + config.uids
