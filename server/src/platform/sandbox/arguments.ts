import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, type Stats, statSync, writeFileSync } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { memoryFolders } from '../processes.ts'

/** The folders that a sandboxed command sees besides the system and its own processes. All paths are absolute. */
export interface SandboxView {
  readonly system?: readonly SystemPart[]
  /** Readable files and folders; missing paths are ignored. */
  readonly readable: readonly string[]
  readonly writable: readonly string[]
  /**
   * Folders that also appear at another path, where they are writable, too. Ignored at a path inside or above anything
   * else that is visible.
   */
  readonly placed?: readonly { readonly from: string; readonly at: string }[]
  /** Folders that are empty inside except for mounts, even when they lie in a folder of the system. */
  readonly hidden: readonly string[]
  /** Folders and files that appear at another path, read-only. */
  readonly mounted?: readonly { readonly from: string; readonly at: string }[]
  /** Symbolic links in hidden folders, or in place of files of the system. */
  readonly links?: readonly { readonly at: string; readonly to: string }[]
  /** A folder that the caller has opened and checked: exactly this one appears at another path, read-only. */
  readonly opened?: { readonly realPath: string; readonly at: string }
  /** True for a separate network with nothing in it. */
  readonly isOffline?: boolean
  /** True to end the command when the server ends, even when the server is killed. */
  readonly endsWithServer?: boolean
  readonly directory: string
  /**
   * Environment variables of the command. Not for commands that first give up their user: variables can change
   * programs.
   */
  readonly variables?: Readonly<Record<string, string>>
}

/** The size of each folder in memory. Its content counts as memory of the command. */
const mostMemoryBytes = 64 * 1024 * 1024

/** The folder that the caller has opened. */
export const openedDescriptor = 6

/**
 * The capabilities that are needed to enter the working directory, and then to give up the user and all capabilities.
 */
const capabilities = ['CAP_DAC_READ_SEARCH', 'CAP_SETGID', 'CAP_SETUID', 'CAP_SETPCAP']

/**
 * Returns bubblewrap's arguments: the command reads the system, writes its own folders, and sees only its own
 * processes. It has separate mounts, processes, shared memory and host name, and shares the network of the caller.
 *
 * @param options.isModern see `Sandbox`
 * @param options.bindsDescriptors see `Sandbox`
 * @param options.hasSystemV true when the namespace of System V memory and message queues already exists
 * @param options.isRoot true when root runs bubblewrap: it needs no user namespace, and a filter forbids user
 * namespaces
 */
export function sandboxArguments(
  options: {
    readonly isModern: boolean
    readonly isRoot: boolean
    readonly bindsDescriptors: boolean
    readonly hasSystemV: boolean
    readonly system: readonly SystemEntry[]
    /** Links in `system` lead into its folder. */
    readonly copies: Pick<FileCopies, 'directory'> | null
  },
  view: SandboxView,
): string[] {
  const { isModern, isRoot, copies } = options
  const { readable, writable, hidden, mounted = [], links = [], opened, directory, variables = {} } = view
  const memory = [...(isRoot ? ['--perms', '1777'] : []), ...(isModern ? ['--size', String(mostMemoryBytes)] : [])]
  // Bubblewrap cannot mount over a link.
  const covered = new Set([...readable, ...writable, ...[...mounted, ...links].map(({ at }) => at)])
  const system = options.system.filter(({ part, path }) => (view.system?.includes(part) ?? true) && !covered.has(path))
  const files = system.filter(({ link }) => link === null).map(({ path }) => path)
  const inMemory = (path: string) => memoryFolders.some((folder) => path.startsWith(`${folder}/`))
  const parents = new Set<string>()
  /** Run by root, bubblewrap would make the parent folders of a mount accessible only to root. */
  const withParents = (args: string[]): string[] => [...(isRoot ? foldersTo(args.at(-1) ?? '', parents) : []), ...args]
  const bound = (path: string, at = path) => withParents(['--ro-bind-try', path, at])
  return [
    ...(copies === null ? [] : bound(copies.directory, copiesInside)),
    ...files.filter((path) => !inMemory(path)).flatMap((path) => bound(path)),
    ...system.flatMap(({ path, link }) => (link === null ? [] : withParents(['--symlink', link, path]))),
    ...['--dev', '/dev', '--proc', '/proc'],
    ...memoryFolders.flatMap((folder) => [...memory, '--tmpfs', folder]),
    ...files.filter(inMemory).flatMap((path) => bound(path)),
    ...hidden.flatMap((folder) => withParents(['--tmpfs', folder])),
    ...readable.flatMap((path) => bound(path)),
    ...mounted.flatMap(({ from, at }) => bound(from, at)),
    ...(opened === undefined ? [] : openedArguments(opened, options)),
    ...writable.flatMap((folder) => withParents(['--bind', folder, folder])),
    ...placedArguments(view, system).flatMap(withParents),
    ...links.flatMap(({ at, to }) => withParents(['--symlink', to, at])),
    // Bubblewrap's mount points are in memory, too. Read-only, no command can fill them.
    ...[...hidden, '/dev', '/'].flatMap((folder) => ['--remount-ro', folder]),
    ...namespaces(options),
    ...(view.isOffline === true ? ['--unshare-net'] : []),
    ...(view.endsWithServer === true ? ['--die-with-parent'] : []),
    ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--chdir', directory],
  ]
}

