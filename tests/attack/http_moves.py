"""Requests to the proxy: built from honest and dishonest parts, then changed at random places."""

from __future__ import annotations

from random import Random

from tests.attack.plan import Plan

METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "CONNECT", "DELETE", "TRACE", "PRI", "get", "")
VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/2", "HTTP/0.9", "HTTP/1.2", "http/1.1", "")
ENDS = ("\r\n", "\n", "\r", "\r\r\n", "\0\r\n", " \r\n")
PATHS = (
    "/",
    "//",
    "/..;/",
    "/%2e%2e/",
    "/a?b=c",
    "*",
    "",
    "/%00",
    "/" + "a" * 300,
    "/\xff",
    "/a b",
)
FIELDS = (
    "Content-Length: {}", "Transfer-Encoding: {}", "Host: {}", "Connection: {}", "Upgrade: {}",
    "X-Forwarded-Host: {}", "Proxy-Authorization: {}", "x-envoy-original-dst-host: {}:80",
    "x-envoy-original-path: {}", "x-abox-judged: {}", "x-abox-port: {}", "x-abox-name: {}",
    "Expect: {}", "TE: {}", "Trailer: {}", "Forwarded: host={}", "X-Rewrite-URL: http://{}/",
    " {}", "{}", ": {}", "Host : {}", "\t{}",
)  # fmt: skip
VALUES = ("0", "4", "-1", "chunked", "close", "keep-alive", "websocket", "h2c", "100-continue",
          "http", "tls", "connect", "443", "99999999999999999999", "\0", "a\r\n b",
          "trailers")  # fmt: skip
SPELLINGS = ("{}", "{}.", "{}:80", "{}:443", "{}:0", "{}:65536", "[{}]", "{}@{}", "{}%00", "{}\0",
             "{}#", "{}\\", " {}", "{} ", "%2e{}", "{}:80:443", "{},{}", "x.{}")  # fmt: skip


def odd_address(random: Random, plan: Plan) -> str:
    """An address in one of the spellings that some parser reads."""
    parts = random.choice([a for a in plan.addresses if ":" not in a]).split(".")
    number = sum(int(part) << (24 - 8 * i) for i, part in enumerate(parts))
    spellings = (
        ".".join(parts), str(number), hex(number), "0" + oct(number)[2:],
        ".".join(hex(int(part)) for part in parts), ".".join(f"0{int(part):o}" for part in parts),
        f"[::ffff:{'.'.join(parts)}]", f"[64:ff9b::{'.'.join(parts)}]", f"[::{'.'.join(parts)}]",
        f"{parts[0]}.{number & 0xFFFFFF}", f"{'.'.join(parts)}.", f"{'.'.join(parts)}.nip.test",
    )  # fmt: skip
    return random.choice(spellings)


def host(random: Random, plan: Plan) -> str:
    """A host that is allowed, denied, an address, or something in between."""
    names = (*plan.allowed, *plan.denied)
    name = random.choice((random.choice(names), odd_address(random, plan), random.choice(names)))
    if random.random() < 0.5:
        return name
    return random.choice(SPELLINGS).format(name, random.choice(names))


def authority(random: Random, plan: Plan) -> str:
    """A host with or without a port."""
    port = random.choice(("", ":80", ":443", ":22", ":53", f":{random.randrange(70000)}"))
    return host(random, plan) + port


def message(random: Random, plan: Plan) -> bytes:
    """One request as bytes, whole or in pieces of nonsense."""
    target = random.choice(("http://{}{}", "https://{}{}", "{}{}", "//{}{}", "ftp://{}{}", "{1}"))
    line = [random.choice(METHODS), target.format(authority(random, plan), random.choice(PATHS)),
            random.choice(VERSIONS)]  # fmt: skip
    if random.random() < 0.3:
        line = ["CONNECT", authority(random, plan), "HTTP/1.1"]
    fields = [f"Host: {authority(random, plan)}"] if random.random() < 0.8 else []
    for _ in range(random.randrange(4)):
        value = random.choice((random.choice(VALUES), host(random, plan)))
        fields.append(random.choice(FIELDS).format(value))
    end = "\r\n" if random.random() < 0.8 else random.choice(ENDS)
    text = end.join([" ".join(line), *fields, "", ""])
    if random.random() < 0.5:
        text += random.choice(("0\r\n\r\n", "4\r\nabcd\r\n0\r\n\r\n", "abcd", "\x16\x03\x01\x02\0"))
    if random.random() < 0.2:
        text += message(random, plan).decode("latin-1")
    data = text.encode("utf-8" if random.random() < 0.1 else "latin-1", "replace")
    return mutated(random, data) if random.random() < 0.4 else data


def mutated(random: Random, data: bytes) -> bytes:
    """The same bytes with a few changed, dropped, doubled or put in."""
    changed = bytearray(data)
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(changed) + 1) if changed else 0
        kind = random.randrange(4)
        if kind == 0:
            changed[at:at] = bytes(random.randrange(256) for _ in range(random.randrange(1, 9)))
        elif kind == 1:
            del changed[at : at + random.randrange(1, 9)]
        elif kind == 2:
            changed[at:at] = changed[at : at + random.randrange(1, 20)]
        elif changed:
            changed[at % len(changed)] ^= 1 << random.randrange(8)
    return bytes(changed)
