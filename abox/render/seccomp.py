"""Seccomp profile of every container: which system calls a sandboxed program may make.

An allowlist by purpose; whatever isn't on it fails with EPERM. It exists because the engine's own
default lets through what goes past the network rules: any socket family (AF_VSOCK reaches the
hypervisor and no packet filter sees it), and io_uring, whose operations no filter judges.

Containers have no capabilities, so calls that need one aren't here at all. Arguments are compared
with equality over the whole 64-bit register: a value that only the kernel's truncation to 32 bits
would turn into an allowed one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

ALLOW = "SCMP_ACT_ALLOW"
REFUSE = "SCMP_ACT_ERRNO"

ENOSYS = 38
"""Answer that makes the C library fall back on an older call."""

ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
"""Without their 32-bit siblings: those have numbers, and a socketcall(), of their own. A program
that uses one is killed."""

NAMESPACE_FLAGS = 0x7E02_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of clone(2)."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

IP_PROTOCOLS = {"default": 0, "ICMP": 1, "TCP": 6, "UDP": 17, "ICMPv6": 58, "MPTCP": 262}
"""Protocols of IP sockets; without SCTP, DCCP, UDP-Lite and raw numbers."""

NETLINK_ROUTE = 0
"""How programs list interfaces and routes. Other netlink protocols are surface without use."""

PERSONALITIES = (0x0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF)
"""Linux, Linux with 32-bit addresses, both with a 2.6 version number, and the question alone."""

FILES = """
access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd
getdents getdents64 getxattr ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr
lseek lsetxattr lstat memfd_create mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe
pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
removexattr rename renameat renameat2 rmdir sendfile setxattr splice stat statfs statx symlink
symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes
vmsplice write writev
"""

WATCHING = """
epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
inotify_add_watch inotify_init inotify_init1 inotify_rm_watch poll ppoll pselect6 select signalfd
signalfd4 timerfd_create timerfd_gettime timerfd_settime
"""

ASYNCHRONOUS_FILES = "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit"
"""The old interface, which checks each file's own rules; io_uring is left out."""

MEMORY = """
brk madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall mmap mprotect mremap mseal
msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect remap_file_pages
"""

PROCESSES = """
arch_prctl capget capset execve execveat exit exit_group fork get_robust_list getpgid getpgrp
getpid getppid getpriority getrlimit getrusage getsid gettid ioprio_get ioprio_set kill pidfd_open
pidfd_send_signal prctl prlimit64 rseq set_robust_list set_tid_address setpgid setpriority
setrlimit setsid tgkill times tkill vfork wait4 waitid
"""

DEBUGGING = "process_vm_readv process_vm_writev ptrace"
"""Of the own processes. Since Linux 4.8 a traced call is judged after the tracer has changed it."""

SCHEDULING = """
getcpu sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield
"""

THREADS = "futex futex_requeue futex_wait futex_waitv futex_wake"

SIGNALS = """
alarm pause restart_syscall rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sigaltstack
"""

USERS = """
getegid geteuid getgid getgroups getresgid getresuid getuid setfsgid setfsuid setgid setgroups
setregid setresgid setresuid setreuid setuid
"""

TIME = """
clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime
"""

SOCKETS = """
accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg
sendmmsg sendmsg sendto setsockopt shutdown
"""
"""What can be done with a socket; which sockets there can be is limited by argument."""

MESSAGES = """
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
semctl semget semop semtimedop shmat shmctl shmdt shmget
"""

SELF_RESTRICTION = "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp"
"""With which a program takes more from itself."""

SYSTEM = "getrandom sysinfo uname"

PURPOSES: Mapping[str, str] = {
    "files": FILES,
    "watching": WATCHING,
    "asynchronous files": ASYNCHRONOUS_FILES,
    "memory": MEMORY,
    "processes": PROCESSES,
    "debugging": DEBUGGING,
    "scheduling": SCHEDULING,
    "threads": THREADS,
    "signals": SIGNALS,
    "users": USERS,
    "time": TIME,
    "sockets": SOCKETS,
    "messages": MESSAGES,
    "self-restriction": SELF_RESTRICTION,
    "system": SYSTEM,
}
"""Calls allowed with any arguments, by what they are for."""


def allowed_calls() -> tuple[str, ...]:
    """Names of the system calls that are allowed with any arguments, sorted."""
    return tuple(sorted(name for names in PURPOSES.values() for name in names.split()))


def render_seccomp() -> str:
    """The profile as the engine takes it: compact JSON on one line.

    Returns: text for the container option `seccomp=…`, in the format of the OCI runtime
        specification's engines (defaultAction, archMap, syscalls).
    """
    document = {
        "defaultAction": REFUSE,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in ARCHITECTURES],
        "syscalls": [
            {"names": list(allowed_calls()), "action": ALLOW, "args": []},
            *_sockets(),
            _rule(["clone"], [_argument(0, NAMESPACE_FLAGS, "SCMP_CMP_MASKED_EQ", second=0)]),
            {"names": ["clone3"], "action": REFUSE, "errnoRet": ENOSYS, "args": []},
            *(_rule(["personality"], [_argument(0, value)]) for value in PERSONALITIES),
        ],
    }
    return json.dumps(document, separators=(",", ":"))


def _sockets() -> Iterable[dict[str, Any]]:
    """Which sockets may be opened: local ones, IP, and the routing side of netlink."""
    both = ["socket", "socketpair"]
    yield _rule(both, [_argument(0, AF_UNIX)])
    for family in (AF_INET, AF_INET6):
        for protocol in IP_PROTOCOLS.values():
            yield _rule(["socket"], [_argument(0, family), _argument(2, protocol)])
    yield _rule(["socket"], [_argument(0, AF_NETLINK), _argument(2, NETLINK_ROUTE)])


def _rule(names: list[str], arguments: list[dict[str, Any]]) -> dict[str, Any]:
    """Calls that are allowed if all the conditions hold; several rules for one call are or-ed."""
    return {"names": names, "action": ALLOW, "args": arguments}


def _argument(
    index: int, value: int, operator: str = "SCMP_CMP_EQ", *, second: int = 0
) -> dict[str, Any]:
    """A condition on an argument; for MASKED_EQ the value is the mask, `second` what remains."""
    return {"index": index, "value": value, "valueTwo": second, "op": operator}
