import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { createAccountStore } from '../../server/src/features/accounts/accounts.ts'
import { createKeys } from '../../server/src/features/accounts/keys.ts'
import { presets } from '../../server/src/features/accounts/scopes.ts'
import { loadConfig } from '../../server/src/platform/config.ts'
import { newId } from '../../server/src/platform/ids.ts'
import { shippedPlans } from '../../server/src/platform/plans.ts'
import { openState, type State } from '../../server/src/platform/state.ts'
import { freePort, portSettings } from '../harness/ports.ts'
import { command } from '../harness/process.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { end } from './children.ts'
import { inTime } from './deadline.ts'
import { describe, load, type Round, summary, type Target } from './load.ts'
import type { Bench, Row, Run } from './row.ts'
import { median } from './statistics.ts'

const roundSeconds = 2
const full = { connections: 32, rounds: 9, warmUpSeconds: 1, few: 1_000, many: 100_000 }
const brief: typeof full = { connections: 4, rounds: 1, warmUpSeconds: 0, few: 100, many: 1_000 }
/** A short round has this many requests, however long they take. */
const briefRequests = 20

const aims = { get: 0.6, p99: 2, list: 1.3, post: 0.5 }

/**
 * Measures three operations with all steps of a request (key, rate limit, log, audit), compared with bare Koa routes
 * that execute the same queries, and a long list compared with a short one.
 */
export const benchApi: Bench = async ({ signal, short }) => {
  const length = { ...(short ? brief : full), short, signal }
  const { connections, rounds, few, many } = length
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const state = await openState({
    config: loadConfig({ dataDir: dataDirectory }),
    logger: pino({ level: 'silent' }),
    supervise: false,
    signal,
  })
  cleanup.defer(() => state.close())
  const small = await account(state, few)
  const large = await account(state, many)
  // Its projects must not be among the projects that the server counts for a creation.
  const ofBare = await account(state, few)
  await state.pool.query('vacuum analyze projects')

  const platform = cleanup.use(await platformServer(dataDirectory, join(directory.path, 'log'), signal))
  const bare = cleanup.use(await bareServer(state, [small.id, ofBare.id], signal))
  const authorized = (target: Target, key: string): Target => ({
    ...target,
    headers: { ...target.headers, authorization: `Bearer ${key}` },
  })
  const posted = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'A project' }),
  } as const
  const v1 = `${platform.url}/v1/projects`
  const get = await alternate(
    authorized({ url: `${v1}/${small.projectId}` }, small.key),
    { url: `${bare.url}/projects/${small.projectId}` },
    length,
  )
  const list = await alternate(
    authorized({ url: `${v1}?limit=100` }, large.key),
    authorized({ url: `${v1}?limit=100` }, small.key),
    length,
  )
  const post = await alternate(
    authorized({ url: v1, ...posted }, small.key),
    { url: `${bare.url}/projects`, ...posted },
    length,
  )

  const rate = ([one, other]: Pair) => one.perSecond / other.perSecond
  const getRate = median(get.map(rate))
  const getP99 = median(get.map(([one, other]) => one.p99Ms / other.p99Ms))
  const longer = median(list.map(([one, other]) => one.meanMs / other.meanMs))
  const postRate = median(post.map(rate))
  return {
    rows: [
      atLeast('api: GET /projects/:id, requests/s', getRate, aims.get),
      atMost('api: GET /projects/:id, p99', getP99, aims.p99),
      atMost(`api: GET /projects?limit=100 of ${many}, time`, longer, aims.list, `that of ${few}`),
      atLeast('api: POST /projects, requests/s', postRate, aims.post),
    ],
    notes: [
      `Medians of ${rounds} pairs of rounds of ${roundSeconds} s in turns, ${connections} connections, as fast as they ` +
        `go; server, bare Koa, PostgreSQL and clients share ${availableParallelism()} cores.`,
      `GET: ${sides(get, 'bare Koa with its one query')}.`,
      `List: ${sides(list, `with ${few} projects`)}.`,
      `POST: ${sides(post, 'bare Koa with the same inserts')}.`,
    ],
  }
}

function atLeast(name: string, ratio: number, aim: number): Row {
  return { name, measured: `${ratio.toFixed(2)} of bare Koa`, aim: { text: `≥ ${aim}`, met: ratio >= aim } }
}

