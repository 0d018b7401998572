"""The kernel's switch: on, or an error; and who loads the module."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from provider.bridge_filtering import MODULE, WANTED, BridgeFiltering


class Kernel(dict[str, str]):
    """Settings; `module` holds those that appear once the module is loaded."""

    def __init__(self, settings, module=None):
        super().__init__(settings)
        self.module = module or {}
        self.loaded = []

    def load(self, name):
        self.loaded.append(name)
        self.update(self.module)

    def write(self, name, value):
        if name not in self:
            raise HostError(what=f"{name} can't be made", why="no such file", remedy="x")
        self[name] = value

    def filtering(self):
        return BridgeFiltering(self.get, self.write, self.load)


OFF = dict.fromkeys(WANTED, "0")


def test_what_is_off_is_switched_on_without_loading_a_module():
    kernel = Kernel(OFF)
    assert kernel.filtering().apply() == WANTED
    assert kernel.loaded == []


def test_module_is_loaded_where_the_settings_are_absent():
    kernel = Kernel({}, OFF)
    assert kernel.filtering().apply() == WANTED
    assert kernel.loaded == [MODULE]


def test_kernel_without_bridge_filtering_is_an_error():
    for module in ({}, {next(iter(OFF)): "0"}):
        with pytest.raises(HostError, match="can't be made"):
            Kernel({}, module).filtering().apply()


def test_setting_that_springs_back_is_an_error():
    kernel = Kernel(OFF)
    stubborn = BridgeFiltering(kernel.get, lambda *_: None, kernel.load)
    with pytest.raises(HostError, match="can't be switched on"):
        stubborn.apply()


def test_absent_setting_is_read_as_absent():
    assert Kernel({}).filtering().read() == {}
