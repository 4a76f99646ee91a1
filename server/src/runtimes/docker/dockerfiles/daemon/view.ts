import { lstat, readlink } from 'node:fs/promises'
import { dirname } from 'node:path'

/*
 * The files of the machine that the build daemon sees: the system's programs, and folders of its own. The daemon runs as
 * root with all capabilities, since it makes namespaces and mounts; nothing of the machine that it has no use for is there.
 */

/** A folder or file of the machine; `link` is the target of a symbolic link. */
interface SystemFile {
  readonly path: string
  readonly link: string | null
}

/** The parts of this machine that programs need; found once for all daemons. */
export type SystemFiles = readonly SystemFile[]

const folders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64']
const etc = [
  ...['group', 'hosts', 'ld.so.cache', 'nsswitch.conf', 'passwd', 'protocols', 'resolv.conf', 'services'],
  ...['ca-certificates', 'crypto-policies', 'pki/ca-trust', 'pki/tls/certs', 'ssl/certs', 'ssl/openssl.cnf'],
  // The certificates of the operator's registries.
  'docker/certs.d',
].map((name) => `/etc/${name}`)
/** Folders that `/etc/resolv.conf` is often a link into. */
const resolvers = ['/run/systemd/resolve', '/run/NetworkManager', '/run/resolvconf']

/** Lists what this machine has of the files that programs need. */
export async function findSystemFiles(): Promise<SystemFiles> {
  const found = await Promise.all(
    [...folders, ...etc, ...resolvers].map(async (path) => {
      const info = await lstat(path).catch(() => null)
      return info === null ? [] : [{ path, link: info.isSymbolicLink() ? await readlink(path) : null }]
    }),
  )
  return found.flat()
}

export const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The places of the daemon's own folders as it sees them. */
export const daemonPlaces = { data: '/var/lib/docker', sockets: '/run/fairlead' } as const

/**
 * Returns bubblewrap's arguments for the daemon, which ends with the server and takes all of its processes along: they have a
 * namespace of pids. No process of it gains rights by running a program (`no_new_privs`).
 */
export function daemonView(
  system: SystemFiles,
  own: { readonly data: string; readonly sockets: string },
  variables: Readonly<Record<string, string>>,
): string[] {
  return [
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--hostname', 'build', '--die-with-parent'],
    ...['--cap-add', 'ALL'],
    ...programs(system.filter(({ path }) => !path.startsWith('/run/'))),
    ...['--dev', '/dev', '--proc', '/proc'],
    // The daemon makes control groups for the steps.
    ...['--ro-bind', '/sys', '/sys', '--dev-bind', '/sys/fs/cgroup', '/sys/fs/cgroup'],
    ...['--tmpfs', '/run', '--symlink', '../run', '/var/run', '--tmpfs', '/tmp'],
    ...programs(system.filter(({ path }) => path.startsWith('/run/'))),
    ...['--bind', own.data, daemonPlaces.data, '--bind', own.sockets, daemonPlaces.sockets],
    ...Object.entries({ PATH: searchPath, ...variables }).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', '/'],
  ]
}

/** Returns bubblewrap's arguments for a program that reads one folder, which is not to be found at any other path. */
export function readerView(system: SystemFiles, folder: string, at: string): string[] {
  return [
    ...['--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts', '--die-with-parent'],
    ...['--cap-drop', 'ALL', '--cap-add', 'CAP_DAC_READ_SEARCH'],
    ...programs(system.filter(({ path }) => !path.startsWith('/run/') && !path.startsWith('/etc/'))),
    ...['--dev', '/dev', '--ro-bind', folder, at],
    ...['--setenv', 'PATH', searchPath, '--setenv', 'LC_ALL', 'C', '--chdir', '/'],
  ]
}

const programs = (files: SystemFiles): string[] =>
  files.flatMap(({ path, link }) => [
    ...foldersTo(path),
    ...(link === null ? ['--ro-bind-try', path, path] : ['--symlink', link, path]),
  ])

/** The folders above a path are for everybody to enter: steps run as other users as well. */
function foldersTo(path: string): string[] {
  const parent = dirname(path)
  return parent === '/' ? [] : [...foldersTo(parent), '--perms', '0755', '--dir', parent]
}
