"""A checkout with one stack, in a folder of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.checkout import Checkout

SETTINGS = """\
# One sandbox.
config:
  abox:sandbox:
    mode: active
    allow:
      - example.com                # exact
      # group of wildcards
      - "*.example.org"

      - host: api.example.net
        ports: [443]
        methods: [GET, POST]       # no DELETE
        paths: ["/v1/*"]
    # deny beats allow
    deny:
      - uploads.example.org
    agent:
      cpus: 2
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    (tmp_path / "Pulumi.yaml").write_text("name: abox\nruntime: python\n")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(SETTINGS)
    monkeypatch.setenv("ABOX_ROOT", str(tmp_path))
    return Checkout(tmp_path)
