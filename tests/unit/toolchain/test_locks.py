"""Locks between processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.host import wait_until
from toolchain import shell
from toolchain.layout import this_checkout
from toolchain.locks import exclusive


def test_second_process_waits_and_a_killed_one_frees_the_lock(tmp_path: Path) -> None:
    """One at a time; the lock of a process that was killed is free."""
    lock, held = tmp_path / "lock", tmp_path / "held"
    program = (
        "import sys, time; from pathlib import Path; from toolchain.locks import exclusive\n"
        "with exclusive(Path(sys.argv[1]), lambda: None):\n"
        "    Path(sys.argv[2]).touch(); time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(this_checkout().root)}
    process = shell.child(
        [sys.executable, "-c", program, lock, held], environment=environment, directory=tmp_path
    )
    wait_until(held.exists, timeout_s=10, describe=lambda: "the lock was not taken")
    waited: list[bool] = []

    def free() -> None:
        waited.append(True)
        process.kill()

    with exclusive(lock, free):
        assert waited == [True]
    process.wait()
    with exclusive(lock, free):
        assert waited == [True]  # control: a free lock makes nobody wait
