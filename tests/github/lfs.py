"""Git LFS beside each repository: the batch API, and a store on a second path with credentials of its own.

Source: git-lfs, docs/api/batch.md, docs/api/basic-transfers.md, docs/api/locking.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from tests.github.git_http import bearer, found, refusal
from tests.github.model import Repo, Token
from tests.github.world import Missing, World

MEDIA = "application/vnd.git-lfs+json"
OID = re.compile(r"[0-9a-f]{64}")
GOOD_FOR = 3600


class Lfs:
    """Objects by repository; what a batch allowed, by the secret that its answer gave for each object."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.allowed: dict[str, tuple[str, int, str]] = {}
        """A secret: what it is for (`upload`, `download`, `verify`), the repository's id, the object."""

    def path(self, repo: Repo | int, oid: str) -> Path:
        number = repo if isinstance(repo, int) else repo.id
        return self.world.folder / "lfs" / str(number) / oid

    # Below the repository -------------------------------------------------------------------------------------------

    async def batch(self, request: Request) -> Response:
        asked = await self._asked(request)
        operation = asked.get("operation")
        if operation not in ("upload", "download"):
            return _say(422, "operation must be upload or download")
        no, repo, _ = self._enter(request, writes=operation == "upload")
        if no is not None or repo is None:
            return no or _say(404, "Not Found")
        if asked.get("hash_algo", "sha256") != "sha256":
            return _say(409, "unknown hash algorithm")
        objects = [self._object(repo, operation, one) for one in asked.get("objects", [])]
        return _json({"transfer": "basic", "objects": objects, "hash_algo": "sha256"})

    def _object(self, repo: Repo, operation: str, one: dict[str, Any]) -> dict[str, Any]:
        oid, size = str(one.get("oid", "")), one.get("size")
        told: dict[str, Any] = {"oid": oid, "size": size}
        if not OID.fullmatch(oid) or not isinstance(size, int) or size < 0:
            return told | {"error": {"code": 422, "message": "Object is not valid"}}
        there = self.path(repo, oid).exists()
        if operation == "download":
            if not there:
                return told | {"error": {"code": 404, "message": "Object does not exist on the server"}}
            return told | {"authenticated": True, "actions": {"download": self._action("download", repo, oid)}}
        if there:
            return told
        actions = {name: self._action(name, repo, oid) for name in ("upload", "verify")}
        return told | {"authenticated": True, "actions": actions}

    def _action(self, kind: str, repo: Repo, oid: str) -> dict[str, Any]:
        secret = secrets.token_urlsafe(24)
        self.allowed[secret] = kind, repo.id, oid
        where = f"{self.world.url}/_lfs/{repo.id}/{oid}" + ("/verify" if kind == "verify" else "")
        return {"href": where, "header": {"Authorization": f"RemoteAuth {secret}"}, "expires_in": GOOD_FOR}

    async def verify_locks(self, request: Request) -> Response:
        no, _, _ = self._enter(request, writes=True)
        return no or _json({"ours": [], "theirs": []})

    async def locks(self, request: Request) -> Response:
        no, _, _ = self._enter(request, writes=request.method == "POST")
        return no or (_json({"locks": []}) if request.method == "GET" else _say(501, "Not Implemented"))

    async def _asked(self, request: Request) -> dict[str, Any]:
        try:
            told = json.loads(await request.body())
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    def _enter(self, request: Request, writes: bool) -> tuple[Response | None, Repo | None, Token | None]:
        """The repository; or a refusal, in LFS's form."""
        owner, name = request.path_params["owner"], request.path_params["name"].removesuffix(".git")
        authorization = request.headers.get("authorization", "")
        with self.world.lock:
            try:
                repo, _ = found(self.world, f"{owner}/{name}")
            except Missing:
                repo = None
            no, token = refusal(self.world, repo, authorization, writes)
        if no is None:
            return None, repo, token
        known, good = bearer(self.world, authorization)
        said = bytes(no.body).decode()
        if no.status_code == 401:
            return _say(401, "Credentials needed" if good and known is None else said), None, None
        return _say(no.status_code, said), None, None

    # The store ------------------------------------------------------------------------------------------------------

    def _may(self, request: Request, kind: str) -> Path | None:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        wanted = kind, int(request.path_params["repo"]), request.path_params["oid"]
        good = scheme == "RemoteAuth" and self.allowed.get(secret) == wanted
        return self.path(wanted[1], wanted[2]) if good else None

    async def store(self, request: Request) -> Response:
        kind = "upload" if request.method == "PUT" else "download"
        path = self._may(request, kind)
        if path is None:
            return Response("AccessDenied", 403)
        if kind == "download":
            return FileResponse(path, media_type="application/octet-stream") if path.exists() else Response("", 404)
        path.parent.mkdir(parents=True, exist_ok=True)
        part, digest = path.with_name(f"{path.name}.{secrets.token_hex(4)}"), hashlib.sha256()
        with part.open("wb") as into:
            async for piece in request.stream():
                digest.update(piece)
                into.write(piece)
        if digest.hexdigest() != path.name:
            part.unlink()
            return Response("XAmzContentSHA256Mismatch", 400)
        part.rename(path)
        return Response("", 200)

    async def verify(self, request: Request) -> Response:
        path = self._may(request, "verify")
        if path is None:
            return _say(403, "Forbidden")
        asked = await self._asked(request)
        there = path.exists() and path.stat().st_size == asked.get("size") and path.name == asked.get("oid")
        return _json({"message": "OK"}) if there else _say(404, "Object does not exist on the server")


def _json(told: dict[str, Any], status: int = 200) -> Response:
    headers = {"LFS-Authenticate": 'Basic realm="GitHub"'} if status == 401 else {}
    return JSONResponse(told, status, headers, MEDIA)


def _say(status: int, message: str) -> Response:
    return _json({"message": message, "documentation_url": "https://docs.github.com/", "request_id": "0"}, status)
