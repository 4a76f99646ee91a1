import { chmod, mkdir, realpath, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { readOptional } from '../files.ts'
import { makePassableDirectory } from '../reachable-files.ts'
import { currentLink, programOf } from '../versions/versions.ts'

/** The unit of the server, and the units of processes that systemd must not end with the server. */
export const serverUnitName = 'fairlead.service'
export const appsUnitName = 'fairlead-apps.service'
export const buildsUnitName = 'fairlead-builds.service'
const groupUnits = `${appsUnitName} ${buildsUnitName}`
export const unitFolder = '/etc/systemd/system'
export const environmentFile = '/etc/fairlead/fairlead.env'

export interface UnitSettings {
  readonly node: string
  readonly dataDirectory: string
  /** An ordinary account; `null` for root. */
  readonly user: string | null
  /** True when a server of an ordinary account listens on ports below 1024, as the edge does. Root always may. */
  readonly hasLowPorts: boolean
}

/**
 * Returns the texts of the units by their names.
 *
 * @throws Error for a path or name with characters that have a meaning in units
 */
export function unitsFor(settings: UnitSettings): Readonly<Record<string, string>> {
  for (const value of [settings.node, settings.dataDirectory, settings.user ?? '']) assertPlain(value)
  return settings.user === null
    ? { [serverUnitName]: serverUnit(settings), [appsUnitName]: appsUnit, [buildsUnitName]: buildsUnit }
    : { [serverUnitName]: serverUnit(settings) }
}

/** Reads the settings back from a unit; `null` when the unit starts something else. */
export function settingsOf(unit: string): UnitSettings | null {
  const [, node, dataDirectory] = /^ExecStart=(\S+) .*serve --data-dir (\S+)$/m.exec(unit) ?? []
  if (node === undefined || dataDirectory === undefined) return null
  const user = /^User=(\S+)$/m.exec(unit)?.[1] ?? null
  return { node, dataDirectory, user, hasLowPorts: user !== null && /^AmbientCapabilities=/m.test(unit) }
}

function assertPlain(value: string): void {
  if (/^[\w/.@+-]*$/.test(value)) return
  throw new Error(
    `"${value}" cannot be written into a unit of systemd: use letters, digits and the characters / . _ @ + -`,
  )
}

const serverUnit = (settings: UnitSettings): string => `# Written by: fairlead service install
# Settings belong into ${environmentFile}, changes of this unit into: systemctl edit fairlead
[Unit]
Description=Fairlead, a cloud platform that you run yourself
Wants=network-online.target
After=network-online.target${settings.user === null ? ` ${groupUnits}\nRequires=${groupUnits}` : ''}
# A server that cannot start is tried again for as long as it takes, for example until its database is back.
StartLimitIntervalSec=0

[Service]
Type=notify
# A separate program sends the messages, and after a handover another server does.
NotifyAccess=all
${settings.user === null ? '' : `User=${settings.user}\n`}ExecStart=${settings.node} --max-semi-space-size=2 ${programOf(currentLink(settings.dataDirectory))} serve --data-dir ${settings.dataDirectory}
# The program kill is not installed everywhere; the shell's builtin is.
ExecReload=/bin/sh -c 'kill -HUP $MAINPID'
${settings.user === null ? `Environment=FAIRLEAD_CGROUPS=${appsUnitName}\n` : ''}EnvironmentFile=-${environmentFile}
# PostgreSQL, the gateway and apps outlive the server.
Environment=FAIRLEAD_ON_STOP=server
KillMode=process
Restart=always
RestartSec=1
WatchdogSec=60
# PostgreSQL may have to recover from a crash first.
TimeoutStartSec=15min
TimeoutStopSec=90
# A server that hangs is not asked for long.
TimeoutAbortSec=10
LimitNOFILE=524288
TasksMax=infinity
# When a process runs out of memory, only that process ends.
OOMPolicy=continue

${hardening(settings)}
[Install]
WantedBy=multi-user.target
`

/**
 * systemd cannot start a process in a control group whose children have limits, and apps keep running in such children
 * while the server restarts. So they have a separate unit.
 */
const appsUnit = unitOfGroups(
  "The control group of Fairlead's apps",
  `# The group exists as long as it has a process; the server makes a group in it for each app.
# Stopping this unit stops the server and its apps.`,
)

/** The kernel lets a group give way to its siblings, so builds have a unit beside the server's and the apps'. */
const buildsUnit = unitOfGroups(
  "The control group of Fairlead's builds, which gives way to those beside it",
  `# The server makes a group in this one for each build and for git, and sets the share of the CPU that all of them have.
# Stopping this unit stops the server and all builds.`,
)

function unitOfGroups(description: string, comment: string): string {
  return `# Written by: fairlead service install
[Unit]
Description=${description}

[Service]
${comment}
Type=exec
ExecStart=/bin/sleep infinity
Delegate=yes
Restart=always
TasksMax=infinity
# What exceeds its memory ends alone.
OOMPolicy=continue
OOMScoreAdjust=-900
`
}

/** Caddy inherits this right from the server. So do apps and builds, except in a sandbox, which gives up all rights. */
const lowPorts = `# The edge listens on the ports of the web.
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_NET_BIND_SERVICE
`

/** Apps and builds inherit most of this, so nothing here may break unknown programs. */
function hardening({ dataDirectory, user, hasLowPorts }: UnitSettings): string {
  const common = `# Apps and builds inherit all of this.
NoNewPrivileges=yes
# All that is written belongs to the data directory; the temporary folders are shared with apps that an earlier server
# started, and hold sockets: so no PrivateTmp=.
ProtectSystem=strict
ReadWritePaths=${dataDirectory} -/tmp -/var/tmp
# Not "yes": Node, the package and local repositories may lie there.
ProtectHome=read-only
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelModules=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
# Left out: MemoryDenyWriteExecute= (JavaScript is compiled while it runs), RestrictNamespaces= (bubblewrap and browsers
# make namespaces), PrivateNetwork= and IPAddressDeny= (apps are public), UMask= (apps choose the modes of their files).
`
  return user === null
    ? `${common}# Root, but with no more than it takes to run PostgreSQL, builds and apps as separate users and in sandboxes
# (CAP_SYS_ADMIN, CAP_SETPCAP), to see their sockets and memory, to limit them, to make and enter their networks, and to
# listen on ports below 1024.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_SETGID CAP_SETPCAP CAP_SETUID CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_SYS_RESOURCE
ProtectKernelLogs=yes
# The names of networks, which systems share.
RuntimeDirectory=netns
RuntimeDirectoryPreserve=yes
# Other users see their own processes only.
ProtectProc=invisible
# Left out: ProtectControlGroups= (the server writes to the groups of its apps), ProtectKernelTunables= (it sets tunables of
# its networks), User= and PrivateUsers= (each app has a separate user; see --user).
`
    : `${common}${hasLowPorts ? lowPorts : 'CapabilityBoundingSet=\n'}ProtectControlGroups=yes
# Left out: ProtectProc=, ProtectKernelLogs= and ProtectKernelTunables=, which cover parts of /proc: bubblewrap could then
# show no /proc to apps.
`
}

/**
 * Returns how each unit on this machine differs from what this version would write; units that do not differ are left
 * out.
 */
export async function unitDrift(settings: UnitSettings): Promise<Readonly<Record<string, readonly string[]>>> {
  const drift: Record<string, readonly string[]> = {}
  for (const [name, text] of Object.entries(unitsFor(settings))) {
    const present = await readOptional(join(unitFolder, name))
    if (present !== undefined && present !== text) drift[name] = differingLines(present, text)
    else if (present === undefined) drift[name] = ['The unit is missing.']
  }
  return drift
}

/**
 * Returns the settings of the installed unit; `undefined` when none is installed, `null` when Fairlead did not write
 * it.
 */
export async function installedSettings(unit: string): Promise<UnitSettings | null | undefined> {
  const text = await readOptional(join(unitFolder, unit))
  return text === undefined ? undefined : settingsOf(text)
}

/** Writes the units, readable for everybody as units are. */
export async function writeUnits(settings: UnitSettings): Promise<void> {
  for (const [name, text] of Object.entries(unitsFor(settings))) {
    await writeFile(join(unitFolder, name), text)
    await chmod(join(unitFolder, name), 0o644)
  }
}

/**
 * Creates a file that only root can read, because settings may be secrets. An existing file is kept. Returns true when
 * it is new.
 */
export async function writeOnce(path: string, text: string): Promise<boolean> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  try {
    await writeFile(path, text, { mode: 0o600, flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/**
 * Makes the link to the version that the service runs, unless there is one. An existing link is kept: an update points
 * it at the version that it installed. Returns the real path of the version.
 */
export async function linkCurrentVersion(dataDirectory: string, packageRoot: string): Promise<string> {
  const link = currentLink(dataDirectory)
  await makePassableDirectory(dirname(link))
  await symlink(packageRoot, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  return realpath(link)
}

/**
 * Returns the lines that differ between two texts, in order: `-` for lines only in the first text, `+` for lines only
 * in the second.
 */
export function differingLines(before: string, after: string): string[] {
  const a = before.split('\n')
  const b = after.split('\n')
  const common = commonLengths(a, b)
  const lines: string[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    const [inA, inB] = [a[i], b[j]]
    if (inA !== undefined && inA === inB) {
      i++
      j++
    } else if (inB === undefined || (inA !== undefined && at(common, i + 1, j) >= at(common, i, j + 1))) {
      lines.push(`- ${inA}`)
      i++
    } else {
      lines.push(`+ ${inB}`)
      j++
    }
  }
  return lines
}

/** Returns the length of the longest common subsequence of the lines from each pair of positions on. */
function commonLengths(a: readonly string[], b: readonly string[]): number[][] {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const length = a[i] === b[j] ? at(table, i + 1, j + 1) + 1 : Math.max(at(table, i + 1, j), at(table, i, j + 1))
      ;(table[i] as number[])[j] = length
    }
  }
  return table
}

const at = (table: readonly (readonly number[])[], i: number, j: number): number => table[i]?.[j] ?? 0
