"""The stand-in's LFS: by real git-lfs, and by calls that it must refuse."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.github.desk import Desk
from tests.github.test_git_side import Clone

CONTENT = os.urandom(300_000)
OID = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def clone(desk: Desk, tmp_path: Path) -> Clone:
    return Clone(desk, tmp_path)


def batch(desk: Desk, operation: str, token: str, oid: str = OID, size: int = len(CONTENT)) -> httpx2.Response:
    body = {"operation": operation, "transfers": ["basic"], "objects": [{"oid": oid, "size": size}]}
    headers = {"accept": "application/vnd.git-lfs+json", "content-type": "application/vnd.git-lfs+json"}
    if token:
        headers["authorization"] = "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()
    where = f"{desk.github.url}/acme/app.git/info/lfs/objects/batch"
    return httpx2.post(where, content=json.dumps(body), headers=headers, trust_env=False)


def actions(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["objects"][0].get("actions", {})
    return found


def act(action: dict[str, Any], method: str, content: bytes = b"") -> httpx2.Response:
    return httpx2.request(method, action["href"], content=content, headers=action["header"], trust_env=False)


@pytest.mark.needs("git-lfs")
def test_git_lfs_pushes_a_file_and_another_clone_has_it(clone: Clone) -> None:
    checkout = clone.cloned()
    for words in (("lfs", "install", "--local"), ("lfs", "track", "*.bin")):
        assert clone.git(*words, cwd=checkout)[0] == 0
    (checkout / "big.bin").write_bytes(CONTENT)
    clone.commit(checkout)
    code, said = clone.git("push", "origin", "HEAD:main", cwd=checkout)
    assert code == 0, said
    assert clone.github.read(clone.repo, "big.bin").startswith(b"version https://git-lfs.github.com/spec/v1")
    clone.git("clone", "-q", "-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true",
              "-c", "filter.lfs.smudge=git-lfs smudge -- %f", clone.url(), "other")  # fmt: skip
    assert (clone.folder / "other" / "big.bin").read_bytes() == CONTENT


def test_an_object_is_sent_checked_and_given_back_under_its_own_credentials(desk: Desk) -> None:
    up = actions(batch(desk, "upload", desk.token))
    assert act(up["upload"], "PUT", CONTENT[1:]).status_code == 400
    assert act(up["verify"], "POST", json.dumps({"oid": OID, "size": len(CONTENT)}).encode()).status_code == 404
    assert act(up["upload"], "PUT", CONTENT).status_code == 200
    assert act(up["verify"], "POST", json.dumps({"oid": OID, "size": len(CONTENT)}).encode()).status_code == 200
    assert actions(batch(desk, "upload", desk.token)) == {}
    down = actions(batch(desk, "download", desk.its_token))
    assert act(down["download"], "GET").content == CONTENT


def test_credentials_of_one_object_open_no_other(desk: Desk) -> None:
    up, other = actions(batch(desk, "upload", desk.token)), actions(batch(desk, "upload", desk.token, "0" * 64, 1))
    swapped = {"href": other["upload"]["href"], "header": up["upload"]["header"]}
    assert act(swapped, "PUT", CONTENT).status_code == 403
    assert act({"href": up["upload"]["href"], "header": {}}, "PUT", CONTENT).status_code == 403
    reading = {"href": up["upload"]["href"], "header": up["upload"]["header"]}
    assert act(reading, "GET").status_code == 403


@pytest.mark.parametrize(
    ("who", "operation", "status"),
    [("nobody", "download", 401), ("liar", "download", 401), ("eve", "download", 404), ("grace", "upload", 403)],
)
def test_who_may_not_hears_it_in_the_form_of_lfs(desk: Desk, who: str, operation: str, status: int) -> None:
    tokens = {
        "nobody": "", "liar": "ghu_no", "eve": desk.github.user_token(desk.app, desk.eve).value,
        "grace": desk.github.user_token(desk.app, desk.grace).value,
    }  # fmt: skip
    answer = batch(desk, operation, tokens[who])
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/vnd.git-lfs+json")
    assert answer.json()["message"]


def test_an_object_that_is_not_there_is_told_beside_those_that_are(desk: Desk) -> None:
    told = batch(desk, "download", desk.token).json()["objects"][0]
    assert told["error"] == {"code": 404, "message": "Object does not exist on the server"}
    assert batch(desk, "upload", desk.token, "../../etc/passwd", 3).json()["objects"][0]["error"]["code"] == 422
