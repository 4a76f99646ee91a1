#!/usr/bin/python3
"""Compiles the filter of system calls for sandboxed commands: scripts/seccomp/compile.py [folder]

Reads allowed.txt and denied.txt beside it, and writes one program for each architecture, as bubblewrap's --seccomp reads
it. Debian's python3-seccomp does the work; the committed programs in server/assets/seccomp are made with its version 2.5.4.
"""

import errno
import sys
from pathlib import Path

from seccomp import ALLOW, EQ, ERRNO, MASKED_EQ, Arch, Arg, Attr, SyscallFilter

here = Path(__file__).resolve().parent
# By the names that Node's process.arch has. A program of another architecture, such as x32, is killed.
architectures = {"x64": Arch.X86_64, "arm64": Arch.AARCH64}

# linux/sched.h: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
namespaces = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
# sys/socket.h: AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK. Of the others, some reach past the network namespace.
families = [1, 2, 10, 16]
# linux/personality.h: PER_LINUX and PER_LINUX32, both also with UNAME26, and the question for the current one.
personalities = [0, 8, 0x20000, 0x20008, 0xFFFFFFFF]


def names(file):
    lines = (here / file).read_text().splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


def compiled(architecture):
    made = SyscallFilter(ERRNO(errno.ENOSYS))
    made.set_attr(Attr.CTL_OPTIMIZE, 2)
    if not made.exist_arch(architecture):
        made.add_arch(architecture)
        made.remove_arch(Arch.NATIVE)
    for name in names("allowed.txt"):
        made.add_rule(ALLOW, name)
    for name in names("denied.txt"):
        made.add_rule(ERRNO(errno.EPERM), name)
    # The flags of clone3 are behind a pointer, which a filter cannot read: it stays unknown, and programs use clone.
    made.add_rule(ALLOW, "clone", Arg(0, MASKED_EQ, sum(namespaces), 0))
    for flag in namespaces:
        made.add_rule(ERRNO(errno.EPERM), "clone", Arg(0, MASKED_EQ, flag, flag))
    for family in families:
        made.add_rule(ALLOW, "socket", Arg(0, EQ, family))
    for personality in personalities:
        made.add_rule(ALLOW, "personality", Arg(0, EQ, personality))
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent.parent / "server/assets/seccomp"
    folder.mkdir(parents=True, exist_ok=True)
    for name, architecture in architectures.items():
        with open(folder / f"{name}.bpf", "wb") as file:
            compiled(architecture).export_bpf(file)
