import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
import { detectors } from './builds/detectors/index.ts'
import { languagesOf } from './builds/machine-tools.ts'
import { edgeFindings } from './edge/edge.ts'
import { machineBytes } from './platform/config/deploys.ts'
import type { Config } from './platform/config.ts'
import { foreignOwner } from './platform/data-directory.ts'
import { connectionTo } from './platform/database/hosts.ts'
import { stateDatabaseFinding } from './platform/database/public-access.ts'
import { packagesWith } from './platform/debian-packages.ts'
import { hasQuotas, isOnBtrfs } from './platform/disk/btrfs.ts'
import { freeBytesIn } from './platform/disk/free-space.ts'
import { exists } from './platform/files.ts'
import type { Finding } from './platform/finding.ts'
import { isFairlead, listenAndClose } from './platform/ports.ts'
import { findProgram } from './platform/programs.ts'
import { assertReachable } from './platform/reachable-files.ts'
import { findSandbox } from './platform/sandbox/find.ts'
import { serviceFindings } from './platform/service-manager/findings.ts'
import { clusterUser, isRoot } from './platform/state.ts'
import { baseFindings, engineDiskFindings, engineFindings, findEngine } from './runtimes/docker/capabilities.ts'
import { createEngine } from './runtimes/docker/client.ts'
import { dockerfileFinding } from './runtimes/docker/dockerfiles/requirements.ts'
import { findNetworkTools, findPastaTools } from './runtimes/process/confinement/capabilities.ts'
import { buildMemory, controlGroups, placeOfBuilds } from './runtimes/process/confinement/groups.ts'

/** The first version whose `fetch` has all options that the server uses (2022-06). */
const leastGit = [2, 37] as const
/** An earlier time means a wrong clock, because the server is newer. */
const earliest = Date.UTC(2025, 0, 1)

/** Checks what the server needs and can use. Changes and starts nothing. */
export async function findings(config: Config): Promise<Finding[]> {
  const found = await Promise.all([
    git(config),
    isolationFindings(config, isRoot()),
    containers(config),
    prlimit(config),
    controlGroups(config, isRoot()),
    buildMemory(config, machineBytes()),
    dataDirectory(config),
    disk(config),
    quotas(config),
    ports(config),
    edgeFindings(config),
    clock(Date.now()),
    languages(),
    serviceFindings(config.dataDirectory),
    config.databaseUrl === undefined ? [] : stateDatabaseFinding(connectionTo(config.databaseUrl)),
  ])
  return found.flat()
}

async function git({ path }: Config): Promise<Finding> {
  const text = await output('git', ['--version'], path)
  const subject = 'git'
  const cost = `install git ${leastGit.join('.')} or newer: nothing can be deployed without it.`
  if (text === null) return { subject, state: 'broken', found: 'not on PATH', cost }
  return isGitEnough(text)
    ? { subject, state: 'ok', found: text }
    : { subject, state: 'broken', found: `${text}, which is too old`, cost }
}

/** True when the output of `git --version` names a version that is new enough. */
export function isGitEnough(text: string): boolean {
  const [, major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(text) ?? []).map(Number)
  return major > leastGit[0] || (major === leastGit[0] && minor >= leastGit[1])
}

/** Checks the isolation of builds and apps from each other and from the machine, for a server with or without root. */
export const isolationFindings = (config: Config, asRoot: boolean): Promise<Finding[]> =>
  Promise.all([bubblewrap(config, asRoot), networks(config, asRoot)])

async function bubblewrap({ path }: Config, asRoot: boolean): Promise<Finding> {
  const subject = 'isolation'
  const ownUsers = asRoot ? 'each app has a separate user' : null
  const sandbox = await findSandbox(path, asRoot)
  if (sandbox !== null) {
    return { subject, state: 'ok', found: ['bubblewrap', ownUsers].filter((each) => each !== null).join('; ') }
  }
  const installed = (await findProgram('bwrap', path)) !== null
  const found = installed ? 'bubblewrap is installed, but cannot make namespaces here' : 'no bubblewrap'
  const cost = asRoot
    ? 'builds and apps can see the processes of this machine, and read the files that every user can. Install bubblewrap 0.8 or newer.'
    : 'builds and apps can read every file that the user of the server can: deploy only code that you trust. Install bubblewrap.'
  return { subject, state: 'missing', found: [found, ownUsers].filter((each) => each !== null).join('; '), cost }
}

/**
 * Checks only for the programs: a test whether the kernel allows networks would change the machine, so the start of the
 * server does it.
 */
async function networks({ appNetwork, path }: Config, asRoot: boolean): Promise<Finding> {
  const subject = 'networks'
  const cost =
    'apps share the network of this machine: they reach its services and each other, and can answer on the port of a release that has ended.'
  if (appNetwork === null) return { subject, state: 'missing', found: 'FAIRLEAD_APP_NETWORK=none', cost }
  const tools = asRoot ? await findNetworkTools() : await findPastaTools()
  if (!asRoot && (await findSandbox(path, false))?.isModern !== true) {
    return { subject, state: 'missing', found: 'no bubblewrap 0.8 or newer', cost: `${cost} Install bubblewrap.` }
  }
  if (tools !== null) return { subject, state: 'ok', found: 'each app has a separate network' }
  const programs = asRoot ? ['ip', 'nft', 'nsenter'] : ['pasta', 'nft', 'nsenter', 'setpriv']
  const found = `${new Intl.ListFormat('en', { type: 'disjunction' }).format(programs)} is missing`
  return { subject, state: 'missing', found, cost: `${cost} Install ${packagesWith(...programs)}.` }
}

