"""Onbe under load, and what of it is the cryptography: exchange, refresh, introspection.

A server of its own with a database of its own, twenty agents, a thousand people in a SCIM directory that it asks over
HTTP. Load and directory are processes of their own on the same two cores.

    python -m bench.authority            # results/authority.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from bench.harness import Row, folder, free_port, line, machine, percentile
from bench.load import Told, form, run
from keel.postgres import SUPERUSER, EmbeddedPostgres

RESULTS = Path(__file__).with_name("results")
ONBE = Path(sys.executable).with_name("onbe")
ADMIN_KEY = "bench-" + "k" * 40
AUDIENCE = "https://tools.example.com/"
AGENTS, PEOPLE = 20, 1000
JWT = "urn:ietf:params:oauth:token-type:jwt"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
SIGNED = ec.ECDSA(SHA256())


def b64(data: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Signer:
    """An ES256 key that makes JWTs."""

    kid: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def jwk(self) -> dict[str, str]:
        """The public half."""
        point = self.key.public_key().public_numbers()
        return {
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.kid,
            "x": b64(point.x.to_bytes(32)), "y": b64(point.y.to_bytes(32)),
        }  # fmt: skip

    def jwt(self, **claims: Any) -> str:
        """A signed token."""
        head = b64(json.dumps({"alg": "ES256", "typ": "JWT", "kid": self.kid}).encode())
        signed = f"{head}.{b64(json.dumps(claims).encode())}"
        r, s = decode_dss_signature(self.key.sign(signed.encode(), SIGNED))
        return f"{signed}.{b64(r.to_bytes(32) + s.to_bytes(32))}"


@dataclass
class Authority:
    """A server that runs for the bench."""

    port: int
    pid: int
    provider: Signer
    provider_url: str
    agents: list[Signer]
    postgres: EmbeddedPostgres
    person: str | None = None
    """The token of the one person there is, where the development issuer is the provider."""
    _made: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def assertion(self, number: int) -> str:
        """What shows an agent, for one request."""
        agent, now = self.agents[number % AGENTS], int(time.time())
        self._made += 1
        return agent.jwt(
            iss=agent.kid, sub=agent.kid, aud=self.url, iat=now, exp=now + 280, jti=f"{self._made}-{os.getpid()}"
        )

    def subject(self, number: int) -> str:
        """A person's token."""
        if self.person:
            return self.person
        now = int(time.time())
        return self.provider.jwt(
            iss=self.provider_url, sub=f"person-{number % PEOPLE}", aud=self.url, iat=now, exp=now + 3600,
            scope="read write",
        )  # fmt: skip

    def exchange(self, number: int) -> str:
        """A request that begins a task."""
        fields = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": self.subject(number),
            "subject_token_type": JWT, "actor_token": self.assertion(number), "actor_token_type": JWT,
            "resource": AUDIENCE, "scope": "read",
        }  # fmt: skip
        return form("/oauth2/token", fields, self.port)

    def refresh(self, number: int, grant: str) -> str:
        """A request that renews one. `number` is the agent's, as it was at the exchange."""
        fields = {
            "grant_type": "refresh_token", "refresh_token": grant, "client_assertion": self.assertion(number),
            "client_assertion_type": ASSERTION,
        }  # fmt: skip
        return form("/oauth2/token", fields, self.port)

    def introspect(self, token: str) -> str:
        """A request that asks after a token, by whoever holds the admin key."""
        return form("/oauth2/introspect", {"token": token}, self.port, f"Authorization: Bearer {ADMIN_KEY}\r\n")

    def cpu(self) -> float:
        """Seconds of CPU that the server's processes have used."""
        return sum(_cpu(pid) for pid in (self.pid, *_children(self.pid)))


