"""The first sensor of a guest: a program that writes a heartbeat to the monitor port for ever."""

from __future__ import annotations

from abox.heartbeat import PERIOD_S
from abox.render.domain import MONITOR_PORT

SCRIPT_PATH = "/usr/local/lib/abox/heartbeat"
UNIT = "abox-heartbeat.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"

SCRIPT = f'''\
"""Tells the host every {PERIOD_S} seconds that this guest runs; never waits for the host."""

import json
import os
import time

PORT = "/dev/virtio-ports/{MONITOR_PORT}"

with open("/proc/sys/kernel/random/boot_id") as file:
    boot = file.read().strip()
port, sequence = None, 0
while True:
    sequence += 1
    line = json.dumps({{"sequence": sequence, "boot": boot}}) + "\\n"
    try:
        if port is None:
            port = os.open(PORT, os.O_WRONLY | os.O_NONBLOCK)
        os.write(port, line.encode())
    except BlockingIOError:
        pass  # nobody listens: what is late says nothing
    except OSError:
        if port is not None:
            os.close(port)
        port = None
    time.sleep({PERIOD_S})
'''
"""Python's standard library alone: cloud-init needs it, so every image has it."""

UNIT_TEXT = f"""\
[Unit]
Description=Tell the host that this guest runs
After=ssh.service sshd.service

[Service]
ExecStart=/usr/bin/env python3 -IS {SCRIPT_PATH}
Restart=always
RestartSec={PERIOD_S}
Nice=5

[Install]
WantedBy=multi-user.target
"""
"""After the login, which people wait for."""