async function containers({ docker, cgroups, appNetwork, dataDirectory, deploys }: Config): Promise<Finding[]> {
  if (docker !== null) {
    const hasNetworks = appNetwork !== null && (await findNetworkTools()) !== null
    const machine = { isRoot: isRoot(), hasNetworks, hierarchy: (await placeOfBuilds(cgroups))?.hierarchy ?? null }
    const found = await findEngine(createEngine(docker.socket), 0)
    const disks = await engineDiskFindings(found, dataDirectory, deploys.reserveBytes)
    const first = [...engineFindings(found, docker.socket), ...disks]
    return [...first, await dockerfileFinding(machine), ...baseFindings(docker)]
  }
  const cost = 'images and Dockerfiles cannot be deployed. FAIRLEAD_RUNTIME=process,docker turns them on.'
  return [{ subject: 'containers', state: 'absent', found: 'no Docker engine is configured', cost }]
}

async function prlimit({ path }: Config): Promise<Finding> {
  const file = await findProgram('prlimit', path)
  if (file !== null) return { subject: 'prlimit', state: 'ok', found: file }
  const cost = 'install util-linux: open files are not limited; without control groups, neither are processes.'
  return { subject: 'prlimit', state: 'missing', found: 'not on PATH', cost }
}

/** Checks that the server's users can enter the data directory, or its deepest existing parent. */
async function dataDirectory(config: Config): Promise<Finding> {
  const subject = 'data directory'
  try {
    await assertReachable(config.dataDirectory, clusterUser(config))
    const cost = await foreignOwner(config.dataDirectory)
    if (cost !== null) return { subject, state: 'missing', found: config.dataDirectory, cost }
    return { subject, state: 'ok', found: config.dataDirectory }
  } catch (error) {
    return { subject, state: 'broken', found: config.dataDirectory, cost: (error as Error).message }
  }
}

async function disk({ dataDirectory, deploys }: Config): Promise<Finding> {
  const subject = 'disk'
  const free = await freeBytesIn(await deepestFolder(dataDirectory))
  const found = `${Math.floor(free / 1_000_000)} MB free`
  if (free >= deploys.reserveBytes) return { subject, state: 'ok', found }
  const reserve = deploys.reserveBytes / 1_000_000
  const cost = `nothing is deployed below ${reserve} MB (FAIRLEAD_RESERVE_MB). Make room for ${dataDirectory}.`
  return { subject, state: 'broken', found, cost }
}

async function deepestFolder(path: string): Promise<string> {
  return dirname(path) === path || (await exists(path)) ? path : deepestFolder(dirname(path))
}

/**
 * Reports whether the file system enforces the disk limits of apps. Otherwise the server measures sizes, which usually
 * suffices.
 */
async function quotas({ dataDirectory }: Config): Promise<Finding> {
  const subject = 'quotas'
  const folder = await deepestFolder(dataDirectory)
  const cost =
    'sizes of apps are measured every few seconds; between two measurements an app can exceed its limit (app_gb of its plan, FAIRLEAD_APP_MB).'
  if (!isRoot() || !(await isOnBtrfs(folder))) {
    return { subject, state: 'absent', found: isRoot() ? 'not on btrfs' : 'only root sets them', cost }
  }
  if (await hasQuotas(folder)) return { subject, state: 'ok', found: 'btrfs holds new apps to their limits' }
  const found = 'btrfs without quotas, or without btrfs-progs'
  return { subject, state: 'missing', found, cost: `${cost} Install btrfs-progs and run: btrfs quota enable ${folder}` }
}

async function ports({ host, port, apps }: Config): Promise<Finding[]> {
  const runs = await isFairlead(host, port)
  const found = [await portFinding('API port', host, port, runs)]
  if (apps.mode === 'hostnames') found.push(await portFinding('gateway port', host, apps.gatewayPort, runs))
  return found
}

async function portFinding(subject: string, host: string, port: number, runs: boolean): Promise<Finding> {
  const error = await listenAndClose(port, host)
  if (error === null) return { subject, state: 'ok', found: `${host}:${port} is free` }
  if (runs && error.code === 'EADDRINUSE') return { subject, state: 'ok', found: `${host}:${port}: the server runs` }
  const found = `${host}:${port}: ${error.message}`
  const cost = 'another program listens there, or this user may not listen there. Choose another port.'
  return { subject, state: 'broken', found, cost }
}

/** Only information: an app in a missing language fails with the same advice. */
async function languages(): Promise<Finding[]> {
  const all = await languagesOf(detectors)
  return all.map(({ name, there, missing }) => ({
    subject: `apps in ${name}`,
    state: there.length === 0 ? 'absent' : 'ok',
    found: [there.join(', '), missing.length === 0 ? '' : `no ${missing.join(', no ')}`].filter(Boolean).join('; '),
  }))
}

/** @param now the system clock, in milliseconds of Unix time */
export function clock(now: number): Finding {
  const found = new Date(now).toISOString()
  if (now >= earliest) return { subject: 'clock', state: 'ok', found }
  const cost =
    'the clock is wrong: certificates, signatures of webhooks and sessions fail. Set it, and keep it set with NTP.'
  return { subject: 'clock', state: 'broken', found, cost }
}

function output(program: string, args: readonly string[], path: string): Promise<string | null> {
  return new Promise((done) => {
    execFile(program, args, { env: { PATH: path }, timeout: 5_000 }, (error, stdout) =>
      done(error === null ? stdout.trim() : null),
    )
  })
}
