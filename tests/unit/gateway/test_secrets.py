"""The stream to Envoy: certificates for allowed names, none for others, new ones for a new CA."""

from __future__ import annotations

import asyncio

import pytest

from gateway.authority import Authority
from gateway.secrets import SecretService
from tests.integration.gateway.authority import make_authority


def authority() -> Authority:
    return Authority.from_pem(*(text.encode() for text in make_authority()))


def request(*names: str) -> bytes:
    return b"".join(bytes([0x1A, len(name)]) + name.encode() for name in names)


async def talk(service: SecretService, *, then=lambda: None, answers: int) -> list[bytes]:
    sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def requests():
        while True:
            yield await sent.get()

    await sent.put(request("allowed.test", "evil.test"))
    stream = service.stream(requests(), None)
    found = [await asyncio.wait_for(anext(stream), 5)]
    while len(found) < answers:
        following = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.05)  # the stream waits for what comes next
        then()
        found.append(await asyncio.wait_for(following, 5))
    return found


def test_only_names_that_may_be_minted_get_a_certificate():
    service = SecretService(may_mint=lambda name: name == "allowed.test")
    service.replace_authority(authority())
    (answer,) = asyncio.run(talk(service, answers=1))
    assert answer.count(b"BEGIN PRIVATE KEY") == 1
    assert b"\x32\x09evil.test" in answer


def test_a_new_authority_renews_what_was_handed_out():
    service = SecretService(may_mint=lambda name: name == "allowed.test")
    service.replace_authority(authority())
    again = authority()
    first, second = asyncio.run(
        talk(service, then=lambda: service.replace_authority(again), answers=2)
    )
    assert first.count(b"BEGIN CERTIFICATE") == second.count(b"BEGIN CERTIFICATE") == 2
    assert first != second


def test_without_an_authority_nobody_is_answered():
    service = SecretService(may_mint=lambda _name: True)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(talk(service, answers=1), 0.3))
