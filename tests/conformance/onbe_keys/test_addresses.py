"""Where keys are fetched from: no private address for an agent, however it is spelled; an issuer by its document."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.onbe_keys.asking import DEVELOPMENT, PATH, kids, refused
from tests.conformance.onbe_keys.endpoint import Endpoint, serving
from tests.conformance.onbe_keys.tls import certificate, serving_tls
from tests.unit.keel.jose.making import public

from keel.hosts import is_public
from keel.testing import FakeClock
from onbe.drivers.keys.http import FRESH, HttpKeys
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.settings import AgentSettings, DevelopmentSettings, OnbeSettings, SubjectSettings


class Names:
    """Names that a test owns; each look-up takes the next answer, and stays with the last."""

    def __init__(self, **addresses: Sequence[Sequence[str]]) -> None:
        self.addresses = {name.replace("_", "."): list(answers) for name, answers in addresses.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.addresses.get(host)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def settings(**more: Any) -> OnbeSettings:
    return OnbeSettings(allow_insecure_http=True, **more)


PRIVATE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "192.0.2.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
    "255.255.255.255", "168.63.129.16", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:7f00:1::", "2001:db8::1",
    "not an address", "fe80::1%lo",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
async def test_an_agents_keys_are_not_fetched_from_a_private_address(clock: FakeClock, address: str) -> None:
    names = Names(agent_example=[[address]], mixed_example=[["8.8.8.8", address]])
    async with HttpKeys(settings(), clock, names) as keys:
        for host in ("agent.example", "mixed.example"):
            assert "agents' keys are not fetched from" in await refused(keys, f"http://{host}:1/jwks")


@pytest.mark.parametrize("host", [
    "127.0.0.1", "[::1]", "localhost", "localhost.", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "LOCALHOST", "127.0.0.1.", "①②⑦.0.0.1", "127。0。0。1",
])  # fmt: skip
async def test_this_machine_is_private_however_it_is_spelled(endpoint: Endpoint, clock: FakeClock, host: str) -> None:
    async with HttpKeys(settings(), clock) as keys:
        await refused(keys, f"http://{host}:{endpoint.port}{PATH}")
    assert endpoint.asked == []


@pytest.mark.parametrize("url", [
    "", "jwks", "/jwks", "//h/jwks", "ftp://h/jwks", "file:///etc/passwd", "http:///jwks", "http://", "gopher://h",
    "https://user@h/jwks", "https://user:pw@h/jwks", "https://h/jwks#part", "http://h:99999/", "http://h:x/", "http://[::1",
    "https://h/" + "x" * 3000, "http://a b/", "http://h\n/", "http://\ud800/", "data:application/json,{}", "unix:///x",
])  # fmt: skip
async def test_what_is_no_plain_url_of_http_is_not_asked(clock: FakeClock, url: str) -> None:
    names = Names()
    async with HttpKeys(settings(), clock, names) as keys:
        assert "no URL that is taken" in await refused(keys, url)
    assert names.asked == []


async def test_keys_come_over_https_alone_but_for_this_machine(clock: FakeClock) -> None:
    names = Names(agent_example=[["8.8.8.8"]])
    async with HttpKeys(OnbeSettings(), clock, names) as keys:
        assert "not https" in await refused(keys, "http://agent.example/jwks")
        with pytest.raises(KeysUnavailable, match="not https"):
            await keys.of_issuer("http://agent.example", None)
    assert names.asked == []


async def test_networks_that_are_named_are_allowed_and_no_others(endpoint: Endpoint, clock: FakeClock) -> None:
    allowed = settings(agents=AgentSettings(key_networks=("127.0.0.0/30",)))
    names = Names(a_example=[["127.0.0.1"]], b_example=[["127.0.0.4"]], c_example=[["10.0.0.1"]], d_example=[["::1"]])
    async with HttpKeys(allowed, clock, names) as keys:
        assert kids(await keys.at(f"http://a.example:{endpoint.port}{PATH}", "P-256")) == ["P-256"]
        for host in "bcd":
            await refused(keys, f"http://{host}.example:{endpoint.port}{PATH}")


async def test_a_name_that_changes_its_address_is_connected_to_where_it_was_looked_at(
    endpoint: Endpoint, clock: FakeClock
) -> None:
    """DNS rebinding: public when it is looked at, this machine when it is connected to."""
    allowed = settings(agents=AgentSettings(key_networks=("127.0.0.1/32",)))
    names = Names(evil_example=[["127.0.0.1"], ["127.0.0.2"]], localhost=[["8.8.8.8"]])
    async with serving("127.0.0.2", endpoint.port) as other, HttpKeys(allowed, clock, names) as keys:
        other.says(PATH, {"keys": [public("P-256")]})
        url = f"http://evil.example:{endpoint.port}{PATH}"
        assert kids(await keys.at(url, "P-256")) == ["P-256"]
        assert (names.asked, other.asked, endpoint.asked) == (["evil.example"], [], [PATH])
        assert f"host: evil.example:{endpoint.port}" in endpoint.heads[0].lower()
        clock.advance(FRESH)
        assert kids(await keys.at(url, "P-256")) == ["P-256"]  # stale: the new address is refused
        assert other.asked == []


async def test_an_address_that_does_not_answer_is_followed_by_the_next(endpoint: Endpoint, clock: FakeClock) -> None:
    names = Names(two_example=[["::1", "127.0.0.1"]])
    async with HttpKeys(settings(development=DevelopmentSettings(enabled=True)), clock, names) as keys:
        assert kids(await keys.at(f"http://two.example:{endpoint.port}{PATH}", "P-256")) == ["P-256"]


async def test_what_was_fetched_for_the_operator_is_not_given_to_an_agents_address(
    endpoint: Endpoint, clock: FakeClock
) -> None:
    uri = endpoint.url + PATH
    subjects = SubjectSettings(issuer="https://id.example.com", jwks_uri=uri)
    async with HttpKeys(OnbeSettings(subjects=subjects), clock) as keys:
        assert kids(await keys.of_issuer("https://id.example.com", "P-256")) == ["P-256"]
        await refused(keys, uri)
    assert len(endpoint.asked) == 1


async def test_proxies_of_the_environment_are_not_used(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with HttpKeys(DEVELOPMENT, clock) as made:
        assert kids(await made.at(endpoint.url + PATH, "P-256")) == ["P-256"]


async def test_a_certificate_is_checked_for_the_name_and_not_for_the_address(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = certificate(tmp_path, "agent.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(good.ca))
    names = Names(agent_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]], **{"127.0.0.1": [["127.0.0.1"]]})
    served = serving_tls(good, {"keys": [public("P-256")]})
    async with served as port, HttpKeys(DEVELOPMENT, clock, names) as keys:
        assert kids(await keys.at(f"https://agent.example:{port}/jwks", "P-256")) == ["P-256"]
        assert "the connection failed" in await refused(keys, f"https://other.example:{port}/jwks")
        assert "the connection failed" in await refused(keys, f"https://127.0.0.1:{port}/jwks")


@pytest.mark.parametrize("address", [
    "8.8.8.8", "192.0.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "2001:4860::1",
])  # fmt: skip
def test_an_address_of_the_open_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


# Discovery


@pytest.mark.parametrize("said", [
    "{url}/", "{url}/realms", "https://evil.example", "", None, 1, ["{url}"],
])  # fmt: skip
async def test_a_discovery_document_is_the_issuers_own_or_not_taken(
    endpoint: Endpoint, keys: HttpKeys, said: Any
) -> None:
    issuer = said.format(url=endpoint.url) if isinstance(said, str) else said
    document = {"issuer": issuer, "jwks_uri": endpoint.url + PATH}
    endpoint.says("/.well-known/openid-configuration", document)
    with pytest.raises(KeysUnavailable, match="another issuer's"):
        await keys.of_issuer(endpoint.url, "P-256")
    assert PATH not in endpoint.asked


@pytest.mark.parametrize("uri", [None, 1, "", "ftp://h/", "http://id.example.com/jwks", "file:///etc/passwd", "/jwks"])
async def test_a_discovery_document_leads_to_keys_by_https_or_not_at_all(
    endpoint: Endpoint, keys: HttpKeys, uri: Any
) -> None:
    endpoint.says("/.well-known/openid-configuration", {"issuer": endpoint.url, "jwks_uri": uri})
    with pytest.raises(KeysUnavailable):
        await keys.of_issuer(endpoint.url, "P-256")
    assert endpoint.asked == ["/.well-known/openid-configuration"]


async def test_discovery_is_asked_once_for_many_and_its_keys_too(endpoint: Endpoint, keys: HttpKeys) -> None:
    document = {"issuer": endpoint.url, "jwks_uri": endpoint.url + PATH}
    endpoint.says("/.well-known/openid-configuration", document)
    found = await asyncio.gather(*(keys.of_issuer(endpoint.url, "P-256") for _ in range(100)))
    assert [kids(one) for one in found] == [["P-256"]] * 100
    assert sorted(endpoint.asked) == ["/.well-known/openid-configuration", PATH]
