import { ApiError, type ResponseBody } from '@fairlead/server/client'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { hangingBuild } from '../../harness/deployments.ts'
import { releasesOnDisk } from '../../harness/releases.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { type OwnServer, ownServer } from '../../harness/server.ts'

/*
 * Tests the life of deployments as a state machine: random commands against the API, and a model of the allowed states
 * after each command. Jobs run between the commands, so the model includes the states that follow without a request.
 */

const runs = 4
const mostCommands = 14

type Status = ResponseBody<'deployments.get'>['status']
const kinds = ['good', 'broken', 'hanging'] as const
type Kind = (typeof kinds)[number]
const apps = ['left', 'right'] as const
type AppName = (typeof apps)[number]

/** The states that may follow from a state without a request. */
const byItself: Readonly<Record<Status, readonly Status[]>> = {
  building: ['building', 'running', 'failed', 'superseded'],
  running: ['running', 'superseded'],
  failed: ['failed'],
  canceled: ['canceled'],
  superseded: ['superseded'],
  stopped: ['stopped'],
}

/**
 * As `byItself`; besides, a deployment that was superseded while it waited returns to the queue when its successor ends
 * without having served.
 */
function mayFollow({ status, hasServed }: Pick<Known, 'status' | 'hasServed'>): readonly Status[] {
  if (status !== 'superseded' || hasServed) return byItself[status]
  return [...byItself.superseded, ...byItself.building]
}

/** An app that ends on request. */
const mortal = (answer: string) => ({
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `require('node:http').createServer((request, response) => {
  if (request.url === '/end') process.exit(1)
  response.end('${answer}')
}).listen(process.env.PORT)`,
})

interface Known {
  readonly id: string
  readonly app: AppName
  readonly kind: Kind
  readonly url: string
  status: Status
  hasRun: boolean
  /** True when it was seen running since its last request. */
  hasServed: boolean
}

interface Model {
  readonly known: Known[]
  /** The latest requested deployment of each app, unless it has been canceled or stopped. */
  readonly desired: Map<AppName, Known | undefined>
}

interface Real {
  readonly projectId: string
}

let server: OwnServer
const sources = new Map<string, Repository>()

beforeAll(async () => {
  server = await ownServer({ FAIRLEAD_DRAIN_TIMEOUT: '1' })
  for (const app of apps) {
    sources.set(`${app} good`, await repository(mortal(app)))
    sources.set(`${app} broken`, await repository({ 'README.txt': 'nothing to start' }))
    sources.set(`${app} hanging`, await repository(hangingBuild))
  }
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  for (const source of sources.values()) await source[Symbol.asyncDispose]()
})

/** Reads all states and checks that each may follow its previous state. */
async function observe(model: Model, real: Real): Promise<void> {
  const { deployments } = await server.client.deployments.list({ params: { project_id: real.projectId } })
  expect(deployments.map(({ id }) => id).sort()).toEqual(model.known.map(({ id }) => id).sort())
  for (const known of model.known) {
    const { status } = deployments.find(({ id }) => id === known.id) ?? { status: 'failed' }
    expect(mayFollow(known), `${known.kind} ${known.id} from ${known.status}`).toContain(status)
    if (status === 'running') expect(known.kind).toBe('good')
    known.status = status
    known.hasRun ||= status === 'running'
    known.hasServed ||= status === 'running'
  }
  for (const app of apps) {
    const running = model.known.filter((known) => known.app === app && known.status === 'running')
    expect(running.length).toBeLessThan(2)
    await checkAddress(model, app)
  }
}

/** Checks that only a release of the app answers at the app's address. */
async function checkAddress(model: Model, app: AppName): Promise<void> {
  const any = model.known.find((known) => known.app === app)
  if (any === undefined) return
  // The leader opens the address of a new app a moment after the response.
  const response = await vi.waitFor(() => fetch(any.url), { timeout: 30_000, interval: 5 })
  const text = await response.text()
  if (response.status === 200) expect(text).toBe(app)
  else expect(response.status).toBeGreaterThanOrEqual(500)
}

/** An action on a deployment. The state in its response decides whether the model allows the response. */
function action(
  verb: 'cancel' | 'stop' | 'rollback' | 'restart',
  index: number,
  accepted: { readonly from: readonly Status[]; readonly to: Status; readonly again?: Status },
): fc.AsyncCommand<Model, Real> {
  return {
    check: ({ known }) => known.length > 0,
    toString: () => `${verb}(${index})`,
    run: async (model, real) => {
      const known = model.known[index % model.known.length]
      if (known === undefined) throw new Error('there is none')
      try {
        const params = { project_id: real.projectId, id: known.id }
        const { status } = await server.client.deployments[verb]({ params })
        expect(status).toBe(accepted.to)
        // The deployment was in a state that the action accepts, or reached such a state by itself.
        const possible = mayFollow(known)
        const took = possible.some((before) => accepted.from.includes(before) || before === accepted.again)
        expect(took, `${verb} of a ${known.status}`).toBe(true)
        if (verb === 'rollback' || verb === 'restart') {
          expect(known.kind).toBe('good')
          model.desired.set(known.app, known)
          known.hasServed = false
        } else if (model.desired.get(known.app) === known) model.desired.set(known.app, undefined)
        known.status = status
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        expect(error.code).toBe('invalid_request')
        const seen = error.details['status'] as Status
        expect(mayFollow(known), `refused ${verb}`).toContain(seen)
        if (verb === 'cancel' || verb === 'stop') expect(accepted.from).not.toContain(seen)
        if (verb === 'rollback' && known.hasRun) expect(accepted.from).not.toContain(seen)
      }
      await observe(model, real)
    },
  }
}

