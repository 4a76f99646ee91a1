import { lstat, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'

/** A file or folder of the system that sandboxed commands can read; `link` is the target of a symbolic link. */
export interface SystemEntry {
  readonly path: string
  readonly link: string | null
  readonly part: SystemPart
}

/**
 * Entries serve to run programs at all, to reach the network, or some language or program that only apps and builds have.
 * Each folder is a mount, and mounts are most of what a sandbox costs: 45 of them take some 20 ms.
 */
export type SystemPart = 'programs' | 'network' | 'apps'

/** Folders with programs and libraries. The topology of the CPUs tells Node and Go how many threads to start. */
const folders = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/opt',
  // Debian puts gems there that the operator installs.
  '/var/lib/gems',
  '/sys/devices/system/cpu',
]

/**
 * The part of /etc that programs need. The rest stays out, because other programs of the machine keep passwords there, and
 * not always in files that only they can read.
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

/** systemd-resolved's, NetworkManager's and resolvconf's folders, which `/etc/resolv.conf` is often a link into. */
const resolvers = ['/run/systemd/resolve', '/run/NetworkManager', '/run/resolvconf']

/** Lists what this machine has of the system's files that sandboxed commands can read. */
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
    // Links stay links: the name of the time zone is the target of one, and the file behind /etc/resolv.conf is replaced.
    if (info !== null) found.push({ path, part, link: info.isSymbolicLink() ? await readlink(path) : null })
  }
  return found
}