/**
 * Returns the mounts of the folders in `placed`. Leaves out paths within another mount: bubblewrap would make the
 * parent folders inside the mounted folder, and follow its links.
 *
 * @param system the visible entries of the system
 */
function placedArguments(view: SandboxView, system: readonly SystemEntry[]): string[][] {
  const { readable, writable, hidden, mounted = [], links = [], placed = [] } = view
  const others = [...system.map(({ path }) => path), ...[...mounted, ...links].map(({ at }) => at)]
  const taken = [...memoryFolders, '/dev', '/proc', ...hidden, ...readable, ...writable, ...others]
  const isFree = (at: string) =>
    !taken.some((path) => `${path}/`.startsWith(`${at}/`) || `${at}/`.startsWith(`${path}/`))
  return placed.filter(({ at }) => isFree(at)).map(({ from, at }) => ['--bind', from, at])
}

/**
 * Returns arguments that make the folders above a path, open to everybody. Skips folders in `made`, and adds the others
 * to it.
 */
function foldersTo(path: string, made: Set<string>): string[] {
  const parent = dirname(path)
  if (parent === '/' || made.has(parent)) return []
  made.add(parent)
  return [...foldersTo(parent, made), '--perms', '0755', '--dir', parent]
}

/** Bubblewrap compares its mount with the descriptor, so that the folder cannot be exchanged in between. */
function openedArguments(
  { realPath, at }: NonNullable<SandboxView['opened']>,
  { bindsDescriptors }: { readonly bindsDescriptors: boolean },
): string[] {
  return bindsDescriptors ? ['--ro-bind-fd', String(openedDescriptor), at] : ['--ro-bind', realPath, at]
}

function namespaces(options: {
  readonly isModern: boolean
  readonly isRoot: boolean
  readonly hasSystemV: boolean
}): string[] {
  const { isModern, isRoot, hasSystemV } = options
  const own = ['--unshare-pid', '--unshare-uts', '--unshare-cgroup-try', '--cap-drop', 'ALL']
  if (!hasSystemV) own.unshift('--unshare-ipc')
  if (isRoot) return [...own, ...capabilities.flatMap((each) => ['--cap-add', each])]
  return [...own, ...userNamespace(isModern)]
}

/** Returns arguments for a user namespace. A modern bubblewrap allows no further user namespaces in it. */
export const userNamespace = (isModern: boolean): string[] =>
  isModern ? ['--unshare-user', '--disable-userns', ...sameUser()] : ['--unshare-user-try']

/** In the network of an app, the server's user appears as root. Commands must not appear as root. */
function sameUser(): string[] {
  const [uid, gid] = [process.getuid?.(), process.getgid?.()]
  return uid === undefined || gid === undefined ? [] : ['--uid', String(uid), '--gid', String(gid)]
}

const copiesInside = '/.etc'

/**
 * The files of /etc that sandboxed commands can read. A sandbox shows this one folder, and links into it: a mount for
 * each file would take bubblewrap longer than all other steps.
 */
export interface FileCopies {
  readonly directory: string
  /** Updates the copies. In the result, links to the copies replace files. */
  linked(system: readonly SystemEntry[]): SystemEntry[]
}

/**
 * @param directory an absolute path; made when it is needed
 * @param folder the folder of the files
 */
export function createFileCopies(directory: string, folder = '/etc'): FileCopies {
  const versions = new Map<string, string>()

  const link = (entry: SystemEntry): SystemEntry => {
    const { path } = entry
    if (entry.link !== null || !path.startsWith(`${folder}/`)) return entry
    const name = path.slice(folder.length + 1).replaceAll('/', '_')
    try {
      const stats = statSync(path, { throwIfNoEntry: false })
      if (stats === undefined || !isForEverybody(stats)) {
        versions.delete(path)
        rmSync(join(directory, name), { force: true })
        return entry
      }
      const version = [stats.dev, stats.ino, stats.size, stats.mtimeMs, stats.ctimeMs].join(' ')
      if (versions.get(path) !== version) {
        copy(path, directory, name)
        versions.set(path, version)
      }
      return { ...entry, link: join(copiesInside, name) }
    } catch {
      // The disk may be full: bubblewrap then shows the original.
      return entry
    }
  }

  return { directory, linked: (system) => system.map(link) }
}

