import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { controllers, usableControllers } from './platform/cgroups.ts'
import type { Config } from './platform/config.ts'
import { assertReachable } from './platform/reach.ts'
import { clusterUser, isRoot } from './platform/state.ts'
import { readHierarchy } from './runtimes/process/confinement/capabilities.ts'
import { findProgram } from './runtimes/process/confinement/programs.ts'
import { findSandbox } from './runtimes/process/confinement/sandbox.ts'

/** One thing looked at. `broken`: the server cannot run so; `missing`: it runs with less, as `cost` says. */
export interface Finding {
  readonly what: string
  readonly state: 'well' | 'missing' | 'broken'
  readonly found: string
  readonly cost?: string
}

/** The first git whose `fetch` takes all that is asked of it (2022-06). */
const leastGit = [2, 37] as const
/** The server was made later than this: a clock before it is wrong. */
const earliest = Date.UTC(2025, 0, 1)

/** Looks at what the server needs and can use, with its configuration. Changes nothing and starts nothing. */
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
  ])
  return found.flat()
}

async function git({ path }: Config): Promise<Finding> {
  const text = await output('git', ['--version'], path)
  const what = 'git'
  const cost = `install git ${leastGit.join('.')} or newer: nothing can be deployed without it.`
  if (text === null) return { what, state: 'broken', found: 'not on PATH', cost }
  return isGitEnough(text)
    ? { what, state: 'well', found: text }
    : { what, state: 'broken', found: `${text}, which is too old`, cost }
}

/** Judges what `git --version` says. */
export function isGitEnough(text: string): boolean {
  const [, major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(text) ?? []).map(Number)
  return major > leastGit[0] || (major === leastGit[0] && minor >= leastGit[1])
}

async function bubblewrap({ path }: Config): Promise<Finding> {
  const what = 'isolation'
  if (isRoot()) return { what, state: 'well', found: 'root: each app has a user of its own' }
  if ((await findSandbox(path)) !== null) return { what, state: 'well', found: 'bubblewrap' }
  const installed = (await findProgram('bwrap', path)) !== null
  return {
    what,
    state: 'missing',
    found: installed ? 'bubblewrap is installed, but this user may make no namespaces' : 'neither root nor bubblewrap',
    cost: 'builds and apps can read what the user of the server can: deploy only code that you trust. Install bubblewrap, or run the server as root.',
  }
}

async function prlimit({ path }: Config): Promise<Finding> {
  const file = await findProgram('prlimit', path)
  if (file !== null) return { what: 'prlimit', state: 'well', found: file }
  const cost =
    'install util-linux: open files are not limited, and where control groups lack, memory and processes neither.'
  return { what: 'prlimit', state: 'missing', found: 'not on PATH', cost }
}

const losses: Readonly<Record<(typeof controllers)[number], string>> = {
  memory: 'memory is looked at from outside five times a second',
  cpu: 'no app is held to the CPUs of its plan',
  pids: 'processes are limited for apps with a user of their own alone',
  freezer: 'what outruns its kill takes longer to end',
}

async function controlGroups({ cgroups }: Config): Promise<Finding> {
  const what = 'control groups'
  const hierarchy = await readHierarchy(cgroups)
  const there = hierarchy === null ? [] : await usableControllers(hierarchy)
  const lost = controllers.filter((each) => !there.includes(each))
  const found =
    hierarchy === null ? 'none that this server may use' : `version ${hierarchy.version}: ${there.join(', ')}`
  if (lost.length === 0) return { what, state: 'well', found }
  const cost = `without ${lost.join(', ')}: ${lost.map((each) => losses[each]).join('; ')}. Run the server as a service with Delegate=yes, and set FAIRLEAD_CGROUPS=delegated.`
  return { what, state: 'missing', found, cost }
}

/** Whether those who work in the data directory, or in the deepest folder above it that is there, can get into it. */
async function dataDirectory(config: Config): Promise<Finding> {
  const what = 'data directory'
  try {
    await assertReachable(config.dataDirectory, clusterUser(config))
    return { what, state: 'well', found: config.dataDirectory }
  } catch (error) {
    return { what, state: 'broken', found: config.dataDirectory, cost: (error as Error).message }
  }
}

async function disk({ dataDirectory, deploys }: Config): Promise<Finding> {
  const what = 'disk'
  const free = await freeAbove(dataDirectory)
  const found = `${Math.floor(free / 1_000_000)} MB free`
  if (free >= deploys.reserveBytes) return { what, state: 'well', found }
  const reserve = deploys.reserveBytes / 1_000_000
  const cost = `nothing is deployed below ${reserve} MB (FAIRLEAD_RESERVE_MB). Make room for ${dataDirectory}.`
  return { what, state: 'broken', found, cost }
}

/** Free bytes of the disk of the deepest folder that is there. */
async function freeAbove(path: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(path)
    return bavail * bsize
  } catch (error) {
    if (dirname(path) === path) throw error
    return freeAbove(dirname(path))
  }
}

/** The ports that the server listens on. Those of a server that runs already are where they should be. */
async function ports({ host, port, apps }: Config): Promise<Finding[]> {
  const runs = await isFairlead(host, port)
  const found = [await portFinding('API port', host, port, runs)]
  if (apps.mode === 'hostnames') found.push(await portFinding('gateway port', host, apps.gatewayPort, runs))
  return found
}

async function portFinding(what: string, host: string, number: number, runs: boolean): Promise<Finding> {
  const server = createServer()
  try {
    server.listen(number, host)
    await once(server, 'listening')
    return { what, state: 'well', found: `${host}:${number} is free` }
  } catch (error) {
    if (runs && isTaken(error)) return { what, state: 'well', found: `${host}:${number}: the server runs` }
    const found = `${host}:${number}: ${(error as Error).message}`
    const cost = 'another program listens there, or this user may not. Choose another port.'
    return { what, state: 'broken', found, cost }
  } finally {
    server.close()
  }
}

const isTaken = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'EADDRINUSE'

/** How long whatever listens on the port of the API has to say what it is. */
const answerMs = 2_000

async function isFairlead(host: string, port: number): Promise<boolean> {
  const name = host.includes(':') ? `[${host}]` : host
  try {
    const answer = await fetch(`http://${name}:${port}/healthz`, { signal: AbortSignal.timeout(answerMs) })
    return ((await answer.json()) as { status?: unknown } | null)?.status === 'alive'
  } catch {
    return false
  }
}

/** @param now in milliseconds, by the system's clock */
export function clock(now: number): Finding {
  const found = new Date(now).toISOString()
  if (now >= earliest) return { what: 'clock', state: 'well', found }
  const cost =
    'the clock is wrong: certificates, signatures of webhooks and sessions fail. Set it, and keep it set with NTP.'
  return { what: 'clock', state: 'broken', found, cost }
}

function output(program: string, args: readonly string[], path: string): Promise<string | null> {
  return new Promise((done) => {
    execFile(program, args, { env: { PATH: path }, timeout: 5_000 }, (error, stdout) =>
      done(error === null ? stdout.trim() : null),
    )
  })
}
