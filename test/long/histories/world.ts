import { execFile } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
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
import { type AppAtEnd, type Call, type FaultWindow, madeBy, type StateAtEnd } from './model.ts'
import type { Fault, Operation } from './plan.ts'

/** The servers of a history, and everything that its operations, its faults and its last look need. */
export interface World extends AsyncDisposable {
  readonly calls: readonly Call[]
  readonly windows: readonly FaultWindow[]
  /** Problems besides answers and the state at the end. */
  readonly troubles: readonly string[]
  /** Does an operation; nothing when it has no target. Resolves with its answer. */
  operate(step: number, operation: Operation): Promise<void>
  /** Delays what servers and PostgreSQL say to each other, until servers are killed. */
  slow(ms: number): void
  /** Makes a fault, and resolves when everything is back. Faults follow each other. A fault that needs a missing program is left out. */
  fail(step: number, fault: Fault): Promise<void>
  /** Resolves when the moment of a fault has come. */
  momentOf(fault: Fault): Promise<void>
  /** Resolves when a server is there, and for a fault when the one before is over. */
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
/** A history goes on when builds take longer. */
const settleMs = 60_000
/** An app answers again this long after one of its instances has ended, in milliseconds. */
const revivalMs = 20_000

/** An app that names nothing, that ends on `/exit`, ends on `/hang` and hangs at its next start, and that has a worker. */
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

/** Some 40 MB. */
const content = "create table content as select n, repeat('x', 1000) from generate_series(1, 40000) n"

const slow: Readonly<Record<string, string>> = {
  ...nodeApp('slow'),
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': 'setTimeout(() => {}, 1500)',
}

/** Replaces the clock of a program that is started with it, see `faketime(1)`. */
const [clockLibrary] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1')

/** Returns the faults that cannot be made on this machine, with the Debian package that is missing. */
export const leftOut = (): ReadonlyMap<Fault['kind'], string> =>
  new Map([
    ...(clockLibrary === undefined ? [['move the clock of a server', 'libfaketime'] as const] : []),
    ...(existsSync('/usr/bin/prlimit') ? [] : [['fill the descriptors of a server', 'util-linux'] as const]),
  ])

/** A statement that changes something, besides the row that the leader renews each second. */
const isWrite = (sent: string): boolean =>
  /\b(insert into|update|delete from|commit|(alter|create|drop) database)\b/i.test(sent) && !sent.includes('leadership')

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
  const key = await operatorKey(database.url)