function create(app: AppName, kind: Kind): fc.AsyncCommand<Model, Real> {
  return {
    check: () => true,
    toString: () => `create(${app}, ${kind})`,
    run: async (model, real) => {
      const git_url = String(sources.get(`${app} ${kind}`)?.url)
      const params = { project_id: real.projectId }
      const made = await server.client.deployments.create({ params, body: { name: app, git_url } })
      expect(made.status).toBe('building')
      const known = { id: made.id, app, kind, url: made.url, status: made.status, hasRun: false, hasServed: false }
      model.known.push(known)
      model.desired.set(app, known)
      await observe(model, real)
    },
  }
}

const crash = (app: AppName): fc.AsyncCommand<Model, Real> => ({
  check: ({ known }) => known.some((each) => each.app === app && each.status === 'running'),
  toString: () => `crash(${app})`,
  run: async (model, real) => {
    const running = model.known.find((each) => each.app === app && each.status === 'running')
    // The response depends on the deployment's present state.
    await fetch(`${running?.url}/end`).catch(() => undefined)
    await observe(model, real)
  },
})

const restartServer: fc.AsyncCommand<Model, Real> = {
  check: () => true,
  toString: () => 'restart of the server',
  run: async (model, real) => {
    await server.restart()
    await observe(model, real)
  },
}

/** Waits until the finite deployments have ended. */
const settle: fc.AsyncCommand<Model, Real> = {
  check: ({ known }) => known.some(({ kind, status }) => kind !== 'hanging' && status === 'building'),
  toString: () => 'settle',
  run: async (model, real) => {
    // A deployment waits for the app's previous deployment.
    const hanging = model.known.some(({ kind, status }) => kind === 'hanging' && status === 'building')
    const builds = async () => {
      await observe(model, real)
      return model.known.filter(({ kind, status }) => kind !== 'hanging' && status === 'building')
    }
    if (!hanging) await expect.poll(builds).toEqual([])
  },
}

const index = fc.nat({ max: 20 })
const app = fc.constantFrom(...apps)
const resting: readonly Status[] = ['failed', 'canceled', 'superseded', 'stopped']
const commands = fc.commands(
  [
    fc.tuple(app, fc.constantFrom<Kind>('good', 'good', 'broken', 'hanging')).map(([name, kind]) => create(name, kind)),
    app.map((name) => create(name, 'good')),
    index.map((at) => action('cancel', at, { from: ['building'], to: 'canceled', again: 'canceled' })),
    index.map((at) => action('stop', at, { from: ['running'], to: 'stopped', again: 'stopped' })),
    index.map((at) => action('rollback', at, { from: resting, to: 'building' })),
    index.map((at) => action('restart', at, { from: ['running', ...resting], to: 'building' })),
    app.map(crash),
    fc.constant(restartServer),
    fc.constant(settle),
  ],
  { maxCommands: mostCommands, size: 'max' },
)

async function cancelHanging(model: Model, real: Real): Promise<void> {
  for (const known of model.known.filter(({ kind, status }) => kind === 'hanging' && status === 'building')) {
    await server.client.deployments
      .cancel({ params: { project_id: real.projectId, id: known.id } })
      .then(({ status }) => {
        known.status = status
        if (model.desired.get(known.app) === known) model.desired.set(known.app, undefined)
      })
      .catch(() => undefined)
  }
}

/** Waits until no deployment is building, and checks that files and addresses agree with the states. */
async function checkAtRest(model: Model, real: Real): Promise<void> {
  await expect
    .poll(
      async () => {
        // In each round, because a superseded deployment may return to the queue.
        await cancelHanging(model, real)
        await observe(model, real)
        return model.known.filter(({ status }) => status === 'building')
      },
      { timeout: 60_000 },
    )
    .toEqual([])
  for (const [name, desired] of model.desired) {
    if (desired?.kind !== 'good') continue
    const params = { project_id: real.projectId, id: desired.id }
    const { status, failure } = await server.client.deployments.get({ params })
    expect({ status, failure }, `the last request for ${name}`).toEqual({ status: 'running', failure: null })
  }
  for (const name of apps) {
    const all = model.known.filter((known) => known.app === name)
    const running = all.find(({ status }) => status === 'running')
    const answer = async () => (await fetch(String(all[0]?.url))).headers.get('x-fairlead-deployment')
    if (all.length > 0) await expect.poll(answer, { timeout: 60_000 }).toBe(running?.id ?? null)
  }
  const built = new Set(model.known.filter(({ kind }) => kind === 'good').map(({ id }) => id))
  const made = new Set(model.known.map(({ id }) => id))
  const leftovers = async () =>
    (await releasesOnDisk(server.dataDirectory))
      .map((path) => String(path.split('/').at(-1)))
      .filter((id) => made.has(id) && !built.has(id))
  await expect.poll(leftovers, { timeout: 60_000 }).toEqual([])
}

it('deployments show no state that the model forbids, and all settle', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      const project = await server.client.projects.create({ body: { name: 'life' } })
      const model: Model = { known: [], desired: new Map() }
      const real = { projectId: project.id }
      await fc.asyncModelRun(() => ({ model, real }), sequence)
      await checkAtRest(model, real)
    }),
    { numRuns: runs, endOnFailure: true },
  )
})
