import { createHash, randomBytes } from 'node:crypto'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sleepUntilAborted } from '../platform/abort.ts'
import type { EdgeConfig } from '../platform/config.ts'
import type { Logger } from '../platform/logger.ts'
import { listenAndClose } from '../platform/ports.ts'
import { bootId } from '../platform/processes.ts'
import { type Release, tryStartLock } from '../platform/start-lock.ts'
import type { LesserUser } from '../platform/users.ts'
import { adminAt } from './admin.ts'
import { type Caddy, findCaddy } from './caddy.ts'
import { caddyConfiguration } from './configuration.ts'
import {
  type EdgeHome,
  edgeHome,
  keptQuestions,
  makeHome,
  type Questions,
  replaceQuestions,
  writeWhole,
} from './home.ts'
import { isTaken, PortTakenError, reasonOf } from './problems.ts'
import { endCaddy, startCaddy } from './process.ts'
import { type EdgeRecord, findRunning, writeRecord } from './record.ts'

export interface EdgeOptions {
  readonly dataDirectory: string
  readonly config: EdgeConfig
  /** Addresses and networks (CIDR) whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies: readonly string[]
  /** The gateway's sockets for public traffic and for questions about certificates. */
  readonly gateway: { readonly apps: string; readonly questions: string }
  readonly runAs: LesserUser | null
  readonly path: string
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
  /** Throws when another server leads, which then controls the edge. */
  readonly fence: () => void
}

export interface Ensured {
  readonly record: EdgeRecord
  /** The reason why the running Caddy does not match the configuration; `null` when it does. */
  readonly problem: string | null
}

const lockRetryMs = 100
/**
 * Caddy closes its ports when it starts to end, except perhaps the HTTP/3 port, which stays open until its last request
 * has ended.
 */
const portsFreeMs = 15_000
/** The time to finish for a Caddy without a record: its server was killed while it started or replaced Caddy. */
const unknownGraceMs = 1_000

/**
 * Ensures that one Caddy runs with these settings: keeps, reloads, replaces or starts it. Servers that try this at the
 * same time take turns.
 */
export async function ensureEdge(options: EdgeOptions, signal: AbortSignal): Promise<Ensured> {
  const home = edgeHome(options.dataDirectory)
  await makeHome(home, options.runAs?.user ?? null)
  const release = await takeLock(home.startLock, signal)
  try {
    options.fence()
    const { current, others } = await findRunning(home, options.runAs?.user ?? null)
    const cleared = Promise.all(others.map((other) => endCaddy(other, unknownGraceMs)))
    if (current !== null) return await keep(options, home, current, signal)
    await cleared
    const caddy = await findCaddy(options.path)
    await assertPortsFree(options.config)
    return { record: await start(options, home, caddy, signal), problem: null }
  } finally {
    await release()
  }
}

async function takeLock(path: string, signal: AbortSignal): Promise<Release> {
  for (;;) {
    signal.throwIfAborted()
    const release = await tryStartLock(path)
    if (release !== null) return release
    await sleepUntilAborted(lockRetryMs, signal)
  }
}

async function keep(options: EdgeOptions, home: EdgeHome, current: EdgeRecord, signal: AbortSignal): Promise<Ensured> {
  try {
    const caddy = await findCaddy(options.path)
    if (caddy.version !== current.version)
      return { record: await replace(options, home, current, caddy, signal), problem: null }
    return { record: await reload(options, home, current), problem: null }
  } catch (error) {
    signal.throwIfAborted()
    return { record: current, problem: `the edge runs as it was before: ${await reasonOf(error, options.config)}` }
  }
}

/** Ends the running Caddy, whose requests may finish, and starts another version as soon as the ports are free. */
async function replace(
  options: EdgeOptions,
  home: EdgeHome,
  current: EdgeRecord,
  caddy: Caddy,
  signal: AbortSignal,
): Promise<EdgeRecord> {
  options.logger.info({ from: current.version, to: caddy.version, pid: current.pid }, 'Caddy is replaced')
  const ended = endCaddy(current)
  ended.catch((error: unknown) => options.logger.error({ err: error }, 'the former Caddy does not end'))
  const deadline = performance.now() + portsFreeMs
  for (;;) {
    try {
      return await start(options, home, caddy, signal)
    } catch (error) {
      if (!isTaken(error) || performance.now() > deadline) throw error
      await sleepUntilAborted(lockRetryMs, signal)
    }
  }
}

