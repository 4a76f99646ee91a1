import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, globSync } from 'node:fs'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { connectPath } from '../../../server/src/contract/run-protocol.ts'
import { childrenOf, groupProcesses, readStat, variableOf } from '../../../server/src/platform/processes.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { type DatabaseProxy, databaseProxy } from '../../harness/database-proxy.ts'
import { query } from '../../harness/databases.ts'
import { freePort } from '../../harness/ports.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../harness/process.ts'
import { type TestReceiver, testReceiver } from '../../harness/receiver.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { connectRun } from '../../harness/runs.ts'
import { operatorKey } from '../../harness/server-processes.ts'
import { filesOnDisk, form } from '../../harness/storage.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'
import { type AddressAtEnd, type AppAtEnd, type Call, type FaultWindow, madeBy, type StateAtEnd } from './model.ts'
import type { Fault, Operation } from './plan.ts'

/** The servers of a history, with the state for its operations, its faults and its final check. */
export interface World extends AsyncDisposable {
  readonly calls: readonly Call[]
  readonly windows: readonly FaultWindow[]
  /** Problems besides responses and the final state. */
  readonly troubles: readonly string[]
  /** Executes an operation; nothing without a target. Resolves with its response. */
  operate(step: number, operation: Operation): Promise<void>
  /** Delays messages between servers and PostgreSQL, until servers are killed. */
  slow(ms: number): void
  /**
   * Causes a fault, and resolves when everything is back. Faults are sequential. A fault that needs a missing program
   * is skipped.
   */
  fail(step: number, fault: Fault): Promise<void>
  /** Resolves at the moment of a fault. */
  momentOf(fault: Fault): Promise<void>
  /** Resolves when a server is there, and for a fault when the previous fault is over. */
  isReadyFor(fault: Fault | undefined): Promise<void>
  look(): Promise<StateAtEnd>
  /** Ends the pauses of deliveries. */
  hurry(): Promise<void>
}

interface Release {
  readonly id: string
  readonly status: string
  readonly failure: { readonly code: string } | null
  readonly finished_at: string | null
}

interface Answer {
  readonly status: number | null
  readonly answer: unknown
}

/** Longer requests count as unanswered. */
const patienceMs = 30_000
/** A history continues when builds take longer. */
const settleMs = 60_000
/** An app answers again this long after the end of one of its instances, in milliseconds. */
const revivalMs = 20_000

/** An app without an identity that ends on `/exit`. On `/hang` it ends, and its next start hangs. It has a worker. */
const app: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({ name: 'app', scripts: { start: 'node server.js' } }),
  'server.js': `const { existsSync, rmSync, writeFileSync } = require('node:fs')
const mark = process.env.HOME + '/hang'
if (existsSync(mark)) {
  rmSync(mark)
  setInterval(() => {}, 1000)
} else
  require('node:http').createServer((request, response) => {
    if (request.url === '/hang') {
      writeFileSync(mark, '')
      process.exit(1)
    }
    if (request.url === '/exit') process.exit(1)
    response.end('here')
  }).listen(process.env.PORT)
`,
  'worker.js': 'setInterval(() => {}, 1000)',
  Procfile: 'web: node server.js\nworker: node worker.js',
}

/** About 40 MB. */
const rowsOfContent = 40_000
const content = `create table content as select n, repeat('x', 1000) from generate_series(1, ${rowsOfContent}) n`

/** The limit of databases in a project of the plan `free`. */
const freeDatabases = 2

/** The variables of linked databases. */
const linkedVariables = ['DATABASE_0', 'DATABASE_1']

const slow: Readonly<Record<string, string>> = {
  ...nodeApp('slow'),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': 'setTimeout(() => {}, 1500)',
}

/** The level of a line in a server's log. */
const warning = 40

/** Replaces the clock of a program that is started with it, see `faketime(1)`. */
const [clockLibrary] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')

/** Returns the faults that are not possible on this machine, with the missing Debian package. */
export const leftOut = (): ReadonlyMap<Fault['kind'], string> =>
  new Map([
    ...(clockLibrary === undefined ? [['move the clock of a server', 'libfaketime'] as const] : []),
    ...(existsSync('/usr/bin/prlimit') ? [] : [['fill the descriptors of a server', 'util-linux'] as const]),
  ])

/** A statement that changes something, or this table, except the row that the leader renews each second. */
const isWrite = (sent: string, table?: string): boolean =>
  /\b(insert into|update|delete from|commit|(alter|create|drop) database)\b/i.test(sent) &&
  !sent.includes('leadership') &&
  (table === undefined || new RegExp(`\\b${table}\\b`).test(sent))

