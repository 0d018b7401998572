"""The stream to Envoy: certificates for allowed names, none for others, new ones for a new CA."""

from __future__ import annotations

import asyncio

import pytest

from gateway.authority import Authority
from gateway.secrets import SecretService
from gateway.serve import Certificates
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


def minting(name="allowed.test", authority=None) -> tuple[Certificates, SecretService]:
    certificates = Certificates(lambda asked: asked == name, authority)
    return certificates, SecretService(certificates.find, ready=authority is not None)


def test_only_names_that_may_be_minted_get_a_certificate():
    _, service = minting(authority=authority())
    (answer,) = asyncio.run(talk(service, answers=1))
    assert answer.count(b"BEGIN PRIVATE KEY") == 1
    assert b"\x32\x09evil.test" in answer


def replacing(certificates: Certificates, service: SecretService):
    def replace() -> None:
        certificates.authority = authority()
        service.renew()

    return replace


def test_a_new_authority_renews_what_was_handed_out():
    certificates, service = minting(authority=authority())
    replace = replacing(certificates, service)
    first, second = asyncio.run(talk(service, then=replace, answers=2))
    assert first.count(b"BEGIN CERTIFICATE") == second.count(b"BEGIN CERTIFICATE") == 2
    assert first != second


def test_an_authority_that_is_replaced_while_an_answer_is_on_its_way_is_not_missed():
    certificates, service = minting(authority=authority())

    async def replaced_in_between() -> tuple[bytes, bytes]:
        async def requests():
            yield request("allowed.test")
            await asyncio.sleep(60)

        stream = service.stream(requests(), None)
        first = await anext(stream)
        replacing(certificates, service)()  # the stream stands at its answer, not at its wait
        return first, await asyncio.wait_for(anext(stream), 5)

    first, second = asyncio.run(replaced_in_between())
    assert first != second
    assert second.count(b"BEGIN CERTIFICATE") == 2


def test_the_stream_that_holds_longest_lets_go_when_there_are_too_many():
    certificates = Certificates(lambda _: True, authority())
    service = SecretService(certificates.find, held_max=2)
    names = ["a.test", "b.test", "c.test"]

    async def asked_one_after_the_other() -> list[bytes]:
        async def requests(name: str):
            yield request(name)
            await asyncio.sleep(60)

        streams = [service.stream(requests(name), None) for name in names]
        firsts = [await anext(stream) for stream in streams]
        assert [first.count(b"BEGIN PRIVATE KEY") for first in firsts] == [1, 1, 1]
        others = [asyncio.ensure_future(anext(stream)) for stream in streams[1:]]
        dropped = await asyncio.wait_for(anext(streams[0]), 5)
        await asyncio.sleep(0.05)
        assert not any(other.done() for other in others)
        for other in others:
            other.cancel()
        return [dropped]

    (dropped,) = asyncio.run(asked_one_after_the_other())
    assert b"\x32\x06a.test" in dropped
    assert b"BEGIN" not in dropped


def test_without_an_authority_nobody_is_answered():
    _, service = minting()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(talk(service, answers=1), 0.3))


def test_who_asked_before_there_was_an_authority_is_answered_then():
    certificates, service = minting()

    async def asked_early() -> bytes:
        async def requests():
            yield request("allowed.test")
            await asyncio.sleep(60)

        first = asyncio.ensure_future(anext(service.stream(requests(), None)))
        await asyncio.sleep(0.05)
        certificates.authority, service.ready = authority(), True
        service.renew()
        return await asyncio.wait_for(first, 5)

    assert asyncio.run(asked_early()).count(b"BEGIN CERTIFICATE") == 2
