"""Which barred addresses the host's own settings may open, which are its own, and the filter made of them."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift_agent.addresses import BARRED_4, BARRED_6, barred, is_own, own, reachable
from rift_agent.walls import ruleset


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.4.5", "203.0.113.80", "fd00::7", "::ffff:10.1.2.3"])
def test_a_private_or_reserved_address_opens_with_its_network_alone(address: str) -> None:
    assert not reachable(address, [])
    assert not reachable(address, ["172.16.0.0/12"])
    assert reachable(address, ["10.1.0.0/16", "192.168.0.0/16", "203.0.113.0/24", "fd00::/8", "::ffff:0:0/96"])


@given(st.sampled_from(["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::"]))
def test_loopback_and_metadata_stay_barred_whatever_the_settings_say(address: str) -> None:
    assert barred(address)
    assert not reachable(address, ["0.0.0.0/0", "::/0"])


def test_what_is_no_address_opens_nothing() -> None:
    assert not reachable("not an address", ["0.0.0.0/0"])


def test_the_hosts_own_addresses_are_known_whichever_form_they_come_in() -> None:
    ours = own()
    for address in ("127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "64:ff9b::7f00:1"):
        assert is_own(address, ours)
    for address in ("8.8.8.8", "2600::1", "::ffff:8.8.8.8"):
        assert not is_own(address, ours)


def test_the_filter_of_an_open_network_closes_what_the_proxy_refuses_and_the_host() -> None:
    """Each network of the proxy's table stands in it, an address of the host before what the settings open."""
    rules = ruleset([IPv4Network("44.3.2.1/32")], ["10.1.0.0/16", "10.1.2.0/24"])
    never, opened, closed = (
        rules.index(text) for text in ("44.3.2.1/32", "{ 10.1.0.0/16 } accept", "10.0.0.0/8, 100.64.0.0/10")
    )
    assert never < opened < closed
    tables = [*collapse_addresses(one for one, _ in BARRED_4), *collapse_addresses(one for one, _ in BARRED_6)]
    assert all(str(network) in rules[closed:] for network in tables)
    assert "policy drop" in rules
