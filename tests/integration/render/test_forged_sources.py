"""Frames under a false address: nothing is remembered of them, and nobody is sent an answer."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator

import pytest

from cli.frames import checksum, ethernet, ipv4, udp
from tests import host
from tests.integration.render.firewall_lab import SPEC, Lab, laboratory
from tests.integration.render.frames import PROGRAM

pytestmark = pytest.mark.integration

AGENT, HOST = str(SPEC.agent), str(SPEC.host)
STRANGER, ELSEWHERE = "198.51.100.10", "11.0.0.10"
BROADCAST = "ff:ff:ff:ff:ff:ff"

SEND = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.cases.probe.sockets import send_frame
for action in json.loads(sys.argv[2]):
    send_frame(action)
"""
ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind((sys.argv[1], 5300))
    sock.sendto(b"x", (sys.argv[2], 4000))
"""
TO_HOST = f"""table inet counted {{
  counter found {{ }}
  chain input {{
    type filter hook input priority 310; policy accept;
    iifname "{SPEC.bridge}" meta l4proto udp counter name found
  }}
}}
"""
EXPIRED = """table inet counted {
  counter found { }
  chain input {
    type filter hook prerouting priority -290; policy accept;
    icmp type time-exceeded counter name found
  }
}
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    with laboratory() as made:
        made.inside("host", "nft", "-f", "-", text=TO_HOST)
        made.inside("world", "nft", "-f", "-", text=EXPIRED)
        made.load(SPEC)
        yield made


def counted(lab: Lab, role: str, table: str = "counted") -> int:
    """Packets of a table's counter in a namespace."""
    listed = lab.inside(role, "nft", "-j", "list", "counters", "table", "inet", table).stdout
    entries = json.loads(listed)["nftables"]
    return sum(entry["counter"]["packets"] for entry in entries if "counter" in entry)


def mac(lab: Lab, role: str, device: str) -> str:
    """Hardware address of a device."""
    return str(
        json.loads(lab.inside(role, "ip", "-j", "link", "show", device).stdout)[0]["address"]
    )


def send(lab: Lab, *actions: dict[str, object]) -> None:
    """Frames of the agent, one after the other."""
    own = mac(lab, "agent", "eth0")
    usual = {"device": "eth0", "src_mac": own, "next_mac": BROADCAST, "proto": "udp"}
    full = json.dumps([usual | action for action in actions])
    lab.inside("agent", sys.executable, "-c", SEND, str(host.ROOT), full)


def test_a_forged_question_of_the_host_opens_no_way_for_the_answer(lab: Lab) -> None:
    """A broadcast in the host's name, then its "answer": the host gets neither."""
    answer = {"src_ip": AGENT, "to": HOST, "src_port": 4000, "port": 5300,
              "next_mac": mac(lab, "host", SPEC.bridge)}  # fmt: skip
    question = {"src_ip": HOST, "to": AGENT, "src_port": 5300, "port": 4000}
    for _ in range(3):
        send(lab, question, answer)
    assert counted(lab, "host") == 0
    lab.inside("host", sys.executable, "-c", ASK, HOST, AGENT)
    send(lab, answer)
    assert counted(lab, "host") == 1  # control: a question that the host did ask is answered


def unreachable(source: str, to: str, about: bytes) -> bytes:
    """An ICMP error (RFC 792) about a packet."""
    body = struct.pack("!HHI", 3 << 8 | 1, 0, 0) + about
    return ipv4(source, to, 1, body[:2] + struct.pack("!H", checksum(body)) + body[4:])


def test_what_the_agent_began_itself_makes_no_answer_of_its_errors(lab: Lab) -> None:
    """A broadcast is remembered though it is dropped; an error about it is still no answer."""
    own, to_host = mac(lab, "agent", "eth0"), mac(lab, "host", SPEC.bridge)
    begun = ethernet(own, BROADCAST, 0x0800, ipv4(AGENT, HOST, 17, udp(5300, 4000, b"xx")))
    about = ipv4(HOST, AGENT, 17, udp(4000, 5300, b"xx"))
    error = ethernet(own, to_host, 0x0800, unreachable(AGENT, HOST, about))
    errors = TO_HOST.replace("meta l4proto udp", "meta l4proto icmp").replace("counted", "errors")
    lab.inside("host", "nft", "-f", "-", text=errors)

    for _ in range(3):
        lab.inside("agent", *PROGRAM, "send", "eth0", begun.hex(), error.hex())
    assert counted(lab, "host", "errors") == 0
    lab.inside("host", sys.executable, "-c", ASK.replace("5300", "4000", 1), HOST, AGENT)
    asked = ipv4(HOST, AGENT, 17, udp(4000, 4000, b"x "))
    answer = ethernet(own, to_host, 0x0800, unreachable(AGENT, HOST, asked))
    lab.inside("agent", *PROGRAM, "send", "eth0", answer.hex())
    assert counted(lab, "host", "errors") > 0  # control: an error about what the host did send


def test_a_packet_that_dies_on_the_way_is_not_reported_to_a_stranger(lab: Lab) -> None:
    """The host tells nobody of a packet that merely claims to come from him."""
    dying = {"src_ip": STRANGER, "to": ELSEWHERE, "port": 443, "ttl": 1,
             "next_mac": mac(lab, "host", SPEC.bridge)}  # fmt: skip
    send(lab, dying)
    assert counted(lab, "world") == 0
    for chain in ("sources", "beyond"):  # the second ends such packets too, with its own answer
        lab.inside("host", "nft", "flush", "chain", "inet", SPEC.table, chain)
    send(lab, dying)
    host.wait_until(
        lambda: counted(lab, "world") == 1,  # control: it is the table that keeps it
        timeout_s=5,
        describe=lambda: f"{counted(lab, 'world')} reports",
    )


def kept_fragments(lab: Lab) -> int:
    """Packets that the host waits for the rest of."""
    listed = lab.inside("host", "cat", "/proc/net/sockstat").stdout
    return int(next(line.split()[2] for line in listed.splitlines() if line.startswith("FRAG")))


def test_a_fragment_that_stays_alone_is_not_reported_to_a_stranger(lab: Lab) -> None:
    """The host doesn't keep a piece of a packet, nor tell whom it claims to come from."""
    lab.inside("host", "sysctl", "-qw", "net.ipv4.ipfrag_time=2")
    piece = {"src_ip": STRANGER, "to": HOST, "port": 443, "fragment": True,
             "next_mac": mac(lab, "host", SPEC.bridge)}  # fmt: skip
    send(lab, piece)
    lab.inside("host", "nft", "flush", "chain", "inet", SPEC.table, "sources")
    send(lab, piece | {"proto": "tcp"})
    assert kept_fragments(lab) == 1  # control: the later one, which nothing dropped
    host.wait_until(
        lambda: kept_fragments(lab) == 0,
        timeout_s=20,
        describe=lambda: f"{kept_fragments(lab)} kept",
    )
    host.wait_until(
        lambda: counted(lab, "world") > 0,
        timeout_s=5,
        describe=lambda: f"{counted(lab, 'world')} reports",
    )
    assert counted(lab, "world") == 1