function atMost(name: string, ratio: number, aim: number, of = 'bare Koa'): Row {
  return { name, measured: `${ratio.toFixed(2)} × ${of}`, aim: { text: `≤ ${aim}`, met: ratio <= aim } }
}

/** A measured round, and the comparison target's round right after it. */
type Pair = readonly [Round, Round]

function sides(pairs: readonly Pair[], other: string): string {
  return `${describe(summary(pairs.map(([one]) => one)))}; ${other}: ${describe(summary(pairs.map(([, one]) => one)))}`
}

type Turns = typeof full & Run

async function alternate(one: Target, other: Target, { signal, short, ...length }: Turns): Promise<Pair[]> {
  const { connections, rounds, warmUpSeconds } = length
  const measure = (target: Target, seconds: number) =>
    load(target, { connections, signal, ...(short ? { requests: briefRequests } : { seconds }) })
  for (const target of [one, other]) if (warmUpSeconds > 0) await measure(target, warmUpSeconds)
  const pairs: Pair[] = []
  for (let round = 0; round < rounds; round++) {
    pairs.push([await measure(one, roundSeconds), await measure(other, roundSeconds)])
  }
  return pairs
}

/** Creates an account with this many projects, an API key, and a rate limit that no round reaches. */
async function account(state: State, projects: number): Promise<{ id: string; key: string; projectId: string }> {
  const { id } = await createAccountStore({ database: state.db }).create({
    name: `${projects} projects`,
    plan: 'enterprise',
    requestsPerHour: 100_000_000,
  })
  const { key } = await createKeys({ database: state.db }).create({
    accountId: id,
    name: 'bench',
    scopes: presets.full,
    projectIds: null,
  })
  const ids = Array.from({ length: projects }, () => newId('project'))
  await state.pool.query(
    `insert into projects (id, account_id, name, region, plan, status)
     select id, $2, 'A project', 'local', 'free', 'active' from unnest($1::text[]) as given (id)`,
    [ids, id],
  )
  return { id, key, projectId: ids[0] ?? '' }
}

interface Process extends AsyncDisposable {
  readonly url: string
}

/**
 * Starts the server as users run it, with plans that limit no round. Its log goes to a file, because reading a pipe
 * would slow down the measurement.
 */
async function platformServer(dataDirectory: string, logPath: string, signal: AbortSignal): Promise<Process> {
  const { enterprise } = shippedPlans
  const account = { projects: 100_000_000 }
  const plansPath = `${logPath}-plans.json`
  await writeFile(plansPath, JSON.stringify({ ...shippedPlans, enterprise: { ...enterprise, account } }))
  await using log = await open(logPath, 'w')
  const child = spawn(process.execPath, [command, 'serve', '--data-dir', dataDirectory], {
    env: {
      PATH: process.env['PATH'],
      FAIRLEAD_PORT: String(await freePort()),
      ...portSettings,
      FAIRLEAD_PLANS_FILE: plansPath,
    },
    stdio: ['ignore', log.fd, 'inherit'],
  })
  const ready = async () => {
    for (;;) {
      const url = urlOf(await readFile(logPath, 'utf8'))
      if (url !== undefined) return url
      if (child.exitCode !== null) throw new Error(`the server ended: ${await readFile(logPath, 'utf8')}`)
      await sleep(50, undefined, { signal })
    }
  }
  return started(child, inTime('server that is ready', signal, ready()))
}

/** Returns the ready server's address in a log whose last line may be incomplete. */
function urlOf(log: string): string | undefined {
  const lines = log.split('\n').slice(0, -1)
  return lines.map((line): { msg?: string; url?: string } => JSON.parse(line)).find(({ msg }) => msg === 'ready')?.url
}

async function bareServer(state: State, accounts: readonly string[], signal: AbortSignal): Promise<Process> {
  const script = fileURLToPath(new URL('bare-koa.ts', import.meta.url))
  const child = spawn(process.execPath, [script, JSON.stringify(state.connection), ...accounts], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const line = once(createInterface({ input: child.stdout }), 'line').then(([url]) => String(url))
  return started(child, inTime('address of bare Koa', signal, line))
}

/** Ends the child even without an address. */
async function started(child: ChildProcess, address: Promise<string>): Promise<Process> {
  try {
    return running(child, await address)
  } catch (error) {
    await end(child, 'SIGTERM')
    throw error
  }
}

function running(child: ChildProcess, url: string): Process {
  return { url, [Symbol.asyncDispose]: () => end(child, 'SIGTERM') }
}
