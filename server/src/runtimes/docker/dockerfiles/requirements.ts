import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { Hierarchy, Yielding } from '../../../platform/cgroups.ts'
import type { Finding } from '../../../platform/finding.ts'
import { findProgram } from '../../../platform/programs.ts'
import { canLimitBuilds, openBuildGroups } from './build-groups.ts'
import { type BuildNetworks, type DaemonParts, findSystemFiles, searchPath } from './daemon.ts'

/** The programs and capabilities for builds of Dockerfiles, or the reason for their absence with advice for users. */
export type FoundParts =
  | { readonly ok: true; readonly parts: DaemonParts }
  | { readonly ok: false; readonly reason: string }

export interface MachineParts {
  readonly isRoot: boolean
  readonly networks: BuildNetworks | null
  readonly hierarchy: Hierarchy | null
  /** The subfolder for the control groups of daemons; null where the server can make none. */
  readonly yielding: Yielding | null
  readonly environment: Readonly<Record<string, string>>
  readonly fence: () => void
}

/** Every Dockerfile has these arguments for proxies. They do not appear in the history. */
const proxyNames: ReadonlySet<string> = new Set(
  ['HTTP_PROXY', 'HTTPS_PROXY', 'FTP_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
)

export const proxiesIn = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => proxyNames.has(name)))

/** Finds the programs and capabilities of this machine for builds of Dockerfiles. Starts no daemon. */
export async function findParts(machine: MachineParts): Promise<FoundParts> {
  const { isRoot, networks, hierarchy, yielding, fence, environment } = machine
  const reason = await missingForBuilds({ isRoot, hasNetworks: networks !== null, hierarchy })
  const groups = reason === null ? await openBuildGroups(yielding?.hierarchy ?? null, daemonsFolder, yielding) : null
  if (reason !== null || groups === null || networks === null) {
    const why = reason ?? noGroups
    return {
      ok: false,
      reason: `This server builds no Dockerfiles: ${why}. Deploy an image in its place, or tell the operator of the server.`,
    }
  }
  const [dockerd = '', bwrap = ''] = await Promise.all(['dockerd', 'bwrap'].map(find))
  const settings = await registrySettings()
  const programs = { dockerd, bwrap, majorVersion: await majorVersionOf(dockerd), settings }
  const system = await findSystemFiles()
  return { ok: true, parts: { programs, system, groups, networks, environment: proxiesIn(environment), fence } }
}

const find = async (program: string): Promise<string | undefined> =>
  (await findProgram(program, searchPath)) ?? undefined

const daemonsFolder = 'dockerfiles'

const noGroups = 'no control groups limit memory, CPU and processes here'

/**
 * Returns what this machine lacks for builds of Dockerfiles, as a clause; null when it lacks nothing. Changes nothing.
 */
async function missingForBuilds(machine: {
  readonly isRoot: boolean
  readonly hasNetworks: boolean
  readonly hierarchy: Hierarchy | null
}): Promise<string | null> {
  if (!machine.isRoot) return 'the server does not run as root'
  for (const program of ['dockerd', 'containerd', 'runc', 'bwrap', 'tar']) {
    if ((await find(program)) === undefined) return `${program} is not installed beside the server`
  }
  if (!machine.hasNetworks) return 'builds have no separate network on this machine'
  return (await canLimitBuilds(machine.hierarchy)) ? null : noGroups
}

export async function dockerfileFinding(machine: Parameters<typeof missingForBuilds>[0]): Promise<Finding> {
  const subject = 'Dockerfiles'
  const missing = await missingForBuilds(machine)
  return missing === null
    ? { subject, state: 'ok', found: 'each is built on a separate engine' }
    : { subject, state: 'missing', found: missing, cost: 'no Dockerfile can be deployed; images can.' }
}

const daemonSettings = z.object({
  'registry-mirrors': z.array(z.string()).default([]),
  'insecure-registries': z.array(z.string()).default([]),
})

/** Gives the daemon the registry settings of this machine's engine. */
async function registrySettings(): Promise<string[]> {
  const text = await readFile('/etc/docker/daemon.json', 'utf8').catch(() => '{}')
  const settings = daemonSettings.safeParse(parseJson(text)).data
  return [
    ...(settings?.['registry-mirrors'] ?? []).map((mirror) => `--registry-mirror=${mirror}`),
    ...(settings?.['insecure-registries'] ?? []).map((registry) => `--insecure-registry=${registry}`),
  ]
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** Parses `Docker version 20.10.24+dfsg1, build 5d6db84`; an unreadable version counts as new. */
async function majorVersionOf(dockerd: string): Promise<number> {
  const asked = promisify(execFile)(dockerd, ['--version'], { env: {}, timeout: 10_000 })
  const { stdout } = await asked.catch(() => ({ stdout: '' }))
  return Number(/version (\d+)\./.exec(stdout)?.[1] ?? Number.POSITIVE_INFINITY)
}
