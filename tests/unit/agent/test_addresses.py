"""Which barred addresses the host's own settings may open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift_agent.addresses import barred, reachable


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
