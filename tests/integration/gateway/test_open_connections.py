"""What a change of the policy takes away is closed at once; everything else goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cryptography import x509

from abox.gates import WILDCARD_BITS, part_of
from tests.integration.gateway.conftest import Gateway
from tests.integration.gateway.open_connections import (
    Download,
    Http2Stream,
    Open,
    Tunnel,
    Upload,
    WebSocket,
    head_of,
    tunnel,
)

pytestmark = pytest.mark.integration

CLOSED_S = 5
"""Seconds after which a connection that lost its permission must have ended."""

Opener = Callable[[tuple[str, int], str], Open]
KINDS: dict[str, Opener] = {
    "tunnel": Tunnel,
    "passed": Tunnel,
    "wss": lambda proxy, name: WebSocket(proxy, name, plain=False),
    "ws": lambda proxy, name: WebSocket(proxy, name, plain=True),
    "slow": Http2Stream,
    "download": Download,
    "upload": Upload,
}
"""What can stay open; the key is the first label of its names."""

SLOW = {"bytes": 300, "drip_s": 300}
ORIGINS = {"tunnel": "198.51.100.81", "passed": "198.51.100.81", "ws": "198.51.100.82",
           "wss": "198.51.100.82", "slow": "198.51.100.83", "download": "198.51.100.83",
           "upload": "198.51.100.81"}  # fmt: skip


def names(which: str) -> list[str]:
    """A name of every kind."""
    return [f"{kind}.{which}.test" for kind in KINDS]


def entry(name: str) -> object:
    """How a name is allowed: one kind passes TLS unseen."""
    return {"host": name, "tls": "passthrough"} if name.startswith("passed") else name


class Client:
    """Opens connections through a proxy, and ends what is left of them."""

    def __init__(self, proxy: tuple[str, int]) -> None:
        self.proxy = proxy
        self._opened: list[Open] = []

    def open(self, name: str, make: Opener = Tunnel) -> Open:
        """A working connection."""
        opened = make(self.proxy, name)
        self._opened.append(opened)
        assert opened.works(), name
        return opened

    def open_all(self, which: str) -> dict[str, Open]:
        """A working connection of every kind."""
        return {kind: self.open(f"{kind}.{which}.test", make) for kind, make in KINDS.items()}

    def close(self) -> None:
        """End all of them."""
        for opened in self._opened:
            opened.close()


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Client]:
    """A client of the proxy, in a world with origins for every kind."""
    every = [*names("gone"), *names("kept"), *names("c.wild"), *names("a.wild")]
    gateway.world.dns.set({name: [ORIGINS[name.split(".")[0]]] for name in every})
    for number, speaks in ((81, ("http", "https")), (82, ("websocket-echo",) * 2),
                           (83, ("http", "https"))):  # fmt: skip
        answer = SLOW if number == 83 else None
        address = f"198.51.100.{number}"
        gateway.world.origin(at=f"{address}:80", speaks=speaks[0], answer=answer)
        gateway.world.origin(
            at=f"{address}:443", speaks=speaks[1], answer=answer, cert={"names": every}
        )
    gateway.world.origin(at="198.51.100.81:8443", speaks="https", cert={"names": every})
    found = Client((gateway.pod.gateway, gateway.pod.proxy_port))
    yield found
    found.close()


def ended(opened: dict[str, Open]) -> dict[str, bool]:
    """Which connections have ended, each within the time."""
    return {kind: one.ends_within(CLOSED_S) for kind, one in opened.items()}


def working(opened: dict[str, Open]) -> dict[str, bool]:
    """Which connections still work."""
    return {kind: one.works() for kind, one in opened.items()}


ALL = dict.fromkeys(KINDS, True)


def test_live_6_open_connections_of_a_removed_name_are_closed_and_no_others(
    gateway: Gateway, client: Client
):
    gateway.apply([entry(name) for name in (*names("gone"), *names("kept"))])
    gone, kept = client.open_all("gone"), client.open_all("kept")
    gateway.apply([entry(name) for name in names("kept")])
    assert ended(gone) == ALL
    assert working(kept) == ALL
    assert working(kept) == ALL
    upload = kept["upload"]
    assert isinstance(upload, Upload)
    assert b" 200 " in upload.finish()


def test_live_7_a_name_denied_below_a_wildcard_is_closed_and_its_sibling_goes_on(
    gateway: Gateway, client: Client
):
    allow: list[object] = ["*.a.wild.test", "*.c.wild.test", "*.wild.test"]
    gateway.apply(allow)
    parts = {part_of(f"{which}.wild.test")[:WILDCARD_BITS] for which in ("tunnel.a", "tunnel.c")}
    assert len(parts) == 2  # else they would share a chain
    names_ = {which: f"tunnel.{which}.wild.test" for which in ("a", "c")}
    gone, kept = (client.open(names_[which]) for which in ("a", "c"))
    gateway.apply(allow, deny=[names_["a"]])
    assert gone.ends_within(CLOSED_S)
    assert kept.works()


def test_live_8_a_narrower_entry_closes_what_it_no_longer_allows(gateway: Gateway, client: Client):
    host = "tunnel.kept.test"
    gateway.apply([{"host": host, "ports": [443, 8443]}])
    usual = client.open(host)
    other = client.open(host, lambda proxy, name: Tunnel(proxy, name, 8443))
    gateway.apply([{"host": host, "ports": [443]}])
    assert other.ends_within(CLOSED_S)
    assert usual.works()
    gateway.apply([{"host": host, "ports": [443], "methods": ["GET"]}])
    assert usual.ends_within(CLOSED_S)
    seen = client.open(host)
    gateway.apply([{"host": host, "ports": [443], "tls": "passthrough"}])
    assert seen.ends_within(CLOSED_S)
    passed = client.open(host)
    gateway.apply([{"host": host, "ports": [443]}], mode="passive")
    assert passed.ends_within(CLOSED_S)


def test_live_9_an_addition_closes_nothing(gateway: Gateway, client: Client):
    kept_names = [entry(name) for name in names("kept")]
    gateway.apply(kept_names)
    kept = client.open_all("kept")
    wider = [*kept_names, "other.test", "*.kept.test"]
    gateway.apply(wider)
    gateway.apply(wider, allow_private_cidrs=["198.51.100.0/24", "2001:db8::/32", "10.9.0.0/24"])
    gateway.apply(kept_names, allow_private_cidrs=["198.51.0.0/16", "2001:db8::/32", "10.9.0.0/24"])
    assert working(kept) == ALL


def test_live_10_a_network_that_is_taken_away_closes_what_may_lead_there(
    gateway: Gateway, client: Client
):
    gateway.apply(["tunnel.kept.test"])
    lost = client.open("tunnel.kept.test")
    gateway.apply(["tunnel.kept.test"], allow_private_cidrs=["2001:db8::/32"])
    assert lost.ends_within(CLOSED_S)


def test_live_11_an_answer_that_ends_with_its_connection_arrives_whole(
    gateway: Gateway, client: Client
):
    """Inside Envoy an ordinary end looks like a reset by default, and the last bytes are lost."""
    size = 600_000
    gateway.world.origin(at="198.51.100.84:80", speaks="http", answer={"bytes": size})
    gateway.world.origin(
        at="198.51.100.84:443", speaks="https", answer={"bytes": size},
        cert={"names": ["seen.wild.test", "passed.wild.test"]},
    )  # fmt: skip
    gateway.world.dns.set({f"{how}.wild.test": ["198.51.100.84"] for how in ("seen", "passed")})
    gateway.apply(["seen.wild.test", {"host": "passed.wild.test", "tls": "passthrough"}])
    for name in ("seen.wild.test", "passed.wild.test"):
        for _ in range(3):
            stream = tunnel(client.proxy, name)
            stream.send(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            data = head_of(stream).partition(b"\r\n\r\n")[2]
            while more := stream.recv(20):
                data += more
            assert len(data) == size
            stream.close()


def test_live_12_another_injection_closes_what_was_sent_without_it(
    gateway: Gateway, client: Client
):
    name, other = "wss.gone.test", "wss.kept.test"
    keyed = {"host": name, "inject": {"header": "Authorization", "secret": "key"}}

    def apply(*allow: object, value: str = "first") -> None:
        secrets = {"key": value} if keyed in allow else {}
        gateway.apply([*allow, other], secrets=secrets)

    apply(name)
    plain, kept = client.open(name, KINDS["wss"]), client.open(other, KINDS["wss"])
    apply(keyed)
    assert plain.ends_within(CLOSED_S)
    injected = client.open(name, KINDS["wss"])
    apply(keyed, value="second")
    apply(keyed, "other.test", value="second")
    assert injected.works()
    apply(name)
    assert injected.ends_within(CLOSED_S)
    assert kept.works()


def test_tls_6_an_entry_passes_tls_unseen_and_is_judged_by_its_names_and_address(gateway: Gateway):
    passed = [{"host": host, "tls": "passthrough"} for host in ("pin.wild.test", "in.wild.test")]
    wide = {"host": "*.pin.test", "tls": "passthrough"}
    gateway.apply(["*.wild.test", *passed, wide, "seen.pin.test"])
    unseen = {
        "pin.wild.test": True,
        "b.wild.test": False,
        "x.pin.test": True,
        "seen.pin.test": False,
    }
    gateway.world.dns.set(
        {name: ["198.51.100.20"] for name in unseen} | {"in.wild.test": ["10.0.0.5"]}
    )
    own = gateway.pod.authority[0]
    for name, expected in unseen.items():
        answer = gateway.get(f"https://{name}/")
        assert answer["chain"], answer
        assert _signed_by(answer["chain"][0], own) is not expected, name
    gateway.world.clear_records()
    for other in ("evil.test", "b.wild.test", None):
        assert gateway.get("https://pin.wild.test/", sni=other)["status"] == "closed"
    assert gateway.world.server_names() == []
    assert gateway.get("https://in.wild.test/")["status"] == 403
    assert not gateway.reached("10.0.0.5")


def _signed_by(leaf: str, authority: str) -> bool:
    """Whether a certificate, DER in hex, names an authority, PEM, as its issuer."""
    signed = x509.load_der_x509_certificate(bytes.fromhex(leaf))
    return signed.issuer == x509.load_pem_x509_certificate(authority.encode()).subject
