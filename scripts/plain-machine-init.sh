#!/usr/bin/env bash
# The first process of the machine that plain-machine.sh makes. It stays root, because the kernel does not end a process
# with its parent after the process has changed its user.
set -euo pipefail
checkout=$1 debian=$2 user=$3 online=$4
shift 4

hostname plain
if [ -z "$online" ]; then ip link set lo up; fi
# Only this machine's processes see the folder's new content, which ends with them.
root=/mnt
mount -t tmpfs -o mode=755 machine "$root"
cp -a "$debian/." "$root"
if [ "$user" != root ]; then chroot "$root" useradd --create-home --shell /bin/bash "$user"; fi
owner=$(chroot "$root" id -u "$user")
home=$(chroot "$root" bash -c "echo ~$user")
there=$home/fairlead

install -d -o "$owner" -g "$owner" "$root$there"
# The repository there has the last commit, and the files as they are here.
git clone --quiet --depth 1 --no-checkout "file://$checkout" "$root/clone"
mv "$root/clone/.git" "$root$there/.git"
rmdir "$root/clone"
(
  cd "$checkout"
  # The list includes files that are deleted here, but not yet in git.
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do
    if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\0' "$path"; fi
  done
  if [ -z "$online" ]; then find . -path ./test -prune -o -name node_modules -prune -type d -print0; fi
) | {
  # It ends with 1 when a file changed. Another hard link to a file, for example from a second checkout, counts as a
  # change.
  tar -C "$checkout" --warning=no-file-changed --exclude='node_modules/.vite*' --null --files-from=- -c || [ $? = 1 ]
} | tar -C "$root$there" -xp
chown -R "$owner:$owner" "$root$there"

cp "$checkout/node_modules/node/bin/node" "$root/usr/local/bin/node"
npm=$(readlink -f "$(command -v npm)")
mkdir -p "$root/usr/local/lib/node_modules"
cp -r "${npm%/bin/*}" "$root/usr/local/lib/node_modules/npm"
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"; done

echo plain >"$root/etc/hostname"
printf '127.0.0.1 localhost plain\n::1 localhost\n' >"$root/etc/hosts"
rm -f "$root/etc/resolv.conf"

# It gets nothing of this machine's environment, except the settings of the registry.
environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "HOME=$home" "USER=$user" "LOGNAME=$user"
  SHELL=/bin/bash LANG=C.UTF-8 "TERM=${TERM:-dumb}")
if [ -n "$online" ]; then
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  # Names that only this machine's hosts file has.
  grep -v -E '^\s*(#|127\.|::1)' /etc/hosts >>"$root/etc/hosts" || true
  for level in user global; do
    file=$(npm config get "${level}config")
    target=$([ "$level" = user ] && echo "$home/.npmrc" || echo /usr/local/etc/npmrc)
    if [ -f "$file" ]; then install -D -o "$owner" -g "$owner" -m 600 "$file" "$root$target"; fi
  done
  while IFS= read -r -d '' variable; do
    case $variable in
      # The folders of this machine, which npm tells its scripts.
      npm_config_*config=* | npm_config_*prefix=* | npm_config_cache=* | npm_config_node_gyp=* | npm_config_init_module=*) ;;
      npm_config_* | NPM_CONFIG_* | http_proxy=* | https_proxy=* | no_proxy=* | HTTP_PROXY=* | HTTPS_PROXY=* | NO_PROXY=*)
        environment+=("$variable")
        ;;
    esac
  done < <(env --null)
  if [ -f "${NODE_EXTRA_CA_CERTS-}" ]; then
    install -m 644 "$NODE_EXTRA_CA_CERTS" "$root/etc/ssl/extra.pem"
    environment+=(NODE_EXTRA_CA_CERTS=/etc/ssl/extra.pem)
  fi
  # npm trusts only the authorities in this file, and reads its path from any of its configuration files.
  authorities=$(npm config get cafile)
  if [ -f "$authorities" ]; then
    install -m 644 "$authorities" "$root/etc/ssl/npm.pem"
    environment+=(npm_config_cafile=/etc/ssl/npm.pem)
  fi
fi

mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for name in null zero full random urandom tty; do
  touch "$root/dev/$name"
  mount --bind "/dev/$name" "$root/dev/$name"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"

as_user() {
  chroot "$root" setpriv --reuid "$owner" --regid "$owner" --init-groups \
    env -i --chdir="$there" "${environment[@]}" "$@"
}
as_user git reset --quiet
# Not with exec: a first process must collect orphans, and commands do not expect that.
as_user "$@"
