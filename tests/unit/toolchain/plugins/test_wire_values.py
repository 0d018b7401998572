"""Values survive the wire, and secrets don't show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.plugins.wire_values import (
    REFUSED_SIGNATURES,
    SIGNATURE_KEY,
    UNKNOWN,
    UNKNOWN_MARKERS,
    Secret,
    WireValueError,
    from_struct,
    holds_secret,
    holds_unknown,
    reveal,
    to_struct,
)

TEXTS = st.text(max_size=8).filter(lambda text: text not in UNKNOWN_MARKERS)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS | st.just(UNKNOWN)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.builds(Secret, inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_values_survive_the_wire(properties: dict[str, object]) -> None:
    """What goes into a Struct comes out: whole numbers, unknowns and secrets included."""
    assert from_struct(to_struct(properties), keep_secrets=True) == properties
    assert from_struct(to_struct(properties)) == reveal(properties)


@pytest.mark.parametrize("marker", sorted(UNKNOWN_MARKERS))
def test_every_marker_of_the_engine_means_unknown(marker: str) -> None:
    """The engine spells an unknown by its type."""
    assert from_struct(to_struct({"a": [marker]})) == {"a": [UNKNOWN]}


def test_output_values_are_unwrapped() -> None:
    """An output is its value, unknown without one, and a secret if it says so."""
    output = {SIGNATURE_KEY: "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    struct = to_struct({"known": {**output, "value": 1}, "unknown": output})
    assert from_struct(struct) == {"known": 1, "unknown": UNKNOWN}
    secret = to_struct({"a": {**output, "value": "x", "secret": True}})
    assert from_struct(secret, keep_secrets=True) == {"a": Secret("x")}


@pytest.mark.parametrize("signature", sorted(REFUSED_SIGNATURES))
def test_assets_and_references_are_refused(signature: str) -> None:
    """Values that no property takes are an error, never passed on as an object."""
    with pytest.raises(WireValueError, match="not taken here"):
        from_struct(to_struct({"a": {SIGNATURE_KEY: signature}}))


def test_secret_masks_itself() -> None:
    """A secret in a message or a log shows as a mask."""
    assert "s3cr3t" not in repr({"a": Secret("s3cr3t")})


def test_secrets_and_unknowns_are_found_inside() -> None:
    """However deep they lie."""
    assert holds_secret({"a": [{"b": Secret(1)}]})
    assert not holds_secret({"a": [{"b": 1}]})
    assert holds_unknown(Secret([UNKNOWN]))
    assert not holds_unknown(Secret(["x"]))
