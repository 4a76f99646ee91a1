import { EventSourceParserStream } from 'eventsource-parser/stream'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

/** Each instance of `web` prints its requests, and ends on `/exit`. */
const files = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  Procfile: 'web: node server.js\nworker: node worker.js\nclock: node worker.js',
  'worker.js': `console.log('works'); setInterval(() => undefined, 1000)`,
  'server.js': `console.log('serves')
require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  if (request.url === '/exit') process.exit(1)
  response.end()
}).listen(process.env.PORT)`,
}

let given: ServerWithProject
let params: { readonly project_id: string; readonly id: string }
let app: { readonly project_id: string; readonly app_id: string }
let url: string
beforeAll(async () => {
  given = await serverWithProject()
  await using source = await repository(files)
  const deployed = await given.deploy('several', source.url)
  url = deployed.url
  params = { project_id: given.projectId, id: deployed.id }
  app = { project_id: given.projectId, app_id: (await given.appNamed('several')).id }
  const processes = { web: { instances: 2 }, worker: { instances: 2 }, clock: { instances: 1 } }
  await given.client.processes.update({ params: app, body: { processes } })
  await vi.waitFor(async () => expect(await running()).toEqual(names), waits)
}, 120_000)
afterAll(() => given?.[Symbol.asyncDispose]())

const names = ['clock.1', 'web.1', 'web.2', 'worker.1', 'worker.2']
const waits = { timeout: 60_000, interval: 100 }

async function running(): Promise<string[]> {
  const { processes } = await given.client.processes.list({ params: app })
  return processes
    .flatMap((process) => process.running)
    .filter(({ state }) => state === 'running')
    .map(({ name }) => name)
    .sort()
}

type Query = NonNullable<Parameters<ServerWithProject['client']['deployments']['logs']>[0]['query']>

const read = async (query: Query) =>
  (await (await given.client.deployments.logs({ params, query })).text()).split('\n').slice(0, -1)

/** Sends requests until an instance of this name has answered. */
async function askFor(path: string, name: string): Promise<void> {
  const asked = async () => {
    await (await fetch(url + path)).arrayBuffer()
    return read({ process: name })
  }
  await expect.poll(asked, waits).toContain(`asked for ${path}`)
}

it('names the instance before each line, and reads the lines of a process type or of one instance', async () => {
  const all = await read({ processes: 'true', stream: 'runtime' })
  expect(all.filter((line) => / (serves|works)$/.test(line)).sort()).toEqual([
    'clock.1 works',
    'web.1 serves',
    'web.2 serves',
    'worker.1 works',
    'worker.2 works',
  ])
  expect(await read({ process: 'worker' })).toEqual(['works', 'works'])
  expect(await read({ process: 'worker.2', timestamps: 'true', processes: 'true' })).toEqual([
    expect.stringMatching(/^\S+Z runtime worker\.2 works$/),
  ])
  expect(await read({ process: 'work' })).toEqual([])
  const both = await read({ processes: 'true' })
  expect(both.findLastIndex((line) => line.startsWith('build '))).toBeLessThan(both.indexOf('web.1 serves'))
})

it('reads the last lines of all instances together, in the order of their times', async () => {
  await askFor('/early', 'web.1')
  await askFor('/late', 'web.2')
  const last = await read({ tail: '1', processes: 'true' })
  expect(last).toEqual([expect.stringMatching(/^web\.[12] asked for \/late$/)])
  const stamped = await read({ stream: 'runtime', timestamps: 'true' })
  const times = stamped.map((line) => line.split(' ')[0] ?? '').filter((time) => time !== '-')
  expect(times).toEqual([...times].sort())
})

it('follows all instances, and resumes after the last received line', async () => {
  const first = await followUntil('/one', undefined)
  const { id, data } = first.at(-1) ?? { id: '', data: {} }
  expect(data).toMatchObject({ stream: 'runtime', process: expect.stringMatching(/^web\.[12]$/) })
  expect(new Set(first.map((each) => each.data.process))).toEqual(
    new Set([null, 'clock.1', 'web.1', 'web.2', 'worker.1', 'worker.2']),
  )
  expect((await followUntil('/two', id)).map((each) => each.data.text)).toEqual(['asked for /two'])
})

it('the command prints the names of all instances except web.1', async () => {
  const environment = { FAIRLEAD_URL: given.server.url, FAIRLEAD_API_KEY: given.server.apiKey }
  const workers = await commandHere(['logs', 'several', '--process', 'worker'], environment)
  expect(workers).toMatchObject({ code: 0 })
  expect(workers.stdout.split('\n').sort()).toEqual(['', 'worker.1 | works', 'worker.2 | works'])
  const all = (await commandHere(['logs', 'several'], environment)).stdout.split('\n')
  expect(all).toEqual(expect.arrayContaining(['serves', 'web.2 | serves', 'clock.1 | works']))
  expect(await commandHere(['logs', 'several', '--process', 'Worker'], environment)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('must be a process type or an instance'),
  })
})

it('keeps the names of instances when each of them ends in turn, and another replaces the first', async () => {
  const startsOf = async (name: string) => (await read({ process: name })).filter((line) => line === 'serves').length
  const starts = async () => (await startsOf('web.1')) + (await startsOf('web.2'))
  for (const name of ['web.1', 'web.2']) {
    await askFor('/before', name)
    const before = await starts()
    // The gateway would also send a GET without a response to the other instance.
    await fetch(`${url}/exit`, { method: 'POST' })
    await expect.poll(starts, waits).toBe(before + 1)
    await expect.poll(running, waits).toEqual(names)
  }
  await askFor('/after', 'web.1')
  await askFor('/after', 'web.2')
})

interface Event {
  readonly id: string
  readonly data: { readonly stream?: string; readonly process?: string | null; readonly text?: string }
}

/** Follows the log, sends one request, and returns the lines up to the request's line. */
async function followUntil(path: string, lastEventId: string | undefined): Promise<readonly Event[]> {
  const gone = new AbortController()
  const response = await given.client.deployments.logs({
    params,
    headers: { accept: 'text/event-stream', ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) },
    signal: gone.signal,
  })
  await (await fetch(url + path)).arrayBuffer()
  const events: Event[] = []
  const stream = (response.body ?? new ReadableStream())
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
  for await (const { id, data } of stream) {
    events.push({ id: id ?? '', data: JSON.parse(data) })
    if (events.at(-1)?.data.text === `asked for ${path}`) break
  }
  gone.abort()
  return events
}