/** Loads the settings into the running Caddy if they changed. */
async function reload(options: EdgeOptions, home: EdgeHome, current: EdgeRecord): Promise<EdgeRecord> {
  const questions = await keptQuestions(home)
  const fingerprint = fingerprintOf(options, home, questions)
  if (fingerprint === current.configuration) {
    options.logger.info({ pid: current.pid, version: current.version }, 'Caddy serves already')
    return current
  }
  options.logger.info({ pid: current.pid }, 'the settings of the edge have changed: Caddy loads them')
  const text = configurationOf(options, home, questions, current.admin)
  await adminAt(current.admin).load(text)
  const record = { ...current, configuration: fingerprint }
  await writeWhole(home.configuration, text, options.runAs?.user)
  await writeRecord(home, record)
  return record
}

async function start(options: EdgeOptions, home: EdgeHome, caddy: Caddy, signal: AbortSignal): Promise<EdgeRecord> {
  const questions = await keptQuestions(home)
  try {
    return await startWith(options, home, caddy, questions, signal)
  } catch (error) {
    if (!isTaken(error, questions.port)) throw error
    return startWith(options, home, caddy, await replaceQuestions(home), signal)
  }
}

async function startWith(
  options: EdgeOptions,
  home: EdgeHome,
  { file, version }: Caddy,
  questions: Questions,
  signal: AbortSignal,
): Promise<EdgeRecord> {
  const { runAs, logger } = options
  const begin = performance.now()
  // A new path each time: Caddy removes the previous socket later, when the previous configuration ends.
  const id = randomBytes(4).toString('hex')
  const admin = join(home.admin, `admin.${id}.sock`)
  await writeWhole(home.configuration, configurationOf(options, home, questions, admin), runAs?.user)
  const identity = await startCaddy({ home, file, runAs, pidFile: join(home.caddy, `caddy.${id}.pid`), signal })
  const configuration = fingerprintOf(options, home, questions)
  const record = { ...identity, boot: bootId(), version, configuration, admin }
  await writeRecord(home, record)
  await removeOldFiles(home, id)
  logger.info({ pid: record.pid, version, ms: Math.round(performance.now() - begin) }, 'Caddy serves')
  return record
}

async function removeOldFiles({ admin, caddy }: EdgeHome, newest: string): Promise<void> {
  for (const folder of new Set([admin, caddy])) {
    const names = (await readdir(folder)).filter((name) => /^(admin\.\w{8}\.sock|caddy\.\w{8}\.pid)$/.test(name))
    const old = names.filter((name) => !name.includes(newest))
    await Promise.all(old.map((name) => rm(join(folder, name), { force: true })))
  }
}

/**
 * Caddy shares its ports with other processes of its user, so it would not notice that another installation uses them.
 */
async function assertPortsFree({ httpPort, httpsPort }: EdgeConfig): Promise<void> {
  for (const port of [httpPort, httpsPort]) {
    const error = (await listenAndClose(port, '0.0.0.0')) ?? (await listenAndClose(port, '::'))
    // Caddy may have more rights, so it judges missing rights and missing IPv6 itself.
    if (error?.code === 'EADDRINUSE') throw new PortTakenError(port)
  }
}

function configurationOf(options: EdgeOptions, home: EdgeHome, questions: Questions, admin: string): string {
  const { config, trustedProxies, gateway } = options
  return JSON.stringify(
    caddyConfiguration({
      httpPort: config.httpPort,
      httpsPort: config.httpsPort,
      dashboardHost: config.dashboardHost,
      trustedProxies,
      sockets: { api: home.api, ...gateway, admin },
      questionsPort: questions.port,
      token: questions.token,
      folder: home.caddy,
    }),
  )
}

/** Identifies a configuration regardless of the path of its administration socket. */
function fingerprintOf(options: EdgeOptions, home: EdgeHome, questions: Questions): string {
  return createHash('sha256')
    .update(configurationOf(options, home, questions, ''))
    .digest('hex')
}
