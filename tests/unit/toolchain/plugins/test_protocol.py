"""The toolchain's processes start without the SDK, which they don't use."""

from __future__ import annotations

import sys

import pytest

from tests import host

PROCESSES = (
    "toolchain.language_host",
    "toolchain.plugins.docker.provider",
    "toolchain.plugins.libvirt.provider",
    "toolchain.plugins.command.provider",
    "toolchain.plugins.command.engine_log",
    "toolchain.plugins.server",
)


@pytest.mark.parametrize("module", PROCESSES)
def test_what_the_toolchain_starts_needs_the_messages_alone(module: str) -> None:
    """Each module works on the messages, and the SDK's own code isn't run."""
    script = (
        "import sys; from toolchain.plugins import protocol; protocol.take_alone();"
        f"import {module}; print(sorted(n for n in sys.modules if n.startswith('pulumi.')))"
    )
    shown = host.run([sys.executable, "-c", script], cwd=host.ROOT).stdout
    assert "pulumi.runtime.proto" in shown
    assert "pulumi.automation" not in shown
    assert "pulumi.runtime.mocks" not in shown


def test_a_process_that_has_the_sdk_keeps_it() -> None:
    """The program's own SDK is never replaced under it."""
    script = (
        "import pulumi; from toolchain.plugins import protocol; protocol.take_alone();"
        "import sys; assert sys.modules['pulumi'] is pulumi; pulumi.Output"
    )
    host.run([sys.executable, "-c", script], cwd=host.ROOT)
