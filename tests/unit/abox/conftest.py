"""The library is pure: a test of it that starts a process or opens a socket fails."""

from __future__ import annotations

import socket
import subprocess  # noqa: TID251 - to forbid it
from typing import Any, NoReturn

import pytest


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise AssertionError("the pure library must not reach for processes or the network")


@pytest.fixture(autouse=True)
def _no_input_or_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", _refuse)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse)
    monkeypatch.setattr(subprocess, "Popen", _refuse)
