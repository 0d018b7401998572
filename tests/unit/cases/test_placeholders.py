"""Addresses and placeholders are turned into what a packet or an error shows."""

from __future__ import annotations

import pytest

from tests.cases import mapping
from tests.cases.placeholders import link_local
from tests.cases.settings_layer import names_setting, refusal_of
from tests.world.world import bare


def test_link_local_address_comes_from_the_hardware_address() -> None:
    assert link_local("02:42:0a:0a:00:02") == "fe80::42:aff:fe0a:2"


@pytest.mark.parametrize(
    ("address", "forms"),
    [
        ("127.0.0.1", {"127.0.0.1"}),
        ("::ffff:127.0.0.1", {"::ffff:7f00:1", "127.0.0.1"}),
        ("::7f00:1", {"::7f00:1", "127.0.0.1"}),
        ("::1", {"::1"}),
        ("[2001:db8::1]", {"2001:db8::1"}),
        ("fe80::1%eth0", {"fe80::1"}),
    ],
)
def test_an_address_is_looked_for_in_every_form(address: str, forms: set[str]) -> None:
    assert {form.replace("::ffff:127.0.0.1", "::ffff:7f00:1") for form in bare(address)} == forms


def test_the_mapping_knows_the_words_of_the_cases() -> None:
    given = {"mitm": False, "dns_upstreams": ["198.51.100.53"], "mounts": [], "dns": {}}
    assert mapping.settings_of_given(given) == {
        "tls_interception": False,
        "upstream_dns": ["198.51.100.53"],
        "agent": {"mounts": []},
    }


def test_settings_that_nobody_named_are_valid() -> None:
    assert refusal_of({}) == ""
    assert "proxy_port" in refusal_of({"proxy_port": 0})


def test_an_error_may_name_the_setting_in_either_word() -> None:
    assert names_setting("abox:sandbox.tls_interception: 7 is refused", "mitm")
    assert not names_setting("abox:sandbox.allow: 7 is refused", "mitm")
