"""Paths inside the gateway pod that renderers and the control program agree on."""

from __future__ import annotations

POLICY_DIR = "/var/lib/abox/policy"
"""Rendered policy: written by control alone, read by dns and proxy."""
RUN_DIR = "/run/abox"
"""Unix sockets between the pod's containers, each in a folder of its own."""
CA_DIR = "/var/lib/abox/ca"
"""The authority's key and control's own records: nobody else mounts it."""
TRUST_DIR = "/var/lib/abox/trust"
"""What the agent sees as /etc/ssl/certs: public roots and the sandbox's authority."""

LOG_DIR = "/var/log/abox"
"""The verdict log: a folder of the host that control alone mounts."""
SPOOL_DIR = "/var/spool/abox"
"""What the filters write line after line: file systems in memory, one a filter."""

DNS_SPOOL = f"{SPOOL_DIR}/dns/replies"
PROXY_SPOOL = f"{SPOOL_DIR}/proxy/requests"
"""Read by control's collector, which gives the space back."""

SDS_SOCKET = f"{RUN_DIR}/sds/sds.sock"
VALUES_SOCKET = f"{RUN_DIR}/sds/values.sock"
"""Where control hands out values; apart from certificates, whose names the agent chooses."""
ENVOY_ADMIN_SOCKET = f"{RUN_DIR}/envoy/admin.sock"
KEY_LOG_FILE = "/tmp/tls-keys"  # noqa: S108  # in the proxy's own memory
"""Where Envoy writes TLS keys: a link to the null device, except while somebody reads them."""
CONTROL_SOCKET = f"{RUN_DIR}/control/control.sock"

ROUTES_FILES = {
    "outer": f"{POLICY_DIR}/routes-outer.json",
    "inner": f"{POLICY_DIR}/routes-inner.json",
    "dial": f"{POLICY_DIR}/routes-dial.json",
}
"""Route configurations by listener; the keys are the values of ``envoy_routes.Side``."""

GATE_FILE = f"{POLICY_DIR}/gate.json"
"""The listener whose filter chains are closed when a policy takes something away."""
CLUSTERS_FILE = f"{POLICY_DIR}/clusters.json"
"""Clusters of origins that a policy needs beside the usual ones; no values of secrets are in it."""

VALUES_DIR = f"{CA_DIR}/secrets"
"""Values of secrets, which control hands to the proxy: nobody else mounts the folder."""

PUBLIC_ROOTS_FILE = "/etc/ssl/certs/ca-certificates.crt"
"""The image's public roots: origins are verified against them."""

AUTHORITIES_PREFIX = "authorities-"
"""Beginning of the names of ``authorities_file``."""


def authorities_file(digest: str) -> str:
    """Public roots and the stack's ``trusted_cas``, PEM; every list is a file of its own."""
    return f"{POLICY_DIR}/{AUTHORITIES_PREFIX}{digest}.pem"


RPZ_FILE = f"{POLICY_DIR}/names.zone"
"""The names as a response policy zone, the same for both resolvers."""


def unbound_file(role: str) -> str:
    """The part of a resolver's configuration that a policy may change; role agent or proxy."""
    return f"{POLICY_DIR}/unbound-{role}.conf"


def unbound_socket(role: str) -> str:
    """The control socket of a resolver; role agent or proxy."""
    return f"{RUN_DIR}/dns/{role}.sock"


NAMES_FILE = f"{POLICY_DIR}/names.json"
"""The names as a table, for what matches names only."""

READY_FILE = f"{POLICY_DIR}/ready"
"""Written after all the others: dns and proxy start when it is there. Holds the policy's hash."""