def _cpu(pid: int) -> float:
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    """Those that are the server too: as root it is a child of what was started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if "postgres" not in Path(f"/proc/{child}/comm").read_text()]


@contextmanager
def authority(*, near: bool = False) -> Iterator[Authority]:
    """A fresh Onbe on a folder and a port of its own; nothing is left of it.

    `near`: the directory of people is in its own process, and holds the one person of a development start.
    """
    provider = Signer("provider")
    jwks = json.dumps({"keys": [provider.jwk()]})
    people = subprocess.Popen([sys.executable, "-m", "bench.people", jwks], stdout=subprocess.PIPE, text=True)
    try:
        assert people.stdout is not None
        outside = f"http://127.0.0.1:{int(people.stdout.readline())}"
        with folder() as data:
            data.chmod(0o711)
            yield from _serve(data, provider, outside, near=near)
    finally:
        people.terminate()
        people.wait(10)


def _serve(data: Path, provider: Signer, outside: str, *, near: bool) -> Iterator[Authority]:
    port = free_port()
    people = (
        {
            "Onbe__Development__Enabled": "true",
        }
        if near
        else {
            "Onbe__Subjects__Issuer": outside,
            "Onbe__Subjects__JwksUri": f"{outside}/jwks.json",
            "Onbe__Subjects__Audiences": f"http://127.0.0.1:{port}",
            "Onbe__SponsorCheck__Provider": "scim",
            "Onbe__SponsorCheck__Url": f"{outside}/scim",
            "Onbe__SponsorCheck__Token": "bench-" + "t" * 40,
        }
    )
    environment = {
        **os.environ, **people, "Onbe__Admin__Keys": ADMIN_KEY, "Onbe__Limits__PerSource": "100000000",
    }  # fmt: skip
    subprocess.run([ONBE, "keys", "generate", "--data", data], env=environment, check=True, capture_output=True)
    words = [ONBE, "serve", "--data", data, "--port", str(port)]
    postgres = EmbeddedPostgres(data, name="onbe")
    with (data / "log").open("wb") as log:
        server = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
    try:
        _ready(port, server, data / "log")
        agents = [Signer(f"agent-{number}") for number in range(AGENTS)]
        found = Authority(port, server.pid, provider, outside, agents, postgres)
        for agent in agents:
            _register(found, agent)
        if near:
            with urllib.request.urlopen(f"{found.url}/development/token", b"scope=read+write", timeout=10) as answer:
                found.person = json.load(answer)["access_token"]
        yield found
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        postgres.stop()


def _ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise RuntimeError(f"onbe serve ended: {log.read_text()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"onbe serve does not answer: {log.read_text()}")


def _register(on: Authority, agent: Signer) -> None:
    body = {
        "agent_id": agent.kid, "display_name": agent.kid, "allowed_scopes": ["read", "write"],
        "allowed_audiences": [AUDIENCE], "jwks": {"keys": [agent.jwk()]},
    }  # fmt: skip
    request = urllib.request.Request(
        f"{on.url}/admin/agents", json.dumps(body).encode(),
        {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


def cryptography_alone(times: int = 2000) -> float:
    """Seconds of two verifications and one signature, ES256, by the same library."""
    key = ec.generate_private_key(ec.SECP256R1())
    public, text = key.public_key(), b"x" * 400
    signature = key.sign(text, SIGNED)
    began = time.process_time()
    for _ in range(times):
        public.verify(signature, text, SIGNED)
        public.verify(signature, text, SIGNED)
        key.sign(text, SIGNED)
    return (time.process_time() - began) / times


def played(on: Authority, requests: list[str], **how: Any) -> tuple[Told, float]:
    """A run, and the server's CPU for each request. Raises RuntimeError where one was not answered 200."""
    before = on.cpu()
    told = run(on.port, requests, **how)
    if set(told.statuses) != {200}:
        raise RuntimeError(f"not all were answered 200: {dict(told.statuses)} {told.bodies[:1]}")
    return told, (on.cpu() - before) / len(requests)


def statements(on: Authority, requests: list[str]) -> float:
    """How many statements each took, BEGIN and COMMIT too, as Postgres logs them; upkeep of that second is in it."""
    logs = on.postgres.place / "log"
    before = _logged(logs)
    _log_all(on, "all")
    try:
        played(on, requests)
    finally:
        _log_all(on, "none")
    return (_logged(logs) - before) / len(requests)


