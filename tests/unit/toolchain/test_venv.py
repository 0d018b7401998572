"""The virtual environment follows the interpreter that makes it."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from toolchain.venv import is_ours

LIB = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
HOME = f"home = {sysconfig.get_config_var('BINDIR')}\n"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """An environment of the running interpreter, as far as it is looked at."""
    (tmp_path / LIB).mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tmp_path / "pyvenv.cfg").write_text(HOME)
    return tmp_path


def test_an_environment_of_the_running_interpreter_is_kept(venv: Path) -> None:
    """Nothing is made anew without need."""
    assert is_ours(venv)


def test_the_real_environment_is_recognised() -> None:
    """What Python writes into the real file is what is looked for."""
    assert is_ours(Path(sys.prefix))


def test_an_environment_of_another_interpreter_is_not_kept(venv: Path) -> None:
    """The same version from another place may be half as fast."""
    (venv / "pyvenv.cfg").write_text("home = /elsewhere/bin\n")
    assert not is_ours(venv)


def test_a_broken_environment_is_not_kept(venv: Path) -> None:
    """An interpreter that is gone, another version, no environment at all."""
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/nonexistent/python")
    assert not is_ours(venv)
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / LIB).rmdir()
    assert not is_ours(venv)
    assert not is_ours(venv / "nowhere")
