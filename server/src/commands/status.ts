import { Command } from 'commander'
import { loadConfig } from '../platform/config.ts'
import { createLogger } from '../platform/logger.ts'
import { chosenDirectory } from './data-directory.ts'
import type { Status } from './machine-status.ts'
import { dataDirOption, printTable, type StateFlags } from './shared.ts'

interface StatusFlags extends StateFlags {
  readonly json?: boolean
}

/** `fairlead status`: exits with 0 when all desired parts run, 1 when a part does not run, 3 when no server runs. */
export function statusCommand(): Command {
  return new Command('status')
    .description('show what runs of the data directory, since when and in which version; starts nothing')
    .option('--json', 'print JSON')
    .addOption(dataDirOption())
    .action(async (flags: StatusFlags) => {
      const config = loadConfig({ dataDir: await chosenDirectory(flags.dataDir) })
      const { statusOf } = await import('./machine-status.ts')
      const status = await statusOf(config, createLogger({ level: 'fatal', destination: 'stderr' }))
      if (flags.json === true) process.stdout.write(`${JSON.stringify(status, null, 2)}\n`)
      else print(status, Date.now())
      if (status.servers.length === 0) process.exitCode = 3
      else if (status.problems.length > 0) process.exitCode = 1
    })
}

function print(status: Status, now: number): void {
  const part = ({ pid, since }: { readonly pid: number | null; readonly since: string | null }) => [
    pid === null ? 'not running' : String(pid),
    since === null ? '' : ago(now - Date.parse(since)),
  ]
  printTable([
    ['PART', 'VERSION', 'PID', 'SINCE', 'STATE'],
    ...status.servers.map((server) => [
      'server',
      server.version,
      ...part(server),
      [
        server.state,
        ...(server.leading === null ? [] : [server.leading ? 'leading' : 'following']),
        server.url ?? '',
      ].join(' '),
    ]),
    ...status.edges.map((edge) => ['edge', edge.version ?? '?', ...part(edge), 'Caddy']),
    ...status.gateways.map((gateway) => ['gateway', gateway.version, ...part(gateway), '']),
    ...status.clusters.map((cluster) => [
      'PostgreSQL',
      cluster.version,
      ...part(cluster),
      cluster.purpose === 'state' ? "the server's own" : "users' databases",
    ]),
    ...status.builds.map((build) => ['build', '', ...part(build), `the Dockerfile of ${build.deployment_id}`]),
  ])
  if (status.apps.length > 0) {
    process.stdout.write('\n')
    printTable([
      ['APP', 'PROJECT', 'DEPLOYMENT', 'STATUS', 'PID', 'SINCE', 'MEMORY'],
      ...status.apps.map((app) => [
        app.name ?? '?',
        app.project ?? '?',
        app.deployment_id,
        app.status ?? '?',
        app.pid === null ? (app.site ? 'gateway' : '-') : String(app.pid),
        app.since === null ? '-' : ago(now - Date.parse(app.since)),
        app.memory_bytes === null ? '-' : `${Math.round(app.memory_bytes / 1e6)} MB`,
      ]),
    ])
  }
  // After a clean stop nothing runs, so no names are missing.
  if (status.unread !== null && (status.servers.length > 0 || status.apps.length > 0)) {
    process.stdout.write(`\nthe names of apps, and which should run, could not be read: ${status.unread}\n`)
  }
  if (status.servers.length === 0) {
    process.stdout.write(status.apps.length === 0 ? '\nno server runs, and no app\n' : '\nno server runs\n')
  } else for (const problem of status.problems) process.stdout.write(`\n${problem}\n`)
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const

/** Returns a duration in its two largest units, such as `3 h 5 min`. */
function ago(ms: number): string {
  const first = units.findIndex(([, size]) => ms >= size)
  if (first < 0) return '0 s'
  let left = ms
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const count = Math.floor(left / size)
      left -= count * size
      return `${count} ${unit}`
    })
    .filter((text) => !text.startsWith('0 '))
    .join(' ')
}
