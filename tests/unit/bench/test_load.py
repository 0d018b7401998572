"""What the load generator says."""

from __future__ import annotations

from bench.load import parse


def test_its_line_becomes_rates():
    text = (
        '{"requests":300,"failures":1,"failure":"reset","seconds":2,"bytes":6000000,'
        '"p50_us":10.5,"p99_us":99}'
    )
    found = parse(text)
    assert (found.per_second, found.megabytes_per_second) == (150, 3)
    assert (found.failures, found.failure, found.p99_us) == (1, "reset", 99)