const isForEverybody = (stats: Stats): boolean => stats.isFile() && (stats.mode & 0o004) !== 0

/** Replaces the copy atomically, also for running commands. */
function copy(from: string, directory: string, name: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o755 })
  const begun = join(directory, `.${name}.${process.pid}`)
  writeFileSync(begun, readFileSync(from))
  chmodSync(begun, 0o644)
  renameSync(begun, join(directory, name))
}

/** A file or folder of the system that sandboxed commands can read; `link` is the target of a symbolic link. */
export interface SystemEntry {
  readonly path: string
  readonly link: string | null
  readonly part: SystemPart
}

/**
 * The purpose of an entry: to run any program, to reach the network, or to run a language or program that only apps and
 * builds use. Each folder is a mount, and mounts are most of the cost of a sandbox: 45 mounts take about 20 ms.
 */
type SystemPart = 'programs' | 'network' | 'apps'

/** Programs and libraries. The topology of the CPUs tells Node and Go how many threads to start. */
const folders = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/opt',
  // The operator installs gems here on Debian.
  '/var/lib/gems',
  '/sys/devices/system/cpu',
]

/**
 * The part of /etc that programs need. The rest stays out, because other programs of the machine keep passwords there,
 * and not always in files that only they can read.
 */
const etc = {
  names: ['gai.conf', 'group', 'host.conf', 'hosts', 'networks', 'nsswitch.conf', 'passwd', 'protocols', 'resolv.conf'],
  services: ['ethertypes', 'netconfig', 'rpc', 'services'],
  certificates: ['ca-certificates', 'ca-certificates.conf', 'crypto-policies', 'ssl/certs', 'ssl/openssl.cnf'],
  certificatesOfRedHat: ['pki/ca-trust', 'pki/java', 'pki/tls/cert.pem', 'pki/tls/certs', 'pki/tls/openssl.cnf'],
  linking: ['alternatives', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d'],
  places: ['locale.alias', 'locale.conf', 'localtime', 'timezone'],
  system: ['debian_version', 'mtab', 'os-release', 'redhat-release', 'shells'],
  shells: ['bash.bashrc', 'inputrc', 'profile', 'terminfo'],
  packages: ['gemrc', 'gitconfig', 'npmrc', 'pip.conf', 'wgetrc'],
  languages: ['R', 'dotnet', 'erlang', 'ghc', 'gradle', 'maven', 'mono', 'perl', 'php'],
  documents: [
    'fonts',
    'ghostscript',
    'libreoffice',
    'magic',
    'magic.mime',
    'mime.types',
    'papersize',
    'sgml',
    'texmf',
    'xml',
  ],
} as const
const partOf: Readonly<Partial<Record<keyof typeof etc, SystemPart>>> = {
  linking: 'programs',
  names: 'network',
  services: 'network',
  certificates: 'network',
  certificatesOfRedHat: 'network',
}
const versioned = /^(java|python|ImageMagick-)/

/**
 * The folders of systemd-resolved, NetworkManager and resolvconf. `/etc/resolv.conf` is often a link into one of them.
 */
const resolvers = ['/run/systemd/resolve', '/run/NetworkManager', '/run/resolvconf']

export async function systemEntries(): Promise<SystemEntry[]> {
  const names = (await readdir('/etc').catch(() => [])).filter((name) => versioned.test(name))
  const inEtc = (Object.keys(etc) as (keyof typeof etc)[]).flatMap((group) =>
    etc[group].map((name) => ({ path: join('/etc', name), part: partOf[group] ?? 'apps' })),
  )
  const listed: Pick<SystemEntry, 'path' | 'part'>[] = [
    ...folders.map((path) => ({ path, part: 'programs' as const })),
    ...inEtc,
    ...names.map((name) => ({ path: join('/etc', name), part: 'apps' as const })),
    ...resolvers.map((path) => ({ path, part: 'network' as const })),
  ]
  const found: SystemEntry[] = []
  for (const { path, part } of listed) {
    const info = await lstat(path).catch(() => null)
    // Links stay links: programs read the time zone's name from the target, and the file behind /etc/resolv.conf is
    // replaced.
    if (info !== null) found.push({ path, part, link: info.isSymbolicLink() ? await readlink(path) : null })
  }
  return found
}
