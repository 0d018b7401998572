"""An agent that knows every bypass reaches nothing but what its allowlist names."""

from __future__ import annotations

import pytest

from tests import host
from tests.e2e.conftest import ALLOWED, EVIL, ORIGIN, fetch_status

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def connects(sandbox, address, port, *, as_root=False):
    """Whether a TCP connection from the agent's namespace opens within two seconds."""
    code = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)\n"
        "s.settimeout(2)\n"
        "sys.exit(0 if s.connect_ex((sys.argv[1],int(sys.argv[2])))==0 else 1)"
    )
    args = ["python3", "-c", code, address, str(port)]
    if as_root:
        return sandbox.in_agent_network(*args, check=False).code == 0
    return sandbox.exec(args).code == 0


def test_net_1_no_origin_is_reached_past_the_proxy(sandbox_up, world):
    """NET-1: knowing an address is not enough, even an allowed one's, on any port."""
    assert fetch_status(sandbox_up, f"http://{ALLOWED}/") == "200"  # control: the origin serves
    world.clear_records()
    for address in (ORIGIN, EVIL):
        for port in (80, 443, 22, 53):
            assert not connects(sandbox_up, address, port)
            assert not connects(sandbox_up, address, port, as_root=True)
    assert [world.attempts(address) for address in (ORIGIN, EVIL)] == [[], []]


def test_net_2_the_gateway_serves_two_ports_and_no_more(sandbox_up):
    """NET-2: DNS over UDP and the proxy; every other port of the gateway refuses."""
    assert connects(sandbox_up, sandbox_up.gateway, sandbox_up.proxy_port)  # control
    for port in (22, 53, 80, 443, 953, 8081, 9901, 9902, 10000, 15000):
        assert not connects(sandbox_up, sandbox_up.gateway, port)


def test_net_3_the_host_is_out_of_reach(sandbox_up):
    """NET-3: none of the host's addresses answers, though it listens on all of them."""
    listener = host.spawn(["python3", "-m", "http.server", "18999", "--bind", "0.0.0.0"])
    try:
        host.wait_until(
            lambda: (
                host.run(
                    ["curl", "-s", "-o", "/dev/null", "http://127.0.0.1:18999/"], check=False
                ).code
                == 0
            ),
            timeout_s=10,
            describe=lambda: "the listener on the host",
        )
        own = host.run(["hostname", "-I"]).stdout.split()
        assert sandbox_up.host_address in own  # control: it is one of those that listen
        for address in own:
            if ":" not in address:
                assert not connects(sandbox_up, address, 18999), address
                assert not connects(sandbox_up, address, 18999, as_root=True), address
    finally:
        host.end(listener)


def test_net_4_two_sandboxes_do_not_see_each_other(sandbox_up, make_sandbox):
    """NET-4: neither the other's agent nor its gateway answers."""
    other = make_sandbox("n")
    other.up({"allow": [ALLOWED]})
    try:
        assert connects(other, other.gateway, other.proxy_port)  # control: it serves its own
        for port in (other.proxy_port, 53, 22):
            assert not connects(sandbox_up, other.gateway, port, as_root=True)
            assert not connects(sandbox_up, other.agent_address, port, as_root=True)
    finally:
        other.down()


def test_net_5_without_the_table_there_is_still_no_way_out(sandbox_up, world):
    """NET-5: layer 3 alone holds: without the table and past the engine, nothing leaves."""
    assert fetch_status(sandbox_up, f"http://{ALLOWED}/") == "200"  # control
    world.clear_records()
    past_the_engine = ["DOCKER-USER", "-i", sandbox_up.bridge, "-j", "ACCEPT"]
    host.run(["iptables", "-I", *past_the_engine])
    host.run(["nft", "delete", "table", "inet", sandbox_up.table])
    try:
        for address in (ORIGIN, EVIL):
            assert not connects(sandbox_up, address, 80, as_root=True)
        assert [world.attempts(address) for address in (ORIGIN, EVIL)] == [[], []]
        # Control: what holds is the bridge's own setting, since nothing else is left.
        host.run(["sysctl", "-w", f"net.ipv4.conf.{sandbox_up.bridge}.forwarding=1"])
        connects(sandbox_up, ORIGIN, 80, as_root=True)
        assert world.attempts(ORIGIN)  # one way: nobody masquerades it
    finally:
        host.run(["iptables", "-D", *past_the_engine])
        sandbox_up.stack.up()
        sandbox_up.attach()
    assert fetch_status(sandbox_up, f"http://{ALLOWED}/") == "200"


