#!/bin/sh
# Makes the programs of server/assets/enter from enter.c. Needs gcc and, for the other kind of machine, gcc-aarch64-linux-gnu.
set -eu
cd "$(dirname "$0")"
out=../../server/assets/enter
mkdir -p "$out"
flags='-Os -std=gnu11 -Wall -Wextra -Werror -static -nostdlib -ffreestanding -fno-stack-protector -fno-builtin -fno-pic -no-pie
  -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns -s -Wl,-n,--build-id=none,-z,noexecstack'
# shellcheck disable=SC2086
x86_64-linux-gnu-gcc $flags -o "$out/x64" enter.c
# shellcheck disable=SC2086
aarch64-linux-gnu-gcc $flags -mno-outline-atomics -o "$out/arm64" enter.c
