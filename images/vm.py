"""The image of virtual machines: the agent image's tools, a kernel, cloud-init and an SSH server.

It boots without a boot loader, on emulated processors too: every unit, generator and module that
isn't needed costs a second there, so nothing starts that nobody asked for.
"""

from __future__ import annotations

from pathlib import Path

from images import agent
from images.agent import AGENT
from images.recipe import PROJECT, Recipe
from images.tree import make_link, write_file

ROOT_DEVICE = "/dev/vda"

CMDLINES = (
    {
        "root": ROOT_DEVICE,
        "console": "hvc0",
        "net.ifnames": "0",  # the one interface is eth0
        "ipv6.disable": "1",
        "audit": "0",
        "lsm": "yama",
        # It guards the kernel from its programs: the agent is allowed to be root there.
        "mitigations": "off",
        # What an emulated processor spends its first seconds on.
        "cryptomgr.notests": "1",
        "rcupdate.rcu_expedited": "1",
        "random.trust_cpu": "on",
        "systemd.show_status": "0",
    },
    {"_": "nokaslr nowatchdog quiet rw"},
)
"""Kernel parameters, in the form that pulumi-libvirt writes and reads back alike."""

MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "cloud-init-hotplugd.socket",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty-static.service",
    "getty@tty1.service",
    "kmod-static-nodes.service",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-initctl.socket",
    "systemd-journal-flush.service",
    "systemd-journald-audit.socket",
    "systemd-logind.service",
    "systemd-modules-load.service",
    "systemd-networkd-persistent-storage.service",
    "systemd-networkd-wait-online.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-repart.service",
    "systemd-sysusers.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
)
"""Units that a guest with one fixed root disk, one interface and no console has no use for."""

MASKED_GENERATORS = (
    "cloud-init-generator",  # searches for a data source; there is but one, see ENABLED_UNITS
    "systemd-bless-boot-generator",
    "systemd-cryptsetup-generator",
    "systemd-debug-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-rc-local-generator",
    "systemd-run-generator",
    "systemd-system-update-generator",
    "systemd-sysv-generator",
    "systemd-veritysetup-generator",
)
"""Programs that look for units to make, each at every boot; the one of fstab stays."""

ENABLED_UNITS = {
    "abox-grow.service": "multi-user.target",
    "abox-seed.service": "sysinit.target",
    "cloud-init.target": "multi-user.target",
    "systemd-networkd.service": "multi-user.target",
}
"""What Debian doesn't start by itself → what wants it."""

FSTAB = f"{ROOT_DEVICE} / ext4 noatime,errors=remount-ro 0 0\n"

GROW_UNIT = """\
[Unit]
Description=Grow the root filesystem to the size of its disk
After=ssh.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/lib/systemd/systemd-growfs /
"""
"""The first login needn't wait for it: by fstab's option it would."""

SEED_DEVICE = "/dev/vdc"
SEED_SCRIPT = "/usr/local/lib/abox/seed"
SEED = f"""\
#!/bin/sh
# The host's own script on the seed does in a second what cloud-init takes half a minute for.
mkdir -p /run/abox/seed
mount -t iso9660 -o ro,nodev,nosuid,noexec {SEED_DEVICE} /run/abox/seed || exit 0
[ ! -e /run/abox/seed/boot.sh ] || sh /run/abox/seed/boot.sh
result=$?
umount /run/abox/seed
exit $result
"""
"""A seed without such a script is cloud-init's, as is one whose script leaves something to do."""

SEED_UNIT = f"""\
[Unit]
Description=Hear from the host what this guest is
DefaultDependencies=no
ConditionPathExists={SEED_DEVICE}
Before=sysinit.target network-pre.target systemd-sysctl.service
Before=cloud-init-local.service systemd-networkd.service systemd-networkd.socket

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SEED_SCRIPT}
"""

UNLESS_TOLD = "[Unit]\nConditionPathExists=!/run/abox/told\n"
"""Of what has nothing left to do once the host's script has said everything."""

UDEV_TRIGGER = """\
[Service]
ExecStart=
ExecStart=udevadm trigger --type=devices --action=add \\
    --subsystem-match=net --subsystem-match=block --subsystem-match=virtio-ports
"""
"""Only these devices need names; the drivers are in the initial root filesystem."""

SSH_START = "[Service]\nExecStartPre=\n"
"""Without a first start that only checks the settings."""

JOURNAL = "[Journal]\nStorage=volatile\n"

SSHD = """\
# Known to all clients, and fast: an emulated processor takes seconds for the newer ones.
KexAlgorithms curve25519-sha256
UseDNS no
"""

