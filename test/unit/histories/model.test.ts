import { describe, expect, it } from 'vitest'
import {
  type AppAtEnd,
  type Call,
  madeBy,
  possibleValues,
  problemsOfAnswers,
  problemsOfState,
  type StateAtEnd,
} from '../../long/histories/model.ts'

/* The checker of histories, see `test/long/histories`. */

const project = '/projects/proj_1'

const call = (method: string, path: string, more: Partial<Call> = {}): Call => ({
  ...{ step: 1, method, path, body: null, start: 0, end: 10, status: method === 'POST' ? 201 : 200, answer: null },
  ...more,
})

const empty: StateAtEnd = {
  resources: new Map(),
  apps: [],
  processes: new Map(),
  databases: [],
  keys: new Map(),
  underWay: [],
  files: { missing: [], strange: [] },
  releases: [],
  pending: [],
  events: new Set(),
  made: new Map(),
  downloads: new Map(),
  formerAddresses: new Map(),
  audited: new Set(),
  jobs: [],
  counts: [],
  limits: new Map(),
  transactions: [],
  minutes: [],
}

const problems = (calls: readonly Call[], state: Partial<StateAtEnd>) =>
  problemsOfState(calls, [], { ...empty, ...state })

describe('responses', () => {
  const failed = call('GET', '/projects', { status: 500, start: 100, end: 110 })
  const window = { kind: 'kill a server', start: 0, end: 105, deployment: null }

  it('a failure beside a fault is not the server’s failure', () => {
    expect(problemsOfAnswers([failed], [window])).toEqual([])
  })

  it('finds a failure without a fault, and a request without a response', () => {
    const found = problemsOfAnswers([failed, { ...failed, status: null }], [{ ...window, end: 99 }])
    expect(found).toEqual([expect.stringContaining('500'), expect.stringContaining('no answer')])
  })

  it('an app may answer 503, and not 502', () => {
    const visit = { ...failed, path: 'http://127.0.0.1:1' }
    expect(problemsOfAnswers([{ ...visit, status: 503 }], [])).toEqual([])
    expect(problemsOfAnswers([{ ...visit, status: 502 }], [])).toHaveLength(1)
  })
})

describe('resources', () => {
  const made = call('POST', '/projects', { answer: { id: 'proj_2' }, body: { name: 'a' } })
  const path = '/projects/proj_2'
  const gone = new Map([[path, { status: 404, body: null }]])
  const there = new Map([[path, { status: 200, body: { name: 'a' } }]])

  it('the path of a created resource is found', () => {
    expect(madeBy(made)).toBe(path)
    expect(madeBy(call('POST', `${project}/storage/upload`, { answer: { id: 'file_1' } }))).toBe(
      `${project}/storage/files/file_1`,
    )
    expect(madeBy(call('POST', `${project}/deployments/dep_1/cancel`, { answer: { id: 'dep_1' } }))).toBeNull()
    expect(madeBy({ ...made, status: 500 })).toBeNull()
  })

  it('a created resource exists unless it was deleted', () => {
    expect(problems([made], { resources: there })).toEqual([])
    expect(problems([made], { resources: gone })).toEqual([`${path} was made and answers 404`])
    expect(problems([made, call('DELETE', path)], { resources: gone })).toEqual([])
    expect(problems([made, call('DELETE', path)], { resources: there })).toEqual([
      `${path} was deleted and is still there`,
    ])
  })

  it('a deletion without a response leaves its outcome open', () => {
    const asked = call('DELETE', path, { status: null })
    expect(problems([made, asked], { resources: gone })).toEqual([])
    expect(problems([made, asked], { resources: there })).toEqual([])
  })

  it('an acknowledged change persists', () => {
    const rename = call('PATCH', path, { body: { name: 'b' }, start: 20, end: 30 })
    expect(problems([made, rename], { resources: there })).toEqual([`${path} has the name "a", not "b"`])
    expect(problems([made, { ...rename, status: 400 }], { resources: there })).toEqual([])
  })

  it('any of two concurrent changes may be the last', () => {
    const [one, other] = [
      { value: 1, start: 0, end: 10, isKnown: true },
      { value: 2, start: 5, end: 15, isKnown: true },
    ]
    expect(possibleValues([one, other])).toEqual([1, 2])
    expect(possibleValues([one, other, { value: 3, start: 20, end: 30, isKnown: true }])).toEqual([3])
    const late = { value: 3, start: 20, end: 30, isKnown: true }
    expect(possibleValues([{ ...one, isKnown: false }, late])).toEqual([1, 3])
  })
})