def _log_all(on: Authority, what: str) -> None:
    with psycopg.connect(on.postgres.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET log_statement = '{what}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.5)  # every process of the server reads it anew


def _logged(logs: Path) -> int:
    texts = [path.read_text("utf-8", "replace") for path in logs.glob("postgres-*.log")]
    return sum(len(re.findall(r"LOG:  (?:execute|statement)", text)) for text in texts)


def latency(told: Told) -> str:
    """p50, p95 and p99."""
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    return ", ".join(f"{name} {percentile(told.seconds, share) * 1000:.1f} ms" for share, name in shares)


def rows_near(on: Authority, scale: float) -> list[Row]:
    """What an exchange costs where nobody is asked over HTTP."""
    floor = cryptography_alone()
    played(on, [on.exchange(number) for number in range(200)])
    told, cpu = played(on, [on.exchange(number) for number in range(int(3000 * scale))])
    return [
        Row("exchange, the directory in the process", f"{told.rate:.0f}/s ({latency(told)})", "—", None, "≥ 400/s",
            told.rate >= 400),
        Row("exchange, the directory in the process, CPU", f"{cpu * 1000:.2f} ms",
            f"cryptography alone: {floor * 1000:.2f} ms", cpu / floor, "≤ 2.5 ms", cpu <= 0.0025),
    ]  # fmt: skip


def rows(on: Authority, scale: float) -> list[Row]:
    """Every measure, in the order in which each needs what the one before made."""
    found: list[Row] = []
    floor = cryptography_alone()

    def add(what: str, told: Told, cpu: float, least: int, cpu_most: float | None) -> None:
        found.append(
            Row(f"{what}, as fast as it goes, 16 connections", f"{told.rate:.0f}/s ({latency(told)})", "—", None,
                f"≥ {least:,}/s", told.rate >= least)
        )  # fmt: skip
        found.append(
            Row(f"{what}, CPU of our process", f"{cpu * 1000:.2f} ms",
                f"cryptography alone: {floor * 1000:.2f} ms (2 verifications, 1 signature)", cpu / floor,
                f"≤ {cpu_most * 1000:.1f} ms" if cpu_most else "told", cpu <= cpu_most if cpu_most else None)
        )  # fmt: skip

    def count_statements(what: str, most: int, requests: list[str]) -> None:
        counted = statements(on, requests)
        found.append(Row(f"{what}, statements", f"{counted:.2f}", "—", None, f"≤ {most}", counted < most + 0.5))

    count = int(3000 * scale)
    played(on, [on.exchange(number) for number in range(200)])  # warm
    told, cpu = played(on, [on.exchange(number) for number in range(count)], bodies=True)
    add("exchange", told, cpu, 400, 0.0025)
    answers = [json.loads(body) for body in told.bodies]
    grants = [(_agent(answer), answer["refresh_token"]) for answer in answers]
    told, cpu = played(on, [on.refresh(number, grant) for number, grant in grants])
    add("refresh", told, cpu, 500, None)
    tokens = [answer["access_token"] for answer in answers]
    count_statements("exchange", 6, [on.exchange(number) for number in range(300)])
    count_statements("refresh after the first", 4, [on.refresh(number, grant) for number, grant in grants[:300]])
    count_statements("introspection", 1, [on.introspect(token) for token in tokens[:300]])
    told, cpu = played(on, [on.introspect(token) for token in tokens])
    add("introspection", told, cpu, 1500, None)
    for what, rate, requests in (
        ("exchange", 200, [on.exchange(number) for number in range(int(2000 * scale))]),
        ("refresh", 250, [on.refresh(number, grant) for number, grant in grants[: int(2500 * scale)]]),
        ("introspection", 750, [on.introspect(token) for token in tokens]),
    ):
        told, _ = played(on, requests, rate=rate, connections=64)
        found.append(Row(f"{what}, {rate}/s arriving on their own", latency(told), "—", None, "told", None))
    return found


def _agent(answer: dict[str, Any]) -> int:
    """The number of the agent that a token was given to."""
    claims = answer["access_token"].split(".")[1]
    from base64 import urlsafe_b64decode

    told = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return int(told["client_id"].rpartition("-")[2])


def main() -> None:
    """Run every row, print it, keep it."""
    parser = argparse.ArgumentParser(prog="python -m bench.authority", description="Measure Onbe under load.")
    parser.add_argument("--label", default="authority", help="the name of the results' files")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the load")
    chosen = parser.parse_args()
    with authority() as on:
        found = rows(on, chosen.scale)
    with authority(near=True) as on:
        found += rows_near(on, chosen.scale)
    table = ["| what | ours | beside it | ratio | goal | met |", "|---|---|---|---|---|---|", *map(line, found)]
    print("\n".join(table))
    kept = {"machine": machine(), "rows": [asdict(row) for row in found]}
    (RESULTS / f"{chosen.label}.json").write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    (RESULTS / f"{chosen.label}.md").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
