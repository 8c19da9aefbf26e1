"""The page on operations has a proxy that ends TLS: a real nginx, with the very text that stands there."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import pytest
from tests.behaviour.cli.systems import free_port
from tests.unit.people.house import house, user
from tests.wire.clients import Raw
from tests.wire.serving import served

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift import serving
from rift.deps import Deps
from rift.mail import actions as mail
from rift.settings import RiftSettings, ServerSettings

NAME = "rift.example.com"
PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


@dataclass
class Proxied:
    """A client that comes through the proxy by its name, and the system behind."""

    client: httpx2.AsyncClient
    deps: Deps
    behind: str


@pytest.fixture
async def proxied(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Proxied]:
    settings = RiftSettings(server=ServerSettings(public_url=f"https://{NAME}", trusted_proxies=("127.0.0.1/32",)))
    async with house(database, tmp_path, clock) as made:
        deps = replace(made, settings=settings)
        async with served(serving.web(deps)) as behind, nginx(behind) as (port, trust):
            context = ssl.create_default_context(cafile=trust)
            inner = httpx2.AsyncHTTPTransport(verify=context, local_address="127.0.0.2")  # which no proxy is trusted at
            transport = ByName(inner, port)
            async with httpx2.AsyncClient(transport=transport, base_url=f"https://{NAME}", timeout=30) as client:
                yield Proxied(client, deps, behind)


class ByName(httpx2.AsyncBaseTransport):
    """Every name is this machine, at the proxy's port; what is asked for stays as it is."""

    def __init__(self, inner: httpx2.AsyncHTTPTransport, port: int) -> None:
        self._inner, self._port = inner, port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.extensions = {**request.extensions, "sni_hostname": request.url.host}
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await self._inner.handle_async_request(request)


@asynccontextmanager
async def nginx(behind: str) -> AsyncIterator[tuple[int, str]]:
    """The page's nginx in front of `behind`: its port, and the certificate to trust."""
    found = re.search(r"^```nginx\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    place = Path(tempfile.mkdtemp(prefix="nginx-"))
    place.chmod(0o711)  # where root started it, its workers are another user
    port = free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
         "-keyout", place / "key", "-out", place / "crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = found[1]
    for theirs, ours in (
        (r"listen 443", f"listen 127.0.0.1:{port}"),
        (r"(?<=ssl_certificate )\s*\S+(?=;)", f"{place}/crt"),
        (r"(?<=ssl_certificate_key )\s*\S+(?=;)", f"{place}/key"),
        (r"http://127\.0\.0\.1:7433", behind),
    ):
        server, times = re.subn(theirs, ours, server)
        assert times == 1, theirs
    (place / "nginx.conf").write_text(
        f"daemon off;\npid {place}/pid;\nerror_log {place}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\nclient_body_temp_path {place}/body;\nproxy_temp_path {place}/proxy;\n"
        f"fastcgi_temp_path {place}/f;\nuwsgi_temp_path {place}/u;\nscgi_temp_path {place}/s;\n{server}}}\n"
    )
    program = await asyncio.create_subprocess_exec("/usr/sbin/nginx", "-p", place, "-c", place / "nginx.conf")
    try:
        while True:
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            except OSError:
                assert program.returncode is None, (place / "error.log").read_text()
                await asyncio.sleep(0.02)
        yield port, str(place / "crt")
    finally:
        program.terminate()
        await program.wait()
        shutil.rmtree(place, ignore_errors=True)


pytestmark = pytest.mark.needs("nginx")


async def test_people_sign_in_through_the_pages_proxy_over_tls(proxied: Proxied) -> None:
    await user(proxied.deps, "ada@example.com")
    secret = await mail.link_for(proxied.deps, "ada@example.com")
    assert not isinstance(secret, Refusal)
    path = f"/sign-in/link/{secret}"
    shown = await proxied.client.get(path)
    assert shown.status_code == 200
    assert shown.headers["strict-transport-security"]
    pressed = await proxied.client.post(path, data={"csrf": ""}, headers={"Origin": f"https://{NAME}"})
    assert (pressed.status_code, pressed.headers["location"]) == (303, "/app")
    assert "__Host-rift=" in pressed.headers["set-cookie"]
    secret = pressed.cookies["__Host-rift"]
    boxes = await proxied.client.get("/app/boxes", headers={"Cookie": f"__Host-rift={secret}"})
    assert boxes.status_code == 200
    assert (await proxied.client.get("/docs/operations")).status_code == 200


async def test_agents_come_through_it_and_learn_the_public_address(proxied: Proxied) -> None:
    asked = await proxied.client.post("/mcp", json={})
    assert asked.status_code == 401
    where = f"https://{NAME}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{where}"' in asked.headers["www-authenticate"]
    told = (await proxied.client.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert told["resource"] == f"https://{NAME}/mcp"


async def test_numbers_stay_inside_and_other_names_are_not_answered(proxied: Proxied) -> None:
    assert (await proxied.client.get("/metrics")).status_code in (403, 404)
    assert (await Raw(f"{proxied.behind}/mcp", None).post({}, {"Host": "evil.example"})).status == 421
    assert (await proxied.client.get("/docs", headers={"Host": "evil.example"})).status_code == 421


async def test_each_person_behind_it_is_counted_by_themself_and_nobody_by_what_they_claim(proxied: Proxied) -> None:
    claimed = [
        (await proxied.client.post("/sign-in/link/no", data={}, headers={"X-Forwarded-For": f"203.0.113.{n}"}))
        for n in range(31)
    ]
    assert [answer.status_code for answer in claimed] == [410] * 30 + [429]


async def test_a_large_file_goes_through_it(proxied: Proxied) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": "y" * 9_000_000}}
    assert (await proxied.client.post("/mcp", json=body)).status_code == 401, "not 413, which is the proxy's own"