describe('apps', () => {
  const deployment = (id: string, status: string, failure: string | null = null, finishedAt = 1_000) => ({
    ...{ id, status, failure, finishedAt },
  })
  const app = (deployments: AppAtEnd['deployments'], more: Partial<AppAtEnd> = {}): AppAtEnd => {
    const serving = deployments.find(({ status }) => status === 'running')?.id ?? null
    return {
      ...{ path: `${project}/apps/app_1`, name: 'app', deployments },
      ...{ serving, refused: new Map() },
      answers: [serving === null ? { status: 503, deployment: null } : { status: 200, deployment: serving }],
      instances: new Map(serving === null ? [] : [['web', { wanted: 1, running: 1 }]]),
      ...more,
    }
  }
  const events = new Set(
    ['dep_1', 'dep_2', 'dep_3'].flatMap((id) =>
      ['succeeded', 'failed', 'canceled'].map((end) => `deployment.${end} ${id}`),
    ),
  )
  const running = { events, processes: new Map([['dep_1', 1]]) }
  const deploy = (id: string, at: number) =>
    call('POST', `${project}/deployments`, { body: { name: 'app' }, answer: { id }, start: at, end: at + 5 })
  const verb = (id: string, what: string, at: number) =>
    call('POST', `${project}/deployments/${id}/${what}`, { status: 200, start: at, end: at + 5 })

  it('a running release that answers and has its instances is correct', () => {
    const found = app([deployment('dep_1', 'running')])
    expect(problems([deploy('dep_1', 0)], { ...running, apps: [found] })).toEqual([])
  })

  it.each<[string, Partial<AppAtEnd>, Partial<StateAtEnd>]>([
    ['nothing answers', { answers: [null] }, {}],
    [
      'another release answers one of several connections',
      { answers: [...Array(3).fill({ status: 200, deployment: 'dep_1' }), { status: 200, deployment: 'dep_2' }] },
      {},
    ],
    ['its answer is 502', { answers: [{ status: 502, deployment: 'dep_1' }] }, {}],
    ['the API names another serving release', { serving: 'dep_2' }, {}],
    ['it has an instance too many', {}, { processes: new Map([['dep_1', 2]]) }],
    ['it has an instance too few', { instances: new Map([['web', { wanted: 2, running: 2 }]]) }, {}],
    [
      'it has a wrong instance',
      {
        instances: new Map([
          ['web', { wanted: 1, running: 1 }],
          ['worker', { wanted: 0, running: 1 }],
        ]),
      },
      {},
    ],
    ['no event announces it', {}, { events: new Set() }],
  ])('finds a running release when %s', (_, more, state) => {
    const found = app([deployment('dep_1', 'running')], more)
    expect(problems([deploy('dep_1', 0)], { ...running, apps: [found], ...state })).toHaveLength(1)
  })

  it('finds an endless build, two running releases, and processes of a stopped release', () => {
    const of = (...deployments: AppAtEnd['deployments']) => problems([], { ...running, apps: [app(deployments)] })
    expect(of(deployment('dep_2', 'building'), deployment('dep_1', 'running'))).toHaveLength(1)
    expect(of(deployment('dep_1', 'running'), deployment('dep_2', 'running'))).toHaveLength(1)
    expect(of(deployment('dep_1', 'stopped'))).toEqual(['dep_1 of app is stopped and has 1 processes'])
  })

  it('finds a connection string of the processes that does not work', () => {
    const database = { path: `${project}/databases/db_1`, status: 'available', problem: null, content: null }
    const refused = app([deployment('dep_1', 'running')], { refused: new Map([['a', 'no such role']]) })
    const of = (name: string) => {
      const connection_string = `postgres://host/${name}`
      const made = call('POST', `${project}/databases`, { answer: { id: 'db_1', connection_string } })
      return problems([made], {
        ...running,
        apps: [refused],
        databases: [{ ...database, opened: [connection_string] }],
      })
    }
    expect(of('a')).toEqual([
      `dep_1 of app has a connection string of ${database.path} that does not work: no such role`,
    ])
    // The database is gone.
    expect(of('b')).toEqual([])
  })

  it('finds an address that answers for a deleted app', () => {
    const of = (deployment: string | null) =>
      problems([], { formerAddresses: new Map([['app_9', { status: 200, deployment }]]) })
    expect(of(null)).toEqual([])
    expect(of('dep_1')).toEqual(['dep_1 answers at the address of app_9, which is gone'])
  })

  it('an assigned number of instances persists, and so does a variable', () => {
    const at = `${project}/apps/app_1`
    const scaled = call('PATCH', `${at}/processes`, { body: { processes: { worker: { instances: 2 } } } })
    const set = call('PATCH', `${at}/variables`, { body: { set: { LEVEL: 'a' }, kind: 'plain' } })
    const of = (worker: number, LEVEL: string) =>
      problems([scaled, set], {
        resources: new Map([
          [`${at}/processes`, { status: 200, body: { web: 1, worker } }],
          [`${at}/variables`, { status: 200, body: { LEVEL } }],
        ]),
      })
    expect(of(2, 'a')).toEqual([])
    expect(of(1, 'b')).toHaveLength(2)
  })

  it('a build may be given up after two faults, but not for faults at another time', () => {
    const of = (...starts: number[]) =>
      problemsOfState(
        [deploy('dep_1', 10_000)],
        starts.map((start) => ({ kind: 'kill a server', start, end: start + 100, deployment: null })),
        { ...empty, events, apps: [app([deployment('dep_1', 'failed', 'interrupted', 20_000)])] },
      )
    expect(of(11_000, 12_000)).toEqual([])
    expect(of(11_000, 50_000)).toHaveLength(1)
    expect(of(100, 12_000)).toHaveLength(1)
  })

  it('finds an app that answers although none of its releases should serve', () => {
    const answers = [
      { status: 503, deployment: null },
      { status: 200, deployment: 'dep_1' },
    ]
    const found = app([deployment('dep_1', 'stopped')], { answers })
    expect(problems([], { events, apps: [found] })).toHaveLength(1)
  })

  it('the newest deployment serves', () => {
    const found = app([deployment('dep_2', 'superseded'), deployment('dep_1', 'running')])
    const calls = [deploy('dep_1', 0), deploy('dep_2', 100)]
    expect(problems(calls, { ...running, apps: [found] })).toEqual(['dep_2 of app was wanted last and is superseded'])
  })

  it('the previous deployment serves when the newest was canceled', () => {
    const all = (second: string) =>
      app([deployment('dep_3', 'canceled'), deployment('dep_2', second), deployment('dep_1', 'running')])
    const calls = [deploy('dep_1', 0), deploy('dep_2', 100), deploy('dep_3', 200), verb('dep_3', 'cancel', 300)]
    expect(problems(calls, { ...running, apps: [all('superseded')] })).toHaveLength(1)
    // Nothing was canceled.
    expect(problems(calls.slice(0, 3), { ...running, apps: [all('stopped')] })).toHaveLength(1)
  })

  it('a deployment is superseded only while a newer one is desired', () => {
    const calls = [deploy('dep_1', 0), deploy('dep_2', 100), deploy('dep_3', 60_000)]
    const served = new Set(['dep_1', 'dep_3'].map((id) => `deployment.succeeded ${id}`))
    const of = (at: number, more: Call[] = [], third = deployment('dep_3', 'running')) =>
      problems([...calls, ...more], {
        ...{ events: new Set([...served, 'deployment.canceled dep_3']), processes: new Map([['dep_3', 1]]) },
        apps: [app([third, deployment('dep_2', 'superseded', null, at), deployment('dep_1', 'superseded')])],
      })
    expect(of(60_002)).toEqual([])
    expect(of(5_000)).toEqual(['dep_2 of app is superseded, and nothing newer was wanted'])
    // A rollback supersedes the current build.
    expect(of(5_000, [verb('dep_1', 'rollback', 4_000)])).toEqual([])
  })

  it('a deployment returns when its superseding deployment is canceled, unless another one came in between', () => {
    const of = (last: number) => {
      const calls = [deploy('dep_1', 0), deploy('dep_2', 100), verb('dep_2', 'cancel', 1_000), deploy('dep_3', last)]
      const all = [deployment('dep_3', 'running'), deployment('dep_2', 'canceled', null, 1_001)]
      return problems(calls, {
        events: new Set(['deployment.succeeded dep_3', 'deployment.canceled dep_2']),
        processes: new Map([['dep_3', 1]]),
        apps: [app([...all, deployment('dep_1', 'superseded', null, 101)])],
      })
    }
    expect(of(500)).toEqual([])
    expect(of(60_000)).toEqual(['dep_1 of app is superseded, and nothing newer was wanted any more'])
  })

  it('the target of a rollback serves, and nothing is desired after a stop', () => {
    const found = app([deployment('dep_2', 'superseded'), deployment('dep_1', 'running')])
    const calls = [deploy('dep_1', 0), deploy('dep_2', 100), verb('dep_1', 'rollback', 200)]
    expect(problems(calls, { ...running, apps: [found] })).toEqual([])
    const stopped = app([deployment('dep_1', 'stopped')])
    expect(problems([deploy('dep_1', 0), verb('dep_1', 'stop', 200)], { events, apps: [stopped] })).toEqual([])
    expect(problems([deploy('dep_1', 0)], { events, apps: [stopped] })).toHaveLength(1)
  })

  it('a deployment fails for a reason', () => {
    const of = (failure: string) =>
      problems([deploy('dep_1', 0)], { events, apps: [app([deployment('dep_1', 'failed', failure)])] })
    expect(of('not_recognised')).toEqual([])
    expect(of('start_timeout')).toHaveLength(1)
  })

  it('finds processes and files without a deployment', () => {
    expect(problems([], { processes: new Map([['dep_9', 1]]), releases: ['dep_8'] })).toEqual([
      'dep_9 has processes and no deployment',
      'dep_8 has files and no deployment',
    ])
  })
})

