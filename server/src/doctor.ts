import { execFile } from 'node:child_process'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { controllers, usableControllers } from './platform/cgroups.ts'
import type { Config } from './platform/config.ts'
import type { Finding } from './platform/machine/finding.ts'
import { listenAndClose } from './platform/machine/port.ts'
import { assertReachable } from './platform/machine/reach.ts'
import { serviceFindings } from './platform/service-manager/findings.ts'
import { clusterUser, isRoot } from './platform/startup/state.ts'
import { readHierarchy } from './runtimes/process/confinement/capabilities.ts'
import { findProgram } from './runtimes/process/confinement/programs.ts'
import { findSandbox } from './runtimes/process/confinement/sandbox.ts'

/** The first git whose `fetch` supports all options that the server uses (2022-06). */
const leastGit = [2, 37] as const
/** A clock that shows an earlier time is wrong, because the server was made later. */
const earliest = Date.UTC(2025, 0, 1)

/** Checks what the server needs and can use, with this configuration. Changes nothing and starts nothing. */
export async function findings(config: Config): Promise<Finding[]> {
  const found = await Promise.all([
    git(config),
    bubblewrap(config),
    prlimit(config),
    controlGroups(config),
    dataDirectory(config),
    disk(config),
    ports(config),
    clock(Date.now()),
    serviceFindings(config.dataDirectory),
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

async function bubblewrap({ path }: Config): Promise<Finding> {
  const subject = 'isolation'
  if (isRoot()) return { subject, state: 'ok', found: 'root: each app has a user of its own' }
  if ((await findSandbox(path)) !== null) return { subject, state: 'ok', found: 'bubblewrap' }
  const installed = (await findProgram('bwrap', path)) !== null
  return {
    subject,
    state: 'missing',
    found: installed
      ? 'bubblewrap is installed, but this user may not create namespaces'
      : 'neither root nor bubblewrap',
    cost: 'builds and apps can read every file that the user of the server can: deploy only code that you trust. Install bubblewrap, or run the server as root.',
  }
}

async function prlimit({ path }: Config): Promise<Finding> {
  const file = await findProgram('prlimit', path)
  if (file !== null) return { subject: 'prlimit', state: 'ok', found: file }
  const cost =
    'install util-linux: open files are not limited; without control groups, neither are memory and processes.'
  return { subject: 'prlimit', state: 'missing', found: 'not on PATH', cost }
}

const losses: Readonly<Record<(typeof controllers)[number], string>> = {
  memory: 'memory is only checked five times a second, from outside',
  cpu: 'apps are not limited to the CPUs of their plan',
  pids: 'processes are limited only for apps that run as a user of their own',
  freezer: 'apps that fork quickly take longer to end',
}

async function controlGroups({ cgroups }: Config): Promise<Finding> {
  const subject = 'control groups'
  const hierarchy = await readHierarchy(cgroups)
  const there = hierarchy === null ? [] : await usableControllers(hierarchy)
  const lost = controllers.filter((each) => !there.includes(each))
  const found =
    hierarchy === null ? 'none that this server may use' : `version ${hierarchy.version}: ${there.join(', ')}`
  if (lost.length === 0) return { subject, state: 'ok', found }
  const cost = `without ${lost.join(', ')}: ${lost.map((each) => losses[each]).join('; ')}. Run the server as a service: fairlead service install.`
  return { subject, state: 'missing', found, cost }
}

/** Checks that the users of the server can enter the data directory, or the deepest folder above it that exists. */
async function dataDirectory(config: Config): Promise<Finding> {
  const subject = 'data directory'
  try {
    await assertReachable(config.dataDirectory, clusterUser(config))
    return { subject, state: 'ok', found: config.dataDirectory }
  } catch (error) {
    return { subject, state: 'broken', found: config.dataDirectory, cost: (error as Error).message }
  }
}

async function disk({ dataDirectory, deploys }: Config): Promise<Finding> {
  const subject = 'disk'
  const free = await freeAbove(dataDirectory)
  const found = `${Math.floor(free / 1_000_000)} MB free`
  if (free >= deploys.reserveBytes) return { subject, state: 'ok', found }
  const reserve = deploys.reserveBytes / 1_000_000
  const cost = `nothing is deployed below ${reserve} MB (FAIRLEAD_RESERVE_MB). Make room for ${dataDirectory}.`
  return { subject, state: 'broken', found, cost }
}

/** Returns the free bytes of the disk of the deepest folder on this path that exists. */
async function freeAbove(path: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(path)
    return bavail * bsize
  } catch (error) {
    if (dirname(path) === path) throw error
    return freeAbove(dirname(path))
  }
}

/** Checks the ports that the server listens on. A port held by a running server of ours is fine. */
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

/** How long the program on the port of the API has to answer. */
const answerTimeoutMs = 2_000

async function isFairlead(host: string, port: number): Promise<boolean> {
  const name = host.includes(':') ? `[${host}]` : host
  try {
    const answer = await fetch(`http://${name}:${port}/healthz`, { signal: AbortSignal.timeout(answerTimeoutMs) })
    return ((await answer.json()) as { status?: unknown } | null)?.status === 'alive'
  } catch {
    return false
  }
}

/** @param now in milliseconds, by the system's clock */
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
