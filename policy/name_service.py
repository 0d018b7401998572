"""No public name service over HTTPS on the allowlist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network

from pulumi_policy import ResourceValidationPolicy

from abox.addresses import parse_any_literal
from abox.entries import WILDCARD
from abox.names import hosts_covering
from policy.resources import (
    GATEWAY_POLICY,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    allowed_hosts,
    items,
    list_of_texts,
)

RESOLVERS = (
    "adguard-dns.com",
    "cloudflare-dns.com",
    "cloudflare-gateway.com",
    "dns-family.adguard.com",
    "dns-nosec.quad9.net",
    "dns-unfiltered.adguard.com",
    "dns.aa.net.uk",
    "dns.adguard.com",
    "dns.alekberg.net",
    "dns.alidns.com",
    "dns.bebasid.com",
    "dns.comss.one",
    "dns.controld.com",
    "dns.digitale-gesellschaft.ch",
    "dns.google",
    "dns.google.com",
    "dns.hostux.net",
    "dns.mullvad.net",
    "dns.nextdns.io",
    "dns.njal.la",
    "dns.opendns.com",
    "dns.quad9.net",
    "dns.rubyfish.cn",
    "dns.sb",
    "dns.switch.ch",
    "dns.t53.de",
    "dns.telekom.de",
    "dns.therifleman.name",
    "dns.twnic.tw",
    "dns.umbrella.com",
    "dns.yandex.net",
    "dns.yandex.ru",
    "dns0.eu",
    "dns1.nextdns.io",
    "dns10.quad9.net",
    "dns11.quad9.net",
    "dns12.quad9.net",
    "dns2.nextdns.io",
    "dns4all.eu",
    "dns64.dns.google",
    "dns9.quad9.net",
    "dnsforge.de",
    "dot.pub",
    "freedns.controld.com",
    "joindns4.eu",
    "kaitain.restena.lu",
    "libredns.gr",
    "odvr.nic.cz",
    "one.one.one.one",
    "ordns.he.net",
    "pi-dns.com",
    "publicdns.goog",
    "rethinkdns.com",
    "safeservedns.com",
    "tiar.app",
    "tiarap.org",
    "uncensoreddns.org",
    "wikimedia-dns.org",
)
"""Public resolvers, each with all names below it; policy config can add more."""

ADDRESSES = (
    "1.0.0.0/24",
    "1.1.1.0/24",
    "149.112.112.0/24",
    "185.228.168.0/24",
    "185.228.169.0/24",
    "208.67.220.0/24",
    "208.67.222.0/24",
    "45.90.28.0/22",
    "76.76.10.0/24",
    "76.76.2.0/24",
    "8.8.4.0/24",
    "8.8.8.0/24",
    "9.9.9.0/24",
    "94.140.14.0/23",
    "2001:4860:4860::/48",
    "2606:4700:4700::/48",
    "2620:119:35::/48",
    "2620:119:53::/48",
    "2620:fe::/48",
    "2a10:50c0::/32",
)
"""Networks in which public resolvers answer under their bare address."""

DOH_LABEL = re.compile(r"doh[0-9]*|doh-.*|.*-doh|dns-over-https")
"""A label that says what the server does."""

_NETWORKS = tuple(ip_network(network) for network in ADDRESSES)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every allowed host that is, or takes in, a public resolver."""
    if args.resource_type != GATEWAY_POLICY:
        return
    policy = args.props.get("policy") or {}
    denied = frozenset(str(host) for host in items(policy, "deny"))
    resolvers = (*RESOLVERS, *(str(r) for r in args.get_config().get("resolvers", ())))
    for host in allowed_hosts(policy):
        if resolver := next(_reached(host, resolvers, denied), None):
            report(f"{host!r} reaches the resolver {resolver}: remove it, or deny that", args.urn)


def _reached(host: str, resolvers: tuple[str, ...], denied: frozenset[str]) -> Iterator[str]:
    """Resolvers that the host allows and no entry of the denylist refuses."""
    if (address := parse_any_literal(host)) is not None:
        yield from (host for network in _NETWORKS if address in network)
    name = host.removeprefix(WILDCARD)
    covering = set(hosts_covering(name))
    if any(DOH_LABEL.fullmatch(label) for label in name.split(".")):
        yield from _unless_denied(name, denied)
    for resolver in resolvers:
        if name == resolver or f"{WILDCARD}{resolver}" in covering:
            yield from _unless_denied(name, denied)
        elif host.startswith(WILDCARD) and resolver.endswith(f".{name}"):
            yield from _unless_denied(resolver, denied)


def _unless_denied(name: str, denied: frozenset[str]) -> Iterator[str]:
    if denied.isdisjoint(hosts_covering(name)):
        yield name


no_name_service_over_https = ResourceValidationPolicy(
    name="no-name-service-over-https",
    description="A public resolver answers, inside HTTPS, what the name filter refuses.",
    validate=validate,
    enforcement_level=MANDATORY,
    config_schema=list_of_texts("resolvers", "More names or zones of public resolvers."),
)