describe('databases and other work', () => {
  const path = `${project}/databases/db_1`
  const made = call('POST', `${project}/databases`, { answer: { id: 'db_1', connection_string: 'a' } })
  const rotated = (status: number | null) =>
    call('POST', `${path}/rotate-password`, {
      ...{ status, start: 20, end: 30 },
      answer: status === 200 ? { connection_string: 'b' } : null,
    })
  const of = (calls: Call[], opened: string[], status = 'available') =>
    problems(calls, { databases: [{ path, status, opened, problem: 'closed', content: null }] })

  it('a database that is available accepts connections', () => {
    expect(of([made], ['a'])).toEqual([])
    expect(of([made], [])).toEqual([`${path} is available and accepts no connection: closed`])
    expect(of([made], [], 'deleting')).toEqual([])
  })

  it('the newest password works, and after a rotation without a response any may work', () => {
    expect(of([made, rotated(200)], ['b'])).toEqual([])
    expect(of([made, rotated(200)], ['a'])).toHaveLength(1)
    expect(of([made, rotated(null)], [])).toEqual([])
  })

  it('finds missing rows that were written to a database', () => {
    const of = (found: number) =>
      problems([made], {
        databases: [{ path, status: 'available', opened: ['a'], problem: null, content: { found, written: 2 } }],
      })
    expect(of(2)).toEqual([])
    expect(of(1)).toEqual([`${path} has 1 of the 2 rows that were written to it`])
  })

  it('a key is accepted until it is revoked; a revocation without a response leaves its outcome open', () => {
    const of = (isAccepted: boolean, revocations: readonly Call[]) =>
      problems(revocations, { keys: new Map([['key_1', isAccepted]]) })
    const revoked = (status: number | null) => call('DELETE', '/api-keys/key_1', { status })
    expect([of(true, []), of(false, [revoked(204)]), of(true, [revoked(null)]), of(false, [revoked(null)])]).toEqual(
      Array(4).fill([]),
    )
    expect(of(false, [])).toEqual(['the key key_1 was made and is refused'])
    expect(of(true, [revoked(204)])).toEqual(['the key key_1 was revoked and is accepted'])
  })

  it('a creation that was sent twice makes one resource', () => {
    const of = (...ids: string[]) =>
      problems(
        ids.map((id) => call('POST', '/projects', { key: 'twice', answer: { id } })),
        {},
      )
    expect(of('proj_1', 'proj_1')).toEqual([])
    expect(of('proj_1', 'proj_2')).toEqual(['the key twice of one creation made proj_1 and proj_2'])
  })

  it('the audit log has each acknowledged change, and no refused change', () => {
    const of = (status: number | null, audited: string[], more: Call[] = []) =>
      problems([call('PATCH', '/webhooks/wh_1', { id: 'a', status }), ...more], { audited: new Set(audited) })
    expect([of(200, ['a']), of(400, []), of(null, ['a']), of(null, [])]).toEqual(Array(4).fill([]))
    expect([of(200, []), of(400, ['a'])]).toEqual(Array(2).fill([expect.stringContaining('audit log')]))
    const twice = ['b', 'c'].map((id) => call('POST', '/projects', { id, key: 'twice', answer: { id: 'proj_1' } }))
    expect([of(200, ['a', 'c'], twice), of(200, ['a'], twice)].map(({ length }) => length)).toEqual([0, 2])
  })

  it('each event is created as often as it happened, and received', () => {
    const uploaded = call('POST', `${project}/storage/upload`, { answer: { id: 'file_1' } })
    const of = (made: Record<string, number>, calls: Call[] = [], events: string[] = Object.keys(made)) =>
      problems(calls, { made: new Map(Object.entries(made)), events: new Set(events) })
    expect([0, 1, 2].map((times) => of({ 'file.uploaded file_1': times }, [uploaded]).length)).toEqual([1, 0, 1])
    expect(of({ 'deployment.succeeded dep_1': 1 })).toEqual([])
    expect(of({ 'deployment.succeeded dep_1': 2 })).toHaveLength(1)
    expect(of({ 'deployment.succeeded dep_1': 2 }, [call('POST', `${project}/deployments/dep_1/restart`)])).toEqual([])
    expect(of({ 'deployment.succeeded dep_1': 1 }, [], [])).toEqual([
      'deployment.succeeded dep_1 was made and not received',
    ])
    const available = new Map([[path, { status: 200, body: { status: 'available' } }]])
    expect(problems([made], { resources: available })).toEqual(['db_1 is available, and no event says so'])
  })

  it('a file keeps its uploaded content until the file is deleted', () => {
    const at = `${project}/storage/files/file_1`
    const of = (status: number, isRight: boolean | null, calls: Call[] = []) =>
      problems(calls, {
        downloads: new Map([[at, isRight]]),
        resources: new Map([[at, { status, body: {} }]]),
      }).length
    const gone = [call('DELETE', at, { status: 204 })]
    expect([of(200, true), of(404, null, gone), of(200, false), of(200, null), of(404, true, gone)]).toEqual([
      0, 0, 1, 1, 1,
    ])
  })

  it('a command that ended with code 0 has succeeded', () => {
    const at = `${project}/apps/app_1/runs/run_1`
    const of = (code: number, status: string) =>
      problems([call('RUN', at, { status: 200, answer: { type: 'exit', code, problem: null } })], {
        resources: new Map([[at, { status: 200, body: { status } }]]),
      }).length
    expect([of(0, 'succeeded'), of(1, 'failed'), of(0, 'failed'), of(0, 'running')]).toEqual([0, 0, 1, 1])
  })

  it('a schedule for every minute continues, and begins one run per minute', () => {
    const of = (times: string[], lateMs: number, kinds: string[] = []) => {
      const windows = kinds.map((kind) => ({ kind, start: 0, end: 1, deployment: null }))
      return problemsOfState([], windows, { ...empty, minutes: [{ path: 's', times, lateMs }] }).length
    }
    const at = (time: string) => `2026-01-01T12:${time}Z`
    expect(of([at('00:00.000'), at('01:00.000')], 60_000)).toBe(0)
    expect(of([at('00:00.000'), at('00:00.001')], 60_000)).toBe(1)
    expect(of([at('00:00.000')], 200_000)).toBe(1)
    expect(of([at('00:00.000')], 200_000, ['move the clock of a server'])).toBe(0)
  })

  it('finds a creation beyond the limit of a plan, even when something was deleted after it', () => {
    const made = (id: string, start: number) =>
      call('POST', `${project}/databases`, { answer: { id }, ...{ start, end: start + 100 } })
    const gone = (start: number) => call('DELETE', `${project}/databases/db_1`, { status: 204, start, end: start + 10 })
    const of = (...calls: Call[]) => problems(calls, { limits: new Map([[`${project}/databases`, 2]]) }).length
    const all = [made('db_1', 0), made('db_2', 5), made('db_3', 10)]
    expect([of(...all.slice(1)), of(...all), of(...all, gone(50)), of(...all, gone(200))]).toEqual([0, 1, 0, 1])
  })

  it('finds remaining jobs and transactions, more than a plan allows, and wrong counters', () => {
    const counts = [
      { what: 'databases', found: 3, least: 0, most: 2 },
      { what: 'projects', found: 1, least: 2, most: 2 },
      { what: 'bytes', found: 5, least: 5, most: 5 },
    ]
    expect(problems([], { jobs: ['deployments.deploy'], transactions: ['select 1'], counts })).toEqual([
      'a job is left: deployments.deploy',
      'a transaction stays open: select 1',
      'there are 3 databases, and there should be 0 to 2',
      'there are 1 projects, and there should be 2 to 2',
    ])
  })

  it('finds endless work, lost files and lost deliveries', () => {
    const state = {
      underWay: [{ path: 'run_1', status: 'running' }],
      files: { missing: ['file_1'], strange: ['file_2'] },
      pending: ['dlv_1'],
    }
    expect(problems([], state)).toHaveLength(4)
  })
})
