// The programs that system tests use, with the Debian packages that contain them. `node scripts/system-packages.js` prints the
// packages that are missing here, on one line; it runs before `npm ci`, on any version of Node from 20.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

/** The packages that the server itself uses. */
const ofServer = JSON.parse(readFileSync(new URL('../server/assets/debian-packages.json', import.meta.url), 'utf8'))

export const systemPackages = [
  ...ofServer,
  { package: 'openssh-server', programs: ['sshd'], for: 'deploy keys' },
  { package: 'chromium-headless-shell', programs: ['chromium-headless-shell'], for: 'the dashboard' },
  { package: 'docker.io', programs: ['dockerd'], for: 'containers' },
  { package: 'iptables', programs: ['iptables'], for: 'containers' },
  { package: 'docker-registry', programs: ['docker-registry'], for: 'containers' },
  { package: 'pebble', programs: ['pebble'], for: 'certificates' },
  { package: 'knot', programs: ['knotd'], for: 'DNS' },
  { package: 'bind9-dnsutils', programs: ['nsupdate'], for: 'DNS' },
  { package: 'unbound', programs: ['unbound'], for: 'DNS' },
  { package: 'postgresql-client', programs: ['psql'], for: 'connections to databases' },
  { package: 'systemd-container', programs: ['systemd-nspawn'], for: 'the service' },
  { package: 'mmdebstrap', programs: ['mmdebstrap'], for: 'the service and the plain machine' },
  { package: 'e2fsprogs', programs: ['mkfs.ext4'], for: 'full disks and quotas' },
  { package: 'btrfs-progs', programs: ['mkfs.btrfs'], for: 'full disks and quotas' },
  { package: 'ruby', programs: ['ruby'], for: 'apps in Ruby' },
  { package: 'php-cli', programs: ['php'], for: 'apps in PHP' },
  { package: 'python3-venv', python: 'ensurepip', for: 'apps in Python' },
  { package: 'python3-seccomp', python: 'seccomp', for: 'the filter of system calls' },
]

const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** Returns the entries whose programs or Python modules are missing on this machine. */
export function missingPackages() {
  return systemPackages.filter(
    ({ programs = [], python }) =>
      !programs.every((program) => folders.some((folder) => existsSync(`${folder}/${program}`))) ||
      (python !== undefined && spawnSync('/usr/bin/python3', ['-c', `import ${python}`]).status !== 0),
  )
}

if (process.argv[1]?.endsWith('system-packages.js')) {
  process.stdout.write(
    `${missingPackages()
      .map((each) => each.package)
      .join(' ')}\n`,
  )
}