export async function startWorld(count: number, record: (line: object) => void): Promise<World> {
  await using cleanup = new AsyncDisposableStack()
  const database: TestDatabase = cleanup.use(await testDatabase())
  const { path: directory } = cleanup.use(await temporaryDirectory())
  const proxy: DatabaseProxy = cleanup.use(await databaseProxy(database.url, directory))
  const dataDirectory = join(directory, 'data')
  const receiver: TestReceiver & { trust(secret: string): void } = cleanup.use(await testReceiver())
  // One repository, because the secret variables of an app stay with its address.
  const source = cleanup.use(await repository({}))
  for (const [name, files] of Object.entries({ good: app, slow, broken: { 'README.txt': 'nothing to start' } })) {
    await source.git('checkout', '--quiet', '--orphan', name)
    await source.git('rm', '-r', '--quiet', '--force', '--ignore-unmatch', '.')
    await source.commit(files)
  }
  const secret = await operatorKey(database.url)

  const begunDate = Date.now()
  const troubles: string[] = []
  const ports = await Promise.all(Array.from({ length: count }, freePort))
  const servers: ServerProcess[] = []
  const started: ServerProcess[] = []
  /** The servers with a request to end. */
  const ending = new Set<ServerProcess>()
  /** The positions of servers that cannot answer now. */
  const away = new Set<number>()
  const clockOf = (at: number) => join(directory, `clock-${at}`)
  const moveClock = (at: number, seconds: number) => writeFile(clockOf(at), `${seconds < 0 ? '' : '+'}${seconds}`)
  const start = async (at: number) => {
    await moveClock(at, 0)
    const server = await serverProcess(dataDirectory, {
      DATABASE_URL: proxy.url,
      FAIRLEAD_PORT: String(ports[at]),
      FAIRLEAD_DRAIN_TIMEOUT: '1',
      FAIRLEAD_GATEWAY_WORKERS: '2',
      ...(clockLibrary === undefined
        ? {}
        : {
            LD_PRELOAD: clockLibrary,
            FAKETIME_TIMESTAMP_FILE: clockOf(at),
            FAKETIME_NO_CACHE: '1',
            FAKETIME_DONT_FAKE_MONOTONIC: '1',
          }),
    })
    servers[at] = server
    started.push(server)
    away.delete(at)
    server.child.once('exit', (code, signal) => {
      if (ending.has(server)) return
      const last = JSON.stringify(server.log.slice(-5)).slice(0, 2_000)
      troubles.push(`server ${at} ended by itself with ${signal ?? `code ${code}`}: ${last}`)
      away.add(at)
      void startAgain(at).catch((error: Error) => void troubles.push(`server ${at} stays away: ${error.message}`))
    })
  }
  /** Starts a server. Like a service manager, it retries once when the server ends at its start. */
  const startAgain = async (at: number) => {
    await start(at).catch((error: Error) => {
      troubles.push(`server ${at} did not start: ${error.message.slice(0, 2_000)}`)
      return start(at)
    })
  }
  const end = async (server: ServerProcess | undefined, how: 'stop' | 'kill') => {
    if (server === undefined) return
    ending.add(server)
    await server[how]()
  }
  cleanup.defer(() => removeClocks(begunDate))
  cleanup.defer(async () => {
    await Promise.all(servers.map((server) => end(server, 'stop')))
    // Their warnings explain findings.
    for (const [server, { log }] of started.entries())
      for (const line of log) if (Number(line['level']) >= warning) record({ server, ...line })
  })
  for (const at of ports.keys()) await start(at)
  const owned = cleanup.move()

  const begunAt = performance.now()
  const now = () => Math.round(performance.now() - begunAt)
  const calls: Call[] = []
  const windows: FaultWindow[] = []

  const request = async (
    step: number,
    method: string,
    path: string,
    body: FormData | Call['body'] = null,
    key?: string,
  ) => {
    const there = [...ports.keys()].filter((at) => !away.has(at))
    const port = ports[there[(step + calls.length) % there.length] ?? 0]
    const isVisit = path.startsWith('http')
    const address = isVisit ? path : `http://127.0.0.1:${port}/v1${path}`
    const isForm = body instanceof FormData
    const start = now()
    const id = `history-${step}-${randomUUID()}`
    const result = await fetch(address, {
      method,
      headers: {
        authorization: `Bearer ${secret}`,
        ...(isVisit ? {} : { 'x-request-id': id }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...(isForm || body === null ? {} : { 'content-type': 'application/json' }),
      },
      body: isForm ? body : body === null ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(patienceMs),
    })
      .then(async (response): Promise<Answer> => {
        const text = await response.text()
        return { status: response.status, answer: text.startsWith('{') ? JSON.parse(text) : text.slice(0, 200) }
      })
      // Also when a response ends in the middle.
      .catch((): Answer => ({ status: null, answer: null }))
    const call: Call = {
      ...{ step, method, path, start, end: now() },
      ...{ body: isForm ? null : body, ...(isVisit ? {} : { id }), ...(key === undefined ? {} : { key }) },
      ...result,
    }
    const isTold = method !== 'GET' || isVisit || result.status === null || result.status >= 500
    // The responses about deployments name their apps.
    if (step !== lookStep && (isTold || path.includes('/deployments/'))) {
      calls.push(call)
      record(call)
    }
    return { ...result, body: Object(result.answer) as Record<string, unknown> }
  }

  const first = await request(0, 'POST', '/projects', { name: 'steady', plan: 'enterprise' })
  const project = `/projects/${first.body['id']}`
  const small = `/projects/${(await request(0, 'POST', '/projects', { name: 'small', plan: 'free' })).body['id']}`
  const hook = await request(0, 'POST', '/webhooks', { url: receiver.url })
  receiver.trust(String(hook.body['secret']))

  /** The paths of created resources, by kind. */
  const made = new Map<string, string[]>()
  const listOf = (kind: string) => {
    const list = made.get(kind) ?? []
    made.set(kind, list)
    return list
  }
  const pick = (kind: string, number: number) => {
    const list = listOf(kind)
    return list[number % list.length]
  }
  const newest = (kind: string, of: number) => listOf(kind).at(-1 - of)
  const create = async (step: number, kind: string, path: string, body: FormData | Call['body'], key?: string) => {
    const answer = await request(step, 'POST', path, body, key)
    const where = madeBy({ ...{ step, method: 'POST', path, body: null, start: 0, end: 0 }, ...answer })
    if (where !== null && !listOf(kind).includes(where)) listOf(kind).push(where)
    return { ...answer, where }
  }
  const nameOf = (at: number) => `app${at}`
  const appPath = (at: number) => newest(`app ${at}`, 0)

  const deploy = async (step: number, at: number, branch: string) => {
    const body = { name: nameOf(at), git_url: source.url, branch }
    const { where } = await create(step, `deployments ${at}`, `${project}/deployments`, body)
    if (where === null) return
    const { body: detail, status } = await request(step, 'GET', where)
    if (status !== 200) return
    const path = `${project}/apps/${detail['app_id']}`
    if (!listOf(`app ${at}`).includes(path)) listOf(`app ${at}`).push(path)
    urls.set(path, String(detail['url']))
  }
  const urls = new Map<string, string>()
  const schedule = (name: number) => ({ name: `s${name}`, schedule: '0 3 1 1 *', command: ['true'] })
  const everyMinute = (name: number) => ({ name: `m${name}`, schedule: '* * * * *', command: ['true'] })
  /** The contents of uploaded files, with their addresses, by their paths. */
  const uploads = new Map<string, { readonly url: string; readonly content: string }>()
  const upload = async (step: number, name: number) => {
    const content = `content ${name}`
    const { where, body } = await create(step, 'uploads', `${project}/storage/upload`, form(`f${name}`, content))
    if (where !== null) uploads.set(where, { url: String(body['url']), content })
  }
  /** True when the address of a file returns the uploaded content, `null` when it returns none. */
  const isAsUploaded = async ({ url, content }: { readonly url: string; readonly content: string }) => {
    const response = await fetch(url)
    const text = await response.text()
    return response.status === 404 ? null : response.ok && text === content
  }

  const settle = async () => {
    const deadline = performance.now() + settleMs
    while (performance.now() < deadline) {
      const lists = [`${project}/deployments`, `${project}/databases`, `${small}/databases`]
      const answers = await Promise.all(lists.map((path) => request(lookStep, 'GET', `${path}?limit=100`)))
      const found = answers.flatMap(({ body }) => (body['deployments'] ?? body['databases'] ?? []) as Release[])
      if (found.length > 0 && !found.some(({ status }) => /building|provisioning/.test(status))) return
      await sleep(200)
    }
  }

  const run = async (step: number, at: number, lastsMs: number) => {
    const path = appPath(at)
    if (path === undefined) return
    const command = ['node', '-e', `setTimeout(() => {}, ${lastsMs})`]
    const { answer, where } = await create(step, 'runs', `${path}/runs`, { command })
    const { connect } = Object(answer) as { connect?: { path: string; ticket: string } }
    if (where === null || connect === undefined) return
    const there = [...ports.keys()].find((each) => !away.has(each)) ?? 0
    const start = now()
    const end = await connectRun(`http://127.0.0.1:${ports[there]}`, { ...connect, path: connectPath })
      .then(({ ended }) => ended)
      .catch(() => undefined)
    if (end !== undefined)
      calls.push({ ...{ step, method: 'RUN', path: where, start, end: now(), body: null, status: 200 }, answer: end })
  }

  const act = async (step: number, path: string | undefined, method: string, body: Call['body'] = null) => {
    if (path !== undefined) await request(step, method, path, body)
  }
  const changed = async (step: number, path: string | undefined, body: Call['body']) => act(step, path, 'PATCH', body)

  /** Runs a command as an operation; a failure counts as no response. Returns the command's output. */
  const command = async (step: number, method: string, path: string, args: readonly string[]) => {
    const start = now()
    const { code, stdout } = await fairlead([...args, '--data-dir', dataDirectory], { DATABASE_URL: proxy.url })
    const status = code !== 0 ? null : method === 'POST' ? 201 : 204
    const call: Call = { ...{ step, method, path, start, end: now(), body: null, status }, answer: null }
    calls.push(call)
    record(call)
    return status === null ? null : stdout.trim()
  }
  /** The keys that commands have printed, by their ids. */
  const keys = new Map<string, string>()
  const createKey = async (step: number, name: string) => {
    const secret = await command(step, 'POST', '/api-keys', ['keys', 'create', '--name', name])
    if (secret === null) return
    const [row] = await database.query<{ id: string }>(`select id from api_keys where name = '${name}'`)
    if (row === undefined) troubles.push(`step ${step}: the key ${name} was made and has no row`)
    else {
      keys.set(row.id, secret)
      listOf('keys').push(row.id)
    }
  }
  const isAccepted = async (secret: string): Promise<boolean> => {
    const response = await fetch(`http://127.0.0.1:${ports[0]}/v1/projects`, {
      headers: { authorization: `Bearer ${secret}` },
    })
    await response.arrayBuffer()
    return response.ok
  }

  const operate = async (step: number, one: Operation): Promise<void> => {
    switch (one.do) {
      case 'settle':
        return settle()
      case 'deploy':
        return deploy(step, one.app, one.source)
      case 'cancel':
      case 'stop':
      case 'rollback':
      case 'restart': {
        const at = newest(`deployments ${one.app}`, one.of)
        return act(step, at && `${at}/${one.do}`, 'POST')
      }
      case 'scale': {
        const processes = { web: { instances: one.web }, worker: { instances: one.worker } }
        const at = appPath(one.app)
        return changed(step, at && `${at}/processes`, { processes })
      }
      case 'run':
        return run(step, one.app, one.lastsMs)
      case 'create schedule': {
        const at = appPath(one.app)
        if (at !== undefined) await create(step, `schedules ${one.app}`, `${at}/schedules`, schedule(one.name))
        return
      }
      case 'rename schedule':
        return changed(step, newest(`schedules ${one.app}`, one.schedule), { name: `s${one.name}` })
      case 'move schedule':
        return changed(step, newest(`schedules ${one.app}`, one.schedule), { schedule: `0 ${one.hour} 1 1 *` })
      case 'delete schedule':
        return act(step, newest(`schedules ${one.app}`, one.schedule), 'DELETE')
      case 'create minute schedule': {
        const at = appPath(one.app)
        if (at !== undefined) await create(step, 'minutes', `${at}/schedules`, everyMinute(one.name))
        return
      }
      case 'set variable': {
        const at = appPath(one.app)
        const set = { [`VALUE_${one.name}`]: String(one.value) }
        return changed(step, at && `${at}/variables`, { set, kind: 'plain' })
      }
      case 'delete app':
        return act(step, appPath(one.app), 'DELETE')
      case 'visit':
        return act(step, urls.get(appPath(one.app) ?? ''), 'GET')
      case 'create project':
        await create(step, 'projects', '/projects', { name: `p${one.name}` })
        return
      case 'create project twice': {
        const once = () => create(step, 'projects', '/projects', { name: `p${one.name}` }, `twice-${step}-${one.name}`)
        await Promise.all([once(), once()])
        return
      }
      case 'rename project':
        return changed(step, pick('projects', one.project), { name: `n${one.value}` })
      case 'change plan':
        return changed(step, pick('projects', one.project), { plan: ['starter', 'pro'][one.value % 2] })
      case 'delete project':
        return act(step, pick('projects', one.project), 'DELETE')
      case 'upload':
        return upload(step, one.name)
      case 'delete upload':
        return act(step, pick('uploads', one.upload), 'DELETE')
      case 'create webhook': {
        const url = `http://127.0.0.1:1/${one.name}`
        await create(step, 'webhooks', '/webhooks', { url, events: ['deployment.failed'] })
        return
      }
      case 'rate webhook':
        return changed(step, pick('webhooks', one.webhook), { rate: one.value })
      case 'move webhook':
        return changed(step, pick('webhooks', one.webhook), { url: `http://127.0.0.1:1/moved/${one.value}` })
      case 'delete webhook':
        return act(step, pick('webhooks', one.webhook), 'DELETE')
      case 'create database':
      case 'create small database': {
        const [kind, where] = one.do === 'create database' ? ['databases', project] : ['small databases', small]
        const made = await create(step, kind, `${where}/databases`, { name: `db${one.name}` })
        if (made.where !== null) keep(made.where, made.answer)
        return
      }
      case 'delete small database':
        return act(step, newest('small databases', one.of), 'DELETE')
      case 'restore small database': {
        const at = newest('small databases', one.of)
        return act(step, at && `${at}/restore`, 'POST')
      }
      case 'create key':
        return createKey(step, `key-${step}-${one.name}`)
      case 'revoke key': {
        const id = pick('keys', one.key)
        if (id !== undefined) await command(step, 'DELETE', `/api-keys/${id}`, ['keys', 'revoke', id])
        return
      }
      case 'fill': {
        const [string] = strings.get(pick('databases', one.database) ?? '') ?? []
        if (string === undefined) return
        const isWritten = await query(string, content).then(
          () => true,
          () => false,
        )
        if (isWritten) filled.add(pick('databases', one.database) ?? '')
        return
      }
      case 'delete database':
        return act(step, pick('databases', one.database), 'DELETE')
      case 'restore database': {
        const at = pick('databases', one.database)
        return act(step, at && `${at}/restore`, 'POST')
      }
      case 'rotate': {
        const at = pick('databases', one.database)
        if (at !== undefined) keep(at, (await request(step, 'POST', `${at}/rotate-password`)).answer)
        return
      }
      case 'link': {
        const [database, app] = [pick('databases', one.database), appPath(one.app)].map((at) => at?.split('/').at(-1))
        if (database !== undefined && app !== undefined)
          await create(step, 'links', `${project}/links`, { database, app, variable: `DATABASE_${one.database}` })
        return
      }
      case 'unlink':
        return act(step, pick('links', one.link), 'DELETE')
      case 'snapshot': {
        const at = pick('databases', one.database)
        if (at !== undefined) await create(step, `snapshots ${at}`, `${at}/snapshots`, null)
        return
      }
      case 'delete snapshot':
      case 'restore snapshot': {
        const snapshot = newest(`snapshots ${pick('databases', one.database)}`, one.snapshot)
        if (one.do === 'delete snapshot') return act(step, snapshot, 'DELETE')
        return act(step, snapshot && `${snapshot}/restore`, 'POST')
      }
    }
  }
  const filled = new Set<string>()
  const strings = new Map<string, string[]>()
  const keep = (path: string, answer: unknown) => {
    const { connection_string } = Object(answer) as { connection_string?: string }
    if (connection_string !== undefined) strings.set(path, [...(strings.get(path) ?? []), connection_string])
  }

  /** Resolves when all servers answer requests. */
  const untilReady = async () => {
    for (const [at, port] of ports.entries()) {
      const deadline = performance.now() + 120_000
      while (!away.has(at)) {
        const isReady = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
          ({ ok }) => ok,
          () => false,
        )
        if (isReady) break
        if (performance.now() > deadline) throw new Error(`server ${at} is not ready 120 s after a fault`)
        await sleep(100)
      }
    }
  }
  /** The leading server for even targets; otherwise any server. */
  const victim = (target: number): number => {
    const epochs = servers.flatMap(({ log }, at) =>
      log.filter(({ msg }) => msg === 'this server leads').map(({ epoch }) => ({ at, epoch: Number(epoch) })),
    )
    const leader = epochs.toSorted((one, other) => other.epoch - one.epoch)[0]?.at ?? 0
    return target % 2 === 0 ? leader : target % count
  }
  const killServers = async (positions: readonly number[], lastsMs: number) => {
    for (const at of positions) away.add(at)
    await Promise.all(positions.map((at) => end(servers[at], 'kill')))
    proxy.slow(0)
    await sleep(lastsMs)
    await Promise.all(positions.map(startAgain))
  }
  const suspend = async (pid: number | undefined, lastsMs: number) => {
    if (pid === undefined) return
    process.kill(pid, 'SIGSTOP')
    try {
      await sleep(lastsMs)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
  }
  /** Limits a server to its open descriptors. */
  const fillDescriptors = async (pid: number | undefined, lastsMs: number) => {
    if (pid === undefined) return
    const open = (await readdir(`/proc/${pid}/fd`)).length
    const limits = /^Max open files\s+(\d+)/m.exec(await readFile(`/proc/${pid}/limits`, 'utf8'))
    const limit = (soft: number | string) => promisify(execFile)('prlimit', [`--pid=${pid}`, `--nofile=${soft}:`])
    await limit(open)
    try {
      await sleep(lastsMs)
    } finally {
      await limit(limits?.[1] ?? 1_024)
    }
  }
  const gateway = async () =>
    Number(JSON.parse(await readFile(join(dataDirectory, 'gateway', 'gateway.json'), 'utf8')).pid)
  const worker = async (target: number) => {
    const workers = childrenOf(await gateway())
    return workers[target % workers.length]?.pid
  }
  const kill = (pid: number | undefined) => {
    if (pid !== undefined) process.kill(pid, 'SIGKILL')
  }
  /** The serving deployment of an app. */
  const servingOf = async (step: number, at: number): Promise<string | null> => {
    const path = appPath(at)
    if (path === undefined) return null
    const { body } = await request(step, 'GET', path)
    return (body['serving'] as { id: string } | null | undefined)?.id ?? null
  }

  /** Ends an instance, and returns the deployment that must answer again soon; `null` without a serving deployment. */
  const endInstance = async (step: number, { kind, target }: Fault): Promise<string | null> => {
    const at = target % 2
    const serving = await servingOf(step, at)
    if (serving === null) return null
    const hit = async () => (await instances([serving])).get(serving) ?? []
    if (kind === 'end an instance') {
      const pids = await hit()
      kill(pids[target % pids.length])
      return serving
    }
    const url = urls.get(appPath(at) ?? '')
    await fetch(`${url}/hang`).catch(() => undefined)
    // The replacement has begun, and hangs.
    await sleep(3_000)
    await fetch(`${url}/exit`).catch(() => undefined)
    return serving
  }
  /** Visits an app until it answers. A failure within the time of a revival is no finding. */
  const untilRevived = async (step: number, at: number, serving: string): Promise<void> => {
    const url = urls.get(appPath(at) ?? '')
    const deadline = performance.now() + revivalMs
    while (url !== undefined && performance.now() < deadline) {
      const response = await fetch(url).catch(() => undefined)
      await response?.arrayBuffer()
      if (response?.status === 200 || (await servingOf(step, at)) !== serving) return
      await sleep(200)
    }
  }

  let failing: Promise<void> = Promise.resolve()
  const failNow = async (step: number, fault: Fault): Promise<void> => {
    const { kind, lastsMs, target } = fault
    if (leftOut().has(kind)) return
    const start = now()
    let deployment: string | null = null
    const at = victim(target)
    if (kind === 'cut the database') {
      await proxy.cut()
      await sleep(lastsMs)
      await proxy.restore()
    } else if (kind === 'kill a server') await killServers([at], lastsMs)
    else if (kind === 'kill all servers') await killServers([...ports.keys()], lastsMs)
    else if (kind === 'suspend a server') {
      away.add(at)
      await suspend(servers[at]?.child.pid, lastsMs)
      away.delete(at)
    } else if (kind === 'fill the descriptors of a server') await fillDescriptors(servers[at]?.child.pid, lastsMs)
    else if (kind === 'move the clock of a server') {
      await moveClock(at, fault.seconds ?? 0)
      await sleep(lastsMs)
      await moveClock(at, 0)
    } else if (kind === 'kill the gateway') kill(await gateway())
    else if (kind === 'suspend the gateway') await suspend(await gateway(), lastsMs)
    else if (kind === 'kill a worker of the gateway') kill(await worker(target))
    else if (kind === 'suspend a worker of the gateway') await suspend(await worker(target), lastsMs)
    else {
      deployment = await endInstance(step, fault)
      if (deployment !== null) await untilRevived(step, target % 2, deployment)
    }
    await untilReady()
    const window: FaultWindow = { kind, start, end: now() + graceMs, deployment }
    windows.push(window)
    record({ ...window, step })
    if (deployment !== null) {
      await sleep(graceMs)
      if ((await servingOf(step, target % 2)) === deployment) await operate(step, { do: 'visit', app: target % 2 })
    }
  }

  /**
   * Reads every resource that was ever created. Links are read in their list; variables and numbers of instances as a
   * resource.
   */
  const readResources = async () => {
    const found = new Map<string, { status: number; body: unknown }>()
    const { body } = await request(lookStep, 'GET', `${project}/links`)
    const links = new Map(((body['links'] ?? []) as { id: string }[]).map((link) => [link.id, link]))
    for (const path of new Set(calls.flatMap((call) => madeBy(call) ?? []))) {
      const link = links.get(idOf(path))
      if (path.includes('/links/')) found.set(path, { status: link === undefined ? 404 : 200, body: link })
      else {
        const { status, answer } = await request(lookStep, 'GET', path)
        found.set(path, { status: status ?? 599, body: answer })
      }
    }
    for (const path of new Set(calls.flatMap((call) => (call.method === 'PATCH' ? call.path : [])))) {
      if (!/\/(variables|processes)$/.test(path)) continue
      const { status, body } = await request(lookStep, 'GET', path)
      const variables = (body['variables'] ?? []) as { name: string; value: string | null }[]
      const types = (body['processes'] ?? []) as { type: string; instances: number }[]
      const fields = [
        ...variables.map(({ name, value }) => [name, value]),
        ...types.map((each) => [each.type, each.instances]),
      ]
      found.set(path, { status: status ?? 599, body: Object.fromEntries(fields) })
    }
    return found
  }

  const readApp = async ({ id, name, url }: { id: string; name: string; url: string }): Promise<AppAtEnd> => {
    const path = `${project}/apps/${id}`
    const { body } = await request(lookStep, 'GET', `${path}/releases?limit=1000`)
    const { body: app } = await request(lookStep, 'GET', path)
    const { body: processes } = await request(lookStep, 'GET', `${path}/processes`)
    const serving = (app['serving'] as { id: string } | null | undefined)?.id ?? null
    return {
      ...{ path, name, serving, answers: await answersAt(url), instances: countInstances(processes) },
      refused: serving === null ? new Map() : await refusedOf(serving),
      deployments: ((body['releases'] ?? []) as Release[]).map(({ id, status, failure, finished_at }) => ({
        ...{ id, status, failure: failure?.code ?? null },
        finishedAt: finished_at === null ? null : Date.parse(finished_at) - begunDate,
      })),
    }
  }

  const readDatabases = async (statusOf: (path: string) => string) => {
    const databases: StateAtEnd['databases'][number][] = []
    for (const [path, known] of strings) {
      const status = statusOf(path)
      const seen = status === 'available' ? await openedOf(known) : { opened: [], problem: null }
      const [string] = seen.opened
      const isRead = string !== undefined && filled.has(path)
      const rows = isRead ? await query(string, 'select from content').catch(() => []) : []
      databases.push({ path, status, ...seen, content: isRead ? { found: rows.length, written: rowsOfContent } : null })
    }
    return databases
  }

  const readMinutes = async (): Promise<StateAtEnd['minutes']> => {
    const read: StateAtEnd['minutes'][number][] = []
    for (const path of listOf('minutes')) {
      const { status, body: schedule } = await request(lookStep, 'GET', path)
      const runs = `${path.replace(/\/schedules\/.*/, '/runs')}?schedule_id=${idOf(path)}&limit=1000`
      const { body } = await request(lookStep, 'GET', runs)
      const times = ((body['runs'] ?? []) as { due_at: string }[]).map(({ due_at }) => due_at)
      const last = Math.max(Date.parse(String(schedule['created_at'])), ...times.map((time) => Date.parse(time)))
      if (status === 200) read.push({ path, times, lateMs: Date.now() - last })
    }
    return read
  }

  /** Reads from the tables the state that no operation shows. */
  const readTables = async () => {
    const events = await database.query<{ type: string; body: string }>('select type, body from events')
    const audited = await database.query<{ id: string }>('select request_id as id from audit_entries')
    const jobs = await database.query<{ text: string }>(
      `select concat_ws(' ', task_identifier, key, 'attempts:', attempts, last_error) as text
       from graphile_worker.jobs where run_at <= now()`,
    )
    const open = await database.query<{ text: string }>(
      `select query as text from pg_stat_activity where datname = current_database()
       and state like 'idle in transaction%' and xact_start < now() - interval '5 seconds'`,
    )
    const counters = await database.query<{ what: string; found: number; most: number }>(
      `select 'projects in the counter' as what, sum(total)::int as found,
         (select count(*)::int from projects where status = 'active') as most from project_counts
       union all select 'bytes in the usage of ' || project_id, bytes::int,
         (select coalesce(sum(size), 0)::int from files where files.project_id = storage_usage.project_id) from storage_usage`,
    )
    const made = new Map<string, number>()
    for (const { type, body } of events) {
      const { data } = JSON.parse(body) as { data: Record<string, string> }
      const event = `${type} ${data['deployment_id'] ?? data['database_id'] ?? data['file_id']}`
      made.set(event, (made.get(event) ?? 0) + 1)
    }
    return {
      ...{ made, audited: new Set(audited.map(({ id }) => id)) },
      jobs: jobs.map(({ text }) => text),
      transactions: open.map(({ text }) => text),
      counters: counters.map((each) => ({ ...each, least: each.most })),
    }
  }

  const look = async (): Promise<StateAtEnd> => {
    const step = lookStep
    const resources = await readResources()
    const statusOf = (path: string) => String((Object(resources.get(path)?.body) as { status?: string }).status)
    const { body: listed } = await request(step, 'GET', `${project}/apps?limit=1000`)
    const apps: AppAtEnd[] = []
    for (const app of (listed['apps'] ?? []) as { id: string; name: string; url: string }[])
      apps.push(await readApp(app))
    const formerAddresses = new Map<string, AddressAtEnd>()
    const kept = apps.map(({ path }) => urls.get(path))
    for (const [path, url] of urls)
      if (!apps.some((app) => app.path === path) && !kept.includes(url))
        formerAddresses.set(path, (await answersAt(url)).find((answer) => answer?.deployment) ?? null)
    const deployed = [...resources.keys()].filter((path) => path.includes('/deployments/')).map((path) => idOf(path))
    const found = await instances([...deployed, ...apps.flatMap(({ deployments }) => deployments.map(({ id }) => id))])
    const accepted = new Map<string, boolean>()
    for (const [id, secret] of keys) accepted.set(id, await isAccepted(secret))
    const downloads = new Map<string, boolean | null>()
    for (const [path, file] of uploads) downloads.set(path, await isAsUploaded(file))
    const pending = await request(step, 'GET', `/webhooks/${hook.body['id']}/deliveries?status=pending&limit=1000`)
    const smallDatabases = await request(step, 'GET', `${small}/databases?limit=1000`)
    const stored = (await database.query<{ id: string }>('select id from files')).map(({ id }) => id)
    const unfinished = await database.query<{ id: string }>('select file_id as id from pending_files')
    const onDisk = await filesOnDisk(dataDirectory).catch((): string[] => [])
    const rows = [...stored, ...unfinished.map(({ id }) => id)]
    const { counters, ...tables } = await readTables()
    return {
      ...{ resources, apps, formerAddresses, downloads, keys: accepted, ...tables },
      databases: await readDatabases(statusOf),
      minutes: await readMinutes(),
      limits: new Map([[`${small}/databases`, freeDatabases]]),
      counts: [
        ...counters,
        {
          what: 'databases',
          least: 0,
          found: ((smallDatabases.body['databases'] ?? []) as Release[]).filter(({ status }) => status !== 'deleting')
            .length,
          most: freeDatabases,
        },
      ],
      processes: new Map([...found].map(([id, pids]) => [id, pids.length])),
      underWay: [...resources.keys()]
        .filter((path) => /\/(runs|snapshots|databases)\/[^/]+$/.test(path))
        .map((path) => ({ path, status: statusOf(path) }))
        .filter(({ status }) => ['running', 'creating', 'provisioning'].includes(status)),
      files: {
        missing: stored.filter((id) => !onDisk.includes(id)),
        strange: onDisk.filter((name) => !rows.some((id) => name.startsWith(id))),
      },
      releases: (await releasesOnDisk(dataDirectory)).map((folder) => idOf(folder)),
      pending: ((pending.body['deliveries'] ?? []) as { id: string }[]).map(({ id }) => id),
      events: new Set(receiver.received.map(({ event, data }) => `${event} ${data.deployment_id}`)),
    }
  }

  return {
    calls,
    windows,
    troubles,
    slow: proxy.slow,
    // An impossible operation is a finding, and the history continues.
    operate: (step, operation) =>
      operate(step, operation).catch(
        (error: unknown) => void troubles.push(`step ${step}: ${operation.do}: ${String(error)}`),
      ),
    async momentOf({ afterMs, atWrite, atCopy }) {
      if (atCopy) return untilCopy(join(dataDirectory, 'databases'), afterMs)
      if (atWrite === undefined) return sleep(afterMs)
      const reached = Promise.withResolvers<void>()
      let left = atWrite.number
      proxy.holdWhen((sent) => {
        if (isWrite(sent.toString('latin1'), atWrite.to)) left -= 1
        if (left > 0) return null
        reached.resolve()
        return atWrite.loses === 'statement' ? 'sent' : 'answers'
      })
      await Promise.race([reached.promise, sleep(afterMs)])
    },
    fail(step, fault) {
      failing = failing
        .then(() => failNow(step, fault))
        .catch((error: unknown) => void troubles.push(`step ${step}: ${fault.kind}: ${String(error)}`))
        .finally(() => proxy.release())
      return failing
    },
    async isReadyFor(fault) {
      if (fault !== undefined) await failing
      while (away.size === count) await sleep(20)
    },
    look,
    async hurry() {
      const path = `/webhooks/${hook.body['id']}/deliveries`
      const { body } = await request(lookStep, 'GET', `${path}?status=pending&limit=1000`)
      for (const { id, attempts } of (body['deliveries'] ?? []) as { id: string; attempts: number }[])
        if (attempts > 0) await request(lookStep, 'POST', `${path}/${id}/redeliver`)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** The step number of the final check's requests, which are not part of the history. */
const lookStep = -1

/** Connections that a fault has cut may fail this long after it. */
const graceMs = 1_000

/** Resolves when PostgreSQL copies an app database, or when the time is over. The titles of its processes show this. */
async function untilCopy(directory: string, mostMs: number): Promise<void> {
  const deadline = performance.now() + mostMs
  const files = globSync(join(directory, '**', 'postmaster.pid'))
  const postmasters = await Promise.all(files.map(async (file) => Number.parseInt(await readFile(file, 'utf8'), 10)))
  const copies = (pid: number) =>
    readFile(`/proc/${pid}/cmdline`, 'utf8').then((line) => line.includes('CREATE DATABASE'))
  while (performance.now() < deadline) {
    const sessions = postmasters.flatMap((pid) => childrenOf(pid))
    const found = await Promise.all(sessions.map(({ pid }) => copies(pid).catch(() => false)))
    if (found.includes(true)) return
    await sleep(2)
  }
}

const sharedMemory = '/dev/shm'

/** Removes the files of servers' moved clocks since then, which killed servers have left. */
async function removeClocks(since: number): Promise<void> {
  for (const name of await readdir(sharedMemory).catch((): string[] => [])) {
    const [, pid] = /faketime_(?:shm|sem)_(\d+)$/.exec(name) ?? []
    const path = join(sharedMemory, name)
    const made = await stat(path).catch(() => null)
    if (pid !== undefined && made !== null && made.mtimeMs >= since && readStat(Number(pid)) === null)
      await rm(path, { force: true })
  }
}

const idOf = (path: string) => String(path.split('/').at(-1))

/** Returns the pids of the first processes of all instances of these deployments. */
async function instances(deployments: readonly string[]): Promise<Map<string, number[]>> {
  const marked = await groupProcesses((pid) => variableOf(pid, 'FAIRLEAD_DEPLOYMENT_ID'))
  const found = new Map<string, number[]>()
  for (const id of new Set(deployments)) {
    const pids = marked.get(id) ?? []
    const top = pids.filter((pid) => {
      const stat = readStat(pid)
      return stat !== null && !stat.ended && !pids.includes(stat.parent)
    })
    if (top.length > 0) found.set(id, top)
  }
  return found
}

/** Enough to reach each worker of the gateway, most likely. */
const visits = 4

/** Returns the app's responses to several connections. */
async function answersAt(url: string): Promise<AddressAtEnd[]> {
  const visit = async (): Promise<AddressAtEnd> => {
    const response = await fetch(url, { headers: { connection: 'close' }, signal: AbortSignal.timeout(5_000) }).catch(
      () => undefined,
    )
    await response?.arrayBuffer().catch(() => undefined)
    return response === undefined
      ? null
      : { status: response.status, deployment: response.headers.get('x-fairlead-deployment') }
  }
  return Promise.all(Array.from({ length: visits }, visit))
}

function countInstances(body: Record<string, unknown>): AppAtEnd['instances'] {
  const all = (body['processes'] ?? []) as { type: string; instances: number; running: { state: string }[] }[]
  return new Map(
    all.map(({ type, instances, running }) => [
      type,
      { wanted: instances, running: running.filter(({ state }) => state === 'running').length },
    ]),
  )
}

/**
 * Tries the connection strings of a deployment's processes, and returns the names of the databases that refuse them.
 */
async function refusedOf(deployment: string): Promise<Map<string, string>> {
  const refused = new Map<string, string>()
  const pids = (await instances([deployment])).get(deployment) ?? []
  const known = pids.flatMap((pid) => linkedVariables.map((name) => variableOf(pid, name)))
  for (const string of new Set(known)) {
    if (!string) continue
    await query(string, 'select 1').catch(({ message }: Error) => {
      refused.set(new URL(string).pathname.slice(1), message)
    })
  }
  return refused
}

/** Tries the connection strings of a database, newest first, until one works. */
async function openedOf(known: readonly string[]): Promise<{ opened: string[]; problem: string | null }> {
  let problem: string | null = null
  for (const each of known.toReversed()) {
    try {
      await query(each, 'select 1')
      return { opened: [each], problem }
    } catch (error) {
      problem ??= (error as Error).message
    }
  }
  return { opened: [], problem }
}