CLOUD = """\
# One data source, and the modules that abox uses: each costs an emulated processor its time.
datasource_list: [NoCloud]
disable_root: true
preserve_hostname: false
ssh_deletekeys: false
ssh_genkeytypes: []
cloud_init_modules:
  - bootcmd
  - write-files
  - set_hostname
  - ca-certs
  - users-groups
  - ssh
cloud_config_modules:
  - apt-configure
  - package-update-upgrade-install
  - runcmd
cloud_final_modules:
  - write-files-deferred
  - scripts-user
system_info:
  distro: debian
  default_user:
    name: agent
    lock_passwd: true
  network:
    renderers: [networkd]
output: {all: ">> /var/log/cloud-init-output.log"}
log_cfgs:
  - |
    [loggers]
    keys=root
    [handlers]
    keys=file
    [formatters]
    keys=plain
    [logger_root]
    level=INFO
    handlers=file
    [handler_file]
    class=FileHandler
    level=INFO
    formatter=plain
    args=("/var/log/cloud-init.log", "a", "UTF-8")
    [formatter_plain]
    format=%(asctime)s %(filename)s[%(levelname)s]: %(message)s
"""

LEAN_MODULES = "/usr/local/lib/abox/cloud-init"
LEAN_JSONSCHEMA = '''\
"""Keeps cloud-init from checking its input against a schema, which takes it longer than all else.

abox writes that input by itself, and its tests check it.
"""

raise ImportError("not used here")
'''

CLOUD_STAGES = ("cloud-init-local", "cloud-init", "cloud-config", "cloud-final")

REMOVED = ("boot/initrd.img*", "initrd.img*", "vmlinuz*", "etc/cloud/cloud.cfg.d/*")
"""Files of the packages that a boot without a boot loader, and with one data source, leaves out."""


def furnish(root: Path) -> None:
    """Make the agent image's account and tools, and a system that boots fast."""
    agent.furnish(root)
    for pattern in REMOVED:
        for path in sorted(root.glob(pattern)):
            path.unlink()
    _units(root)
    write_file(root, "/etc/fstab", FSTAB)
    write_file(root, "/etc/systemd/journald.conf.d/abox.conf", JOURNAL)
    write_file(root, "/etc/ssh/sshd_config.d/10-abox-image.conf", SSHD)
    write_file(root, "/etc/cloud/cloud.cfg", CLOUD)
    write_file(root, f"{LEAN_MODULES}/jsonschema.py", LEAN_JSONSCHEMA)


def _units(root: Path) -> None:
    system = "/etc/systemd/system"
    for unit in MASKED_UNITS:
        make_link(root, f"{system}/{unit}", "/dev/null")
    for generator in MASKED_GENERATORS:
        make_link(root, f"/etc/systemd/system-generators/{generator}", "/dev/null")
    make_link(root, f"{system}/default.target", "/lib/systemd/system/multi-user.target")
    write_file(root, SEED_SCRIPT, SEED, mode=0o755)
    write_file(root, "/lib/systemd/system/abox-seed.service", SEED_UNIT)
    write_file(root, "/lib/systemd/system/abox-grow.service", GROW_UNIT)
    for unit, target in ENABLED_UNITS.items():
        make_link(root, f"{system}/{target}.wants/{unit}", f"/lib/systemd/system/{unit}")
    for unit in ("systemd-networkd.service", "systemd-networkd.socket"):
        write_file(root, f"{system}/{unit}.d/abox.conf", UNLESS_TOLD)
    write_file(root, f"{system}/systemd-udev-trigger.service.d/abox.conf", UDEV_TRIGGER)
    write_file(root, f"{system}/ssh.service.d/abox.conf", SSH_START)
    for stage in CLOUD_STAGES:
        lean = f"{UNLESS_TOLD}\n[Service]\nEnvironment=PYTHONPATH={LEAN_MODULES}\n"
        write_file(root, f"{system}/{stage}.service.d/abox.conf", lean)


VM = Recipe(
    name="vm",
    variant="minbase",
    packages=(
        *AGENT.packages,
        "cloud-init",
        "e2fsprogs",
        "linux-image-cloud-amd64",
        "openssh-server",
        "sudo",
        "systemd-sysv",
        "tiny-initramfs",
        "udev",
    ),
    inputs=(
        *(PROJECT / "images" / name for name in ("vm.py", "disk.py", "ext4.py", "initramfs.py")),
        *AGENT.inputs,
    ),
    furnish=furnish,
    config={"cmdlines": CMDLINES},
    space_mb=5000,
)
