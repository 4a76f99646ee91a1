#!/usr/bin/env bash
# Runs a command in a copy of this checkout on a plain machine: a minimal Debian with only git, Node and npm.
#   scripts/plain-machine.sh npm test
#   scripts/plain-machine.sh --root npm test
#   scripts/plain-machine.sh --online bash -c 'npm ci && npm run demo -- --once'
# The command runs as an ordinary user, or as root with --root, and without a network. With --online it has the network and
# npm's configuration; such a machine has no node_modules until the command makes them. The machine lives in memory (1.1 GB and
# what the command writes), and ends with this script, also when the script is killed.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

user=user
online=
while [[ ${1-} == --* ]]; do
  case $1 in
    --root) user=root ;;
    --online) online=yes ;;
    *) echo "plain-machine: unknown option $1" >&2 && exit 2 ;;
  esac
  shift
done
if [ $# = 0 ]; then
  echo 'usage: scripts/plain-machine.sh [--root] [--online] COMMAND…' >&2
  exit 2
fi

if [ "$(id -u)" != 0 ]; then
  echo 'plain-machine: only root can make one: sudo scripts/plain-machine.sh …' >&2
  exit 2
fi
for program in mmdebstrap unshare setpriv flock ip; do
  if ! command -v "$program" >/dev/null; then
    echo "plain-machine: $program is missing: apt-get install mmdebstrap util-linux iproute2" >&2
    exit 2
  fi
done
if ! refusal=$(unshare --mount --pid --uts --net --fork true 2>&1); then
  echo "plain-machine: namespaces may not be made here: $refusal" >&2
  exit 2
fi
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
if [ ! -x "$checkout/node_modules/node/bin/node" ]; then
  echo 'plain-machine: it gets the Node of node_modules, which npm ci installs' >&2
  exit 2
fi

suite=bookworm
cache=${FAIRLEAD_PLAIN_MACHINE:-/var/tmp/fairlead-plain-machine}
debian=$cache/$suite
mkdir -p "$cache"
# Other runs wait until the first run has made the Debian, which gets its name when it is complete.
exec 8>"$cache/lock"
flock 8
if [ ! -d "$debian" ]; then
  rm -rf "$debian.unfinished"
  # This machine's mirror. Where apt knows none, mmdebstrap does.
  mirrors=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null || true)
  mirror=${mirrors%%$'\n'*}
  mmdebstrap --variant=minbase --include=git,ca-certificates "$suite" "$debian.unfinished" ${mirror:+"$mirror"} >&2
  mv "$debian.unfinished" "$debian"
fi
exec 8>&-

pid=
# The kernel ends the machine's first process with unshare, and all other processes with the first.
trap 'kill -KILL $pid 2>/dev/null || true' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
network=()
if [ -z "$online" ]; then network=(--net); fi
# A process in the background would ignore SIGINT, and with it the whole machine.
env --default-signal=INT setpriv --pdeathsig KILL unshare --mount --pid --uts "${network[@]}" --fork --kill-child \
  "$checkout/scripts/plain-machine-init.sh" "$checkout" "$debian" "$user" "$online" "$@" <&0 &
pid=$!
status=0
wait "$pid" || status=$?
pid=
exit "$status"