  const ports = await Promise.all(Array.from({ length: count }, freePort))
  const servers: ServerProcess[] = []
  const away = new Set<number>()
  const clockOf = (at: number) => join(directory, `clock-${at}`)
  const moveClock = (at: number, seconds: number) => writeFile(clockOf(at), `${seconds < 0 ? '' : '+'}${seconds}`)
  const start = async (at: number) => {
    await moveClock(at, 0)
    servers[at] = await serverProcess(dataDirectory, {
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
    away.delete(at)
  }
  cleanup.defer(async () => {
    await Promise.all(servers.map((server) => server.stop()))
  })
  for (const at of ports.keys()) await start(at)
  const owned = cleanup.move()

  const begunAt = performance.now()
  const begunDate = Date.now()
  const now = () => Math.round(performance.now() - begunAt)
  const calls: Call[] = []
  const windows: FaultWindow[] = []
  const troubles: string[] = []

  const request = async (step: number, method: string, path: string, body: FormData | Call['body'] = null) => {
    const there = [...ports.keys()].filter((at) => !away.has(at))
    const port = ports[there[(step + calls.length) % there.length] ?? 0]
    const isVisit = path.startsWith('http')
    const address = isVisit ? path : `http://127.0.0.1:${port}/v1${path}`
    const isForm = body instanceof FormData
    const start = now()
    const result = await fetch(address, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(isForm || body === null ? {} : { 'content-type': 'application/json' }),
      },
      body: isForm ? body : body === null ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(patienceMs),
    }).then(
      async (response): Promise<Answer> => {
        const text = await response.text()
        return { status: response.status, answer: text.startsWith('{') ? JSON.parse(text) : text.slice(0, 200) }
      },
      (): Answer => ({ status: null, answer: null }),
    )
    const call: Call = { ...{ step, method, path, start, end: now() }, body: isForm ? null : body, ...result }
    const isTold = method !== 'GET' || isVisit || result.status === null || result.status >= 500
    // The answers about deployments name their apps.
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

  /** The paths of what was made, by kind. */
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
  const create = async (step: number, kind: string, path: string, body: FormData | Call['body']) => {
    const answer = await request(step, 'POST', path, body)
    const where = madeBy({ ...{ step, method: 'POST', path, body: null, start: 0, end: 0 }, ...answer })
    if (where !== null) listOf(kind).push(where)
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
    await connectRun(`http://127.0.0.1:${ports[there]}`, { ...connect, path: connectPath })
      .then(({ ended }) => ended)
      .catch(() => undefined)
  }

  const act = async (step: number, path: string | undefined, method: string, body: Call['body'] = null) => {
    if (path !== undefined) await request(step, method, path, body)
  }
  const changed = async (step: number, path: string | undefined, body: Call['body']) => act(step, path, 'PATCH', body)

  /** Runs a command as an operation; without an answer when it fails. Returns what it prints. */
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
      case 'delete app':
        return act(step, appPath(one.app), 'DELETE')
      case 'visit':
        return act(step, urls.get(appPath(one.app) ?? ''), 'GET')
      case 'create project':
        await create(step, 'projects', '/projects', { name: `p${one.name}` })
        return
      case 'rename project':
        return changed(step, pick('projects', one.project), { name: `n${one.value}` })
      case 'change plan':
        return changed(step, pick('projects', one.project), { plan: ['starter', 'pro'][one.value % 2] })
      case 'delete project':
        return act(step, pick('projects', one.project), 'DELETE')
      case 'upload':
        await create(step, 'uploads', `${project}/storage/upload`, form(`f${one.name}`, `content ${one.name}`))
        return
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
        if (string !== undefined) await query(string, content).catch(() => undefined)
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
          await request(step, 'POST', `${project}/links`, { database, app, variable: `DATABASE_${one.database}` })
        return
      }
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
  /** The server that leads for even targets; else any. */
  const victim = (target: number): number => {
    const epochs = servers.flatMap(({ log }, at) =>
      log.filter(({ msg }) => msg === 'this server leads').map(({ epoch }) => ({ at, epoch: Number(epoch) })),
    )
    const leader = epochs.toSorted((one, other) => other.epoch - one.epoch)[0]?.at ?? 0
    return target % 2 === 0 ? leader : target % count
  }
  const killServers = async (positions: readonly number[], lastsMs: number) => {
    for (const at of positions) away.add(at)
    await Promise.all(positions.map((at) => servers[at]?.kill()))
    proxy.slow(0)
    await sleep(lastsMs)
    await Promise.all(positions.map(startAgain))
  }
  /** Starts a server. When it ends at its start, as a service manager does, once more. */
  const startAgain = async (at: number) => {
    await start(at).catch((error: Error) => {
      troubles.push(`server ${at} did not start: ${error.message.slice(0, 2_000)}`)
      return start(at)
    })
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
  /** Leaves a server no descriptor but those that it has open. */
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
  /** The deployment that serves an app. */
  const servingOf = async (step: number, at: number): Promise<string | null> => {
    const path = appPath(at)
    if (path === undefined) return null
    const { body } = await request(step, 'GET', path)
    return (body['serving'] as { id: string } | null | undefined)?.id ?? null
  }

  /** Ends an instance, and returns the deployment that has to answer again soon; `null` when none serves. */
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
  /** Visits an app until it answers. A failure within the time that a revival may take is no finding. */
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

  const look = async (): Promise<StateAtEnd> => {
    const step = lookStep
    const resources = new Map<string, { status: number; body: unknown }>()
    for (const path of new Set(calls.flatMap((call) => madeBy(call) ?? []))) {
      const { status, answer } = await request(step, 'GET', path)
      resources.set(path, { status: status ?? 599, body: answer })
    }
    const statusOf = (path: string) => String((Object(resources.get(path)?.body) as { status?: string }).status)
    const { body: listed } = await request(step, 'GET', `${project}/apps?limit=1000`)
    const apps: AppAtEnd[] = []
    for (const { id, name, url } of (listed['apps'] ?? []) as { id: string; name: string; url: string }[]) {
      const path = `${project}/apps/${id}`
      const { body } = await request(step, 'GET', `${path}/releases?limit=1000`)
      const releases = (body['releases'] ?? []) as Release[]
      const { body: scaled } = await request(step, 'GET', `${path}/processes`)
      apps.push({
        ...{ path, name, address: await answerAt(url), instances: countInstances(scaled) },
        deployments: releases.map(({ id, status, failure, finished_at }) => ({
          ...{ id, status, failure: failure?.code ?? null },
          finishedAt: finished_at === null ? null : Date.parse(finished_at) - begunDate,
        })),
      })
    }
    const deployed = [...resources.keys()].filter((path) => path.includes('/deployments/')).map((path) => idOf(path))
    const found = await instances([...deployed, ...apps.flatMap(({ deployments }) => deployments.map(({ id }) => id))])
    const databases: StateAtEnd['databases'][number][] = []
    const accepted = new Map<string, boolean>()
    for (const [id, secret] of keys) accepted.set(id, await isAccepted(secret))
    for (const [path, known] of strings) databases.push({ path, status: statusOf(path), ...(await openedOf(known)) })
    const pending = await request(step, 'GET', `/webhooks/${hook.body['id']}/deliveries?status=pending&limit=1000`)
    const stored = (await database.query<{ id: string }>('select id from files')).map(({ id }) => id)
    const unfinished = await database.query<{ id: string }>('select file_id as id from pending_files')
    const onDisk = await filesOnDisk(dataDirectory).catch((): string[] => [])
    const rows = [...stored, ...unfinished.map(({ id }) => id)]
    return {
      ...{ resources, apps, databases, keys: accepted },
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
    operate,
    async momentOf({ afterMs, atWrite }) {
      if (atWrite === undefined) return sleep(afterMs)
      const reached = Promise.withResolvers<void>()
      let left = atWrite.number
      proxy.holdWhen((sent) => {
        if (isWrite(sent.toString('latin1'))) left -= 1
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

/** The step of the requests of the last look, which are no part of the history. */
const lookStep = -1

/** Connections that a fault has cut may fail this long after it. */
const graceMs = 1_000

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

async function answerAt(url: string): Promise<AppAtEnd['address']> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch(() => undefined)
  await response?.arrayBuffer().catch(() => undefined)
  if (response === undefined) return null
  return { status: response.status, deployment: response.headers.get('x-fairlead-deployment') }
}

function countInstances(body: Record<string, unknown>): AppAtEnd['instances'] {
  const all = body['processes'] as { instances: number; running: { state: string }[] }[] | undefined
  if (all === undefined) return null
  const running = all.flatMap((each) => each.running).filter(({ state }) => state === 'running')
  return { wanted: all.reduce((sum, each) => sum + each.instances, 0), running: running.length }
}

/** Tries the connection strings of a database, the newest first, until one works. */
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
