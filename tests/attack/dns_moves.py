"""Questions to the agent's resolver: honest ones, odd ones and bytes that are none."""

from __future__ import annotations

import struct
from random import Random

from tests.attack.http_moves import mutated
from tests.attack.plan import Plan

TYPES = (1, 28, 5, 15, 16, 2, 6, 12, 33, 43, 48, 64, 65, 99, 250, 251, 252, 255, 256, 65535)
CLASSES = (1, 1, 1, 1, 3, 4, 254, 255)


def labels(random: Random, plan: Plan) -> list[bytes]:
    """A name as labels: allowed, denied, near one of both, or binary."""
    name = random.choice((*plan.allowed, *plan.denied)).split(".")
    kind = random.randrange(6)
    if kind == 0:
        name.insert(0, f"{random.randrange(16**8):x}")
    elif kind == 1:
        name = [*name, *random.choice(plan.denied).split(".")]
    elif kind == 2:
        name = [label.upper() if random.random() < 0.5 else label for label in name]
    elif kind == 3:
        name = [".".join(name[:-1]), name[-1]]
    found = [label.encode() for label in name]
    if kind == 4:
        size = random.randrange(64)
        found.insert(0, bytes(random.randrange(256) for _ in range(size)))
    return found


def question(random: Random, plan: Plan) -> bytes:
    """One message."""
    flags = random.choice((0x0100, 0x0100, 0x0000, 0x0110, 0x8180, 0x2000, 0x2800, 0xFFFF))
    count = random.choice((1, 1, 1, 1, 0, 2, 65535))
    name = b"".join(
        bytes([len(label)]) + label for label in labels(random, plan) if len(label) < 64
    )
    end = random.choice((b"\0", b"\0", b"\0", b"\xc0\x0c", b""))
    asked = name + end + struct.pack("!HH", random.choice(TYPES), random.choice(CLASSES))
    extra = 1 if random.random() < 0.4 else 0
    size = random.choice((0, 512, 1232, 4096, 65535))
    opt = struct.pack("!BHHIH", 0, 41, size, 0x8000, 0) if extra else b""
    head = struct.pack("!HHHHHH", random.randrange(65536), flags, count, 0, 0, extra)
    data = head + asked + opt
    return mutated(random, data) if random.random() < 0.3 else data
