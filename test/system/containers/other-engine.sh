#!/usr/bin/env bash
# Runs a command with the Docker engine of another release of Debian in place of the machine's, which stays as it is:
#   test/system/containers/other-engine.sh trixie npx vitest run test/system/containers
# The packages are downloaded and unpacked into a folder, and mounted over the machine's programs for the command alone.
set -euo pipefail
suite=$1
shift
folder=${FAIRLEAD_TEST_ENGINES:-/var/tmp/fairlead-test-engines}/$suite
if [ ! -x "$folder/root/usr/sbin/dockerd" ]; then
  mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,parts,root}
  touch "$folder/state/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$folder/sources.list"
  apt=(-o "Dir::State=$folder/state" -o "Dir::State::status=$folder/state/status" -o "Dir::Cache=$folder/cache"
    -o "Dir::Etc::sourcelist=$folder/sources.list" -o "Dir::Etc::sourceparts=$folder/parts" -o APT::Sandbox::User=root)
  (
    cd "$folder"
    apt-get "${apt[@]}" update
    apt-get "${apt[@]}" download docker.io
    for package in ./*.deb; do dpkg -x "$package" root; done
  ) >&2
fi
"$folder/root/usr/sbin/dockerd" --version >&2
exec unshare --mount --propagation private bash -c '
  for program in dockerd docker-proxy; do mount --bind "$0/$program" "$(command -v "$program")"; done
  exec "$@"' "$folder/root/usr/sbin" "$@"