def test_net_6_a_proxy_that_lets_everything_through_is_held_by_the_table(sandbox_up, world):
    """NET-6: layer 2 alone holds: a process in the pod reaches no address off the list."""
    world.origin(at="10.0.0.5:80", speaks="http")
    code = (
        "import socket,sys\n"
        "s=socket.socket(); s.settimeout(2)\n"
        "sys.exit(0 if s.connect_ex((sys.argv[1],int(sys.argv[2])))==0 else 1)"
    )

    def from_pod(address, port):
        args = ["python3", "-c", code, address, str(port)]
        enter = ["nsenter", f"--net=/proc/{sandbox_up.pid('pause')}/ns/net", "--"]
        return host.run([*enter, *args], check=False).code == 0

    assert from_pod(ORIGIN, 80)  # control: the pod has a way to what is allowed
    for address, port in (("10.0.0.5", 80), (ORIGIN, 25), ("169.254.169.254", 80)):
        assert not from_pod(address, port)
    own = host.run(["hostname", "-I"]).stdout.split()
    for address in own:
        if ":" not in address:
            assert not from_pod(address, 22), address


def test_dns_2_no_resolver_in_sight_answers_a_denied_name(sandbox_up, world):
    """DNS-2: neither the engine's resolver nor the gateway's asks anyone about it."""
    code = "import socket,sys\ntry: socket.getaddrinfo(sys.argv[1],80)\nexcept OSError: sys.exit(1)"
    assert sandbox_up.exec(["python3", "-c", code, ALLOWED]).code == 0  # control
    world.clear_records()
    assert sandbox_up.exec(["python3", "-c", code, "secret.evil.test"]).code == 1
    assert world.dns.queries("evil.test") == 0


def test_agent_1_the_container_has_no_rights_to_lose(sandbox_up):
    """AGENT-1: no capabilities, no new privileges, a read-only root, bounded processes."""
    status = sandbox_up.exec(["cat", "/proc/self/status"]).stdout
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert sandbox_up.exec(["touch", "/usr/bin/x"]).code != 0
    own = ["/workspace/x", "/home/agent/x", "/tmp/x"]  # noqa: S108  # in the agent
    assert sandbox_up.exec(["touch", *own]).code == 0
    limits = sandbox_up.inspect(sandbox_up.facts.agent_container)["HostConfig"]
    assert limits["PidsLimit"] == 256
    assert limits["Memory"] == limits["MemorySwap"] == 1024 * 2**20


def test_agent_2_no_socket_family_leads_past_the_rules(sandbox_up):
    """AGENT-2: packet, vsock and raw sockets can't be opened; TCP can."""
    code = (
        "import socket,sys\n"
        "f,t=map(int,sys.argv[1:])\n"
        "try: socket.socket(f,t)\n"
        "except OSError: sys.exit(1)"
    )
    assert sandbox_up.exec(["python3", "-c", code, "2", "1"]).code == 0  # control
    for family, kind in ((17, 3), (40, 1), (2, 3), (16, 3), (38, 5)):
        # Netlink shows a process the addresses of its own namespace, and tools need it.
        expected = 0 if (family, kind) == (16, 3) else 1
        assert sandbox_up.exec(["python3", "-c", code, str(family), str(kind)]).code == expected


def test_state_1_no_private_key_stands_in_the_clear(sandbox_up):
    """STATE-1: stored state, outputs, engine and agent hold no private key."""
    line = sandbox_up.authority["key"].splitlines()[1]
    assert len(line) > 40  # control: it is a line of a key
    assert line not in sandbox_up.stack.export().stdout
    assert "PRIVATE KEY" not in sandbox_up.stack.export().stdout
    for role in ("control", "dns", "proxy", "pause"):
        name = sandbox_up.facts.container(role)
        assert line not in host.run(["docker", "inspect", name]).stdout
    assert sandbox_up.exec(["grep", "-rlFs", line, "/etc", "/home", "/workspace"]).stdout == ""
