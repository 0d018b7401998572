"""What happens to a live sandbox outside of Pulumi is seen by a preview and repaired by `up`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import host
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import fetch_status

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Tamper = Callable[[Sandbox], None]


def docker(*args: str) -> str:
    return host.run(["docker", *args]).stdout.strip()


def agent_stopped(sandbox: Sandbox) -> None:
    docker("stop", "-t", "0", sandbox.facts.agent_container)


def agent_removed(sandbox: Sandbox) -> None:
    docker("rm", "-f", sandbox.facts.agent_container)


def agent_made_again_by_hand(sandbox: Sandbox) -> None:
    name = sandbox.facts.agent_container
    image = sandbox.inspect(name)["Image"]
    network = next(iter(sandbox.inspect(name)["NetworkSettings"]["Networks"]))
    docker("rm", "-f", name)
    docker(
        *("run", "-d", "--name", name, "--network", network, "--ip", sandbox.agent_address),
        *("--label", f"abox.sandbox={sandbox.name}", "--label", "abox.role=agent"),
        *(image, "sleep", "600"),
    )


def agent_paused(sandbox: Sandbox) -> None:
    docker("pause", sandbox.facts.agent_container)


def agent_on_a_second_network(sandbox: Sandbox) -> None:
    docker("network", "connect", "bridge", sandbox.facts.agent_container)


def agent_off_its_network(sandbox: Sandbox) -> None:
    name = sandbox.facts.agent_container
    network = next(iter(sandbox.inspect(name)["NetworkSettings"]["Networks"]))
    docker("network", "disconnect", network, name)


def agent_without_pids_limit(sandbox: Sandbox) -> None:
    docker("update", "--pids-limit", "-1", sandbox.facts.agent_container)


def rule_deleted(sandbox: Sandbox) -> None:
    listed = host.run(["nft", "-a", "list", "table", "inet", sandbox.table]).stdout
    chain = ""
    for line in listed.splitlines():
        if line.strip().startswith("chain "):
            chain = line.split()[1]
        elif chain and "# handle" in line and "hook" not in line and "}" not in line:
            handle = line.rpartition("handle ")[2]
            host.run(["nft", "delete", "rule", "inet", sandbox.table, chain, "handle", handle])
            return
    raise AssertionError("the table holds no rule")


def rule_added(sandbox: Sandbox) -> None:
    host.run(["nft", "insert", "rule", "inet", sandbox.table, "forward", "accept"])


def table_deleted(sandbox: Sandbox) -> None:
    host.run(["nft", "delete", "table", "inet", sandbox.table])


def chain_flushed(sandbox: Sandbox) -> None:
    host.run(["nft", "flush", "chain", "inet", sandbox.table, "forward"])


def bridge_filtering_off(_sandbox: Sandbox) -> None:
    host.run(["sysctl", "-w", "net.bridge.bridge-nf-call-iptables=0"])


def host_made_a_router(sandbox: Sandbox) -> None:
    host.run(["sysctl", "-w", f"net.ipv4.conf.{sandbox.bridge}.forwarding=1"])


def allowlist_edited_in_the_pod(sandbox: Sandbox) -> None:
    """As root on the host would: the proxy's routes say evil.test, and Envoy takes them."""
    control = sandbox.facts.container("control")
    for name in ("routes-outer.json", "routes-inner.json"):
        path = f"/var/lib/abox/policy/{name}"
        edit = f"sed 's/allowed\\.test/evil.test/g; s/allowed\\\\\\\\.test/evil.test/g' {path}"
        docker("exec", control, "sh", "-c", f"{edit} > {path}.new && mv {path}.new {path}")


def foreign_container_on_the_bridge(sandbox: Sandbox) -> None:
    name = sandbox.facts.agent_container
    image = sandbox.inspect(name)["Image"]
    network = next(iter(sandbox.inspect(name)["NetworkSettings"]["Networks"]))
    docker("run", "-d", "--rm", "--name", "abxt-guest", "--network", network, image, "sleep", "60")


def proxy_killed(sandbox: Sandbox) -> None:
    docker("kill", sandbox.facts.container("proxy"))


def pause_restarted(sandbox: Sandbox) -> None:
    """The others keep a namespace that nobody can reach any more."""
    docker("restart", "-t", "0", sandbox.facts.container("pause"))


def namespace_lost(sandbox: Sandbox) -> None:
    docker("rm", "-f", sandbox.facts.container("pause"))


TAMPERS: list[Tamper] = [
    agent_stopped,
    agent_removed,
    agent_made_again_by_hand,
    agent_paused,
    agent_on_a_second_network,
    agent_off_its_network,
    agent_without_pids_limit,
    rule_deleted,
    rule_added,
    table_deleted,
    chain_flushed,
    bridge_filtering_off,
    host_made_a_router,
    allowlist_edited_in_the_pod,
    foreign_container_on_the_bridge,
    proxy_killed,
    pause_restarted,
    namespace_lost,
]


@pytest.fixture(scope="module")
def undrifted(standing: Sandbox) -> None:
    """Control: a change is what is seen. Each test ends in the state that it began in."""
    assert not standing.stack.drifted()


SHAKES_HOST = [bridge_filtering_off]
"""What opens every sandbox of the host for a moment, those of other tests too."""


@pytest.fixture
def remove_twins():
    """What a tampering leaves behind is not the sandbox's, so the sandbox leaves it alone."""
    yield
    for name in docker("ps", "-aq", "--filter", "name=abxt-guest").split():
        docker("rm", "-f", name)


def test_drift_1_nothing_changed_is_no_drift(sandbox_up):
    """DRIFT-1: directly after `up`, ten previews in a row see nothing."""
    assert [sandbox_up.stack.drifted() for _ in range(10)] == [False] * 10


@pytest.mark.parametrize(
    "tamper",
    [pytest.param(one, marks=pytest.mark.alone if one in SHAKES_HOST else ()) for one in TAMPERS],
    ids=lambda tamper: tamper.__name__,
)
def test_drift_2_every_tampering_is_seen_and_repaired(sandbox_up, undrifted, remove_twins, tamper):
    """DRIFT-2: a preview exits 7 after the change, and one `up` restores everything."""
    twin = sandbox_up.facts.agent_container if tamper is agent_made_again_by_hand else ""
    try:
        tamper(sandbox_up)
        preview = sandbox_up.stack.preview("--expect-no-changes")
        assert preview.code == 7, preview.stdout + preview.stderr
        sandbox_up.stack.up()
        sandbox_up.attach()
        assert not sandbox_up.stack.drifted()
        assert fetch_status(sandbox_up, "http://allowed.test/") == "200"
        assert fetch_status(sandbox_up, "http://evil.test/") == "403"
    finally:
        if twin:
            docker("rm", "-f", twin)
