import { randomFrom } from '../chaos/random.ts'

/*
 * The operations of a history, made only from a seed. Operations name their targets by numbers, so a plan stays valid
 * when steps are removed.
 */

export const sources = ['good', 'slow', 'broken'] as const

/**
 * An operation. `project`, `app`, `database` … are the numbers of targets. `of` counts from the newest one: an app's
 * deployments, or a project's databases where the plan allows two.
 */
export type Operation =
  /** Waits until all builds and databases are ready. */
  | { readonly do: 'settle' }
  | { readonly do: 'deploy'; readonly app: number; readonly source: (typeof sources)[number] }
  | { readonly do: 'cancel' | 'stop' | 'rollback' | 'restart'; readonly app: number; readonly of: number }
  | { readonly do: 'scale'; readonly app: number; readonly web: number; readonly worker: number }
  | { readonly do: 'run'; readonly app: number; readonly lastsMs: number }
  | { readonly do: 'create schedule'; readonly app: number; readonly name: number }
  | { readonly do: 'rename schedule'; readonly app: number; readonly schedule: number; readonly name: number }
  | { readonly do: 'move schedule'; readonly app: number; readonly schedule: number; readonly hour: number }
  | { readonly do: 'delete schedule'; readonly app: number; readonly schedule: number }
  | { readonly do: 'create minute schedule'; readonly app: number; readonly name: number }
  | { readonly do: 'set variable'; readonly app: number; readonly name: number; readonly value: number }
  | { readonly do: 'delete app' | 'visit'; readonly app: number }
  | { readonly do: 'create project' | 'upload' | 'create database' | 'create webhook'; readonly name: number }
  /** Sends the creation of a project a second time, at once. */
  | { readonly do: 'create project twice'; readonly name: number }
  | {
      readonly do: 'rename project' | 'change plan' | 'delete project'
      readonly project: number
      readonly value: number
    }
  | {
      readonly do: 'rate webhook' | 'delete webhook' | 'move webhook'
      readonly webhook: number
      readonly value: number
    }
  | { readonly do: 'delete upload'; readonly upload: number }
  | { readonly do: 'create small database' | 'create key'; readonly name: number }
  | { readonly do: 'delete small database' | 'restore small database'; readonly of: number }
  | { readonly do: 'revoke key'; readonly key: number }
  | { readonly do: 'fill' | 'rotate' | 'snapshot' | 'delete database' | 'restore database'; readonly database: number }
  | { readonly do: 'link'; readonly database: number; readonly app: number }
  | { readonly do: 'unlink'; readonly link: number }
  | {
      readonly do: 'delete snapshot' | 'restore snapshot'
      readonly database: number
      readonly snapshot: number
    }

export const faults = [
  'cut the database',
  'kill a server',
  'kill all servers',
  'suspend a server',
  'kill the gateway',
  'suspend the gateway',
  'kill a worker of the gateway',
  'suspend a worker of the gateway',
  'end an instance',
  'hang an instance',
  'fill the descriptors of a server',
  'move the clock of a server',
] as const

export interface Fault {
  readonly kind: (typeof faults)[number]
  /** Counts from the start of the step. */
  readonly afterMs: number
  readonly lastsMs: number
  readonly target: number
  /**
   * From the start of the step until the fault, statements take this much longer, so that the fault falls between two
   * statements.
   */
  readonly slowMs?: number
  /**
   * The fault comes at this write since the start of the step, counted over all servers, or at `afterMs` when there are
   * fewer. The lost part never arrives: the statement, or its response.
   *
   * `to` limits the count to one table; by default all tables count
   */
  readonly atWrite?: { readonly number: number; readonly loses: 'statement' | 'answer'; readonly to?: string }
  /** The fault comes during a copy of a database's content, or at `afterMs` without a copy. */
  readonly atCopy?: true
  /** The seconds by which a clock is moved. */
  readonly seconds?: number
}

/** Operations that begin at the same moment, and optionally a fault. */
export interface Step {
  readonly together: readonly Operation[]
  readonly fault?: Fault
  /** The time until the next step begins. */
  readonly pauseMs: number
}

export interface Plan {
  readonly seed: number
  readonly servers: number
  readonly steps: readonly Step[]
}

/** The permanent apps of the first project, and the apps that are deleted repeatedly. */
export const steadyApps = 2
const fleetingApps = 3
const databases = 2
/** Even targets of faults are the leader, odd targets any server. */
const leader = 0

/** Makes the plan of a seed, with at least this many operations, and this many faults among them. */
export function planOf(seed: number, size: { readonly operations: number; readonly faults: number }): Plan {
  const random = randomFrom(seed)
  const below = (limit: number) => Math.floor(random() * limit)
  const any = <Item>(items: readonly Item[]): Item => items[below(items.length)] as Item
  const app = () => below(steadyApps)
  const fleeting = () => steadyApps + below(fleetingApps)
  const database = () => below(databases)
  const alone = (together: Operation, pauseMs = below(300)): Step => ({ together: [together], pauseMs })
  const fault = (kind: Fault['kind'], afterMs: number): Fault => ({
    ...{ kind, afterMs, target: below(10) },
    lastsMs: /^(suspend|fill|move)/.test(kind) ? 1_000 + below(9_000) : 300 + below(1_500),
    ...(kind === 'move the clock of a server' ? { seconds: any([-86_400, -3_600, -20, 20, 3_600, 86_400]) } : {}),
  })

  const single = (): Operation =>
    any<() => Operation>([
      () => ({ do: 'deploy', app: app(), source: any(sources) }),
      () => ({ do: 'deploy', app: fleeting(), source: 'broken' }),
      () => ({ do: any(['cancel', 'rollback', 'restart'] as const), app: app(), of: below(4) }),
      () => ({ do: 'scale', app: app(), web: 1 + below(3), worker: below(3) }),
      () => ({ do: 'run', app: app(), lastsMs: below(800) }),
      () => ({ do: 'create schedule', app: app(), name: below(6) }),
      () => ({ do: 'move schedule', app: app(), schedule: below(3), hour: below(24) }),
      () => ({ do: 'delete schedule', app: app(), schedule: below(4) }),
      () => ({ do: 'set variable', app: app(), name: below(3), value: below(1_000) }),
      () => ({ do: 'visit', app: app() }),
      () => ({ do: any(['create project', 'create project twice'] as const), name: below(1_000) }),
      () => ({ do: 'delete project', project: below(20), value: 0 }),
      () => ({ do: any(['rename project', 'change plan'] as const), project: below(4), value: below(1_000) }),
      () => ({ do: 'upload', name: below(1_000) }),
      () => ({ do: 'delete upload', upload: below(5) }),
      () => ({ do: 'create database', name: below(1_000) }),
      () => ({ do: 'rotate', database: database() }),
      () => ({ do: 'snapshot', database: database() }),
      () => ({ do: any(['delete snapshot', 'restore snapshot'] as const), database: database(), snapshot: below(2) }),
      () => ({ do: 'link', database: database(), app: app() }),
      () => ({ do: 'unlink', link: below(4) }),
      () => ({ do: 'create webhook', name: below(1_000) }),
      () => ({ do: any(['rate webhook', 'move webhook'] as const), webhook: below(3), value: 1 + below(900) }),
      () => ({ do: 'delete webhook', webhook: below(20), value: 0 }),
      () => ({ do: 'create key', name: below(1_000_000) }),
      () => ({ do: 'revoke key', key: below(5) }),
    ])()

  /** Sequences of operations on the same target. */
  const meetings: readonly (() => Step[])[] = [
    // An app is deleted while others use it.
    () => {
      const at = fleeting()
      const beside: Operation[] = [
        { do: 'create schedule', app: at, name: below(6) },
        { do: 'scale', app: at, web: 1, worker: 0 },
        { do: 'run', app: at, lastsMs: 0 },
        { do: 'create schedule', app: at, name: 6 + below(6) },
        { do: 'rollback', app: at, of: 0 },
        { do: 'restart', app: at, of: 0 },
        { do: 'run', app: at, lastsMs: 0 },
      ]
      const cut = below(beside.length)
      return [
        alone({ do: 'deploy', app: at, source: 'broken' }, 400 + below(400)),
        { together: [...beside.slice(0, cut), { do: 'delete app', app: at }, ...beside.slice(cut)], pauseMs: 50 },
      ]
    },
    // Fields of a project, a webhook and schedules.
    () => {
      const project = below(4)
      return [
        {
          together: [
            { do: 'rename project', project, value: below(1_000) },
            { do: 'change plan', project, value: below(2) },
          ],
          pauseMs: 0,
        },
      ]
    },
    () => {
      const webhook = below(3)
      return [
        {
          together: [
            { do: 'rate webhook', webhook, value: 1 + below(900) },
            { do: 'move webhook', webhook, value: below(1_000) },
          ],
          pauseMs: 0,
        },
      ]
    },
    () => {
      const at = app()
      const name = below(6)
      return [
        alone({ do: 'create schedule', app: at, name: below(6) }, 0),
        alone({ do: 'create schedule', app: at, name: below(6) }, 0),
        {
          together: [
            { do: 'rename schedule', app: at, schedule: 0, name },
            { do: 'rename schedule', app: at, schedule: 1, name },
            { do: 'move schedule', app: at, schedule: 0, hour: below(24) },
          ],
          pauseMs: 0,
        },
      ]
    },
    () => {
      const at = app()
      const [one, other] = [below(3), below(3)]
      return [
        {
          together: [
            { do: 'set variable', app: at, name: one, value: below(1_000) },
            { do: 'set variable', app: at, name: other, value: below(1_000) },
            { do: 'scale', app: at, web: 1 + below(3), worker: below(3) },
          ],
          pauseMs: 0,
        },
      ]
    },
    // More databases than the plan of their project allows.
    () => [
      {
        together: [
          { do: 'create small database', name: below(1_000) },
          { do: 'create small database', name: below(1_000) },
          { do: 'create small database', name: below(1_000) },
        ],
        pauseMs: 100,
      },
    ],
    // Files are uploaded and deleted.
    () => {
      const name = below(1_000)
      return [
        { together: [1, 2, 3].map((more) => ({ do: 'upload', name: name + more }) as const), pauseMs: 0 },
        {
          together: [
            { do: 'delete upload', upload: below(20) },
            { do: 'delete upload', upload: below(20) },
          ],
          pauseMs: 0,
        },
      ]
    },
    // A creation is sent again, as by a client without a response.
    () => [{ together: [{ do: 'create project twice', name: below(1_000) }], pauseMs: 0 }],
    // A password changes during a build, and once more.
    () => {
      const at = app()
      const of = database()
      return [
        alone({ do: 'deploy', app: at, source: 'good' }, 0),
        alone({ do: 'settle' }, 0),
        alone({ do: 'link', database: of, app: at }, 500),
        alone({ do: 'deploy', app: at, source: 'slow' }, 200 + below(900)),
        alone({ do: 'rotate', database: of }, 500),
        alone({ do: 'settle' }, 0),
        // Only the second change ends the password that the app was started with.
        alone({ do: 'rotate', database: of }, 500),
      ]
    },
    // The newest of several deployments is canceled.
    () => {
      const at = app()
      return [
        alone({ do: 'deploy', app: at, source: 'slow' }, 400 + below(400)),
        alone({ do: 'deploy', app: at, source: 'good' }, 0),
        alone({ do: 'deploy', app: at, source: any(['good', 'broken'] as const) }, 0),
        alone({ do: 'cancel', app: at, of: 0 }, 500),
      ]
    },
    // One database is deleted while another is restored.
    () => [
      alone({ do: 'delete database', database: 0 }, 300),
      {
        together: [
          { do: 'restore database', database: 0 },
          { do: 'delete database', database: 1 },
        ],
        pauseMs: 300,
      },
      {
        together: [
          { do: 'delete database', database: 0 },
          { do: 'restore database', database: 1 },
        ],
        pauseMs: 300,
      },
      alone({ do: 'restore database', database: 0 }),
    ],
    // The oldest deleted database is restored while another deletion exceeds the limit of deleted databases.
    () => [
      ...[0, 1, 2].map((of) => alone({ do: 'delete small database', of }, 0)),
      alone({ do: 'create small database', name: below(1_000) }, 0),
      alone({ do: 'create small database', name: below(1_000) }, 0),
      alone({ do: 'settle' }, 0),
      alone({ do: 'delete small database', of: 1 }, 50),
      alone({ do: 'delete small database', of: 0 }, 0),
      alone({ do: 'create small database', name: below(1_000) }, 0),
      ...[2, 1, 0, 2, 1].flatMap((of) => [
        alone({ do: 'settle' }, 300),
        {
          together: [
            { do: 'restore small database', of } as const,
            { do: 'delete small database', of: (of + 1) % 3 } as const,
          ],
          pauseMs: 100,
        },
      ]),
    ],
  ]

  /** Work in several steps, with its preparation and with requests for the same object half-way. */
  const work = (): {
    readonly first: readonly Step[]
    readonly begin: Operation
    readonly next: Operation
    /** The table that shows its progress. */
    readonly table: string
  } => {
    const at = app()
    const of = database()
    const snapshot = (): ReturnType<typeof work> => ({
      first: [],
      begin: { do: 'snapshot', database: of },
      next: {
        do: any(['delete snapshot', 'delete snapshot', 'restore snapshot'] as const),
        ...{ database: of, snapshot: 0 },
      },
      table: 'snapshots',
    })
    const scaled = (): ReturnType<typeof work> => ({
      first: [alone({ do: 'scale', app: at, web: 1, worker: 0 }, 2_000)],
      begin: { do: 'scale', app: at, web: 3, worker: 2 },
      next: any<Operation>([
        { do: 'scale', app: at, web: 1, worker: 0 },
        { do: 'visit', app: at },
      ]),
      table: 'instances',
    })
    return any<() => ReturnType<typeof work>>([
      snapshot,
      snapshot,
      scaled,
      scaled,
      () => ({
        first: [],
        begin: { do: 'deploy', app: at, source: any(['good', 'slow'] as const) },
        next: { do: any(['cancel', 'stop', 'restart', 'rollback'] as const), app: at, of: below(2) },
        table: 'deployments',
      }),
      () => ({
        first: [],
        begin: { do: any(['restart', 'rollback'] as const), app: at, of: below(2) },
        next: { do: 'deploy', app: at, source: 'good' },
        table: 'deployments',
      }),
      () => ({
        first: [alone({ do: 'link', database: of, app: at }, 500)],
        begin: { do: 'rotate', database: of },
        next: any<Operation>([
          { do: 'rotate', database: of },
          { do: 'restart', app: at, of: 0 },
        ]),
        table: 'databases',
      }),
      () => ({
        first: [],
        begin: { do: 'delete database', database: of },
        next: { do: 'restore database', database: of },
        table: 'databases',
      }),
      () => ({
        first: [alone({ do: 'snapshot', database: of }, 2_000)],
        begin: { do: 'restore snapshot', database: of, snapshot: 0 },
        next: { do: any(['rotate', 'snapshot'] as const), database: of },
        table: 'databases',
      }),
      () => ({
        first: [],
        begin: { do: 'run', app: at, lastsMs: 300 },
        next: { do: 'run', app: at, lastsMs: 0 },
        table: 'runs',
      }),
    ])()
  }
  const atWrite = (to: string): Pick<Fault, 'afterMs' | 'atWrite'> => {
    const loses = any(['statement', 'statement', 'answer'] as const)
    const which = random() < 0.5 ? { number: 1 + below(4), to } : { number: 1 + below(16) }
    return { afterMs: 4_000, atWrite: { ...which, loses } }
  }

  /** Faults beside work that they can leave half finished. */
  const halfway = (): Step[] => {
    const { first, begin, next, table } = work()
    const kind = any([
      ...(['kill a server', 'kill a server', 'kill all servers', 'cut the database', 'suspend a server'] as const),
    ])
    const isCopy = /snapshot/.test(begin.do) && random() < 0.5
    const soon = () => (random() < 0.7 ? atWrite(table) : { afterMs: 100 + below(2_500), slowMs: 50 })
    const moment = isCopy ? ({ afterMs: 4_000, atCopy: true } as const) : soon()
    return [...first, { ...alone(begin, 50), fault: { ...fault(kind, 0), target: leader, ...moment } }, alone(next)]
  }
  const disturbed: readonly (() => Step[])[] = [
    ...Array<typeof halfway>(5).fill(halfway),
    () => [
      {
        ...alone({ do: 'run', app: app(), lastsMs: 300 }, 1_000),
        fault: fault('cut the database', 200 + below(600)),
      },
    ],
    () => {
      const at = app()
      return [
        alone({ do: 'scale', app: at, web: 2, worker: 0 }, 4_000),
        { ...alone({ do: 'visit', app: at }, 1_000), fault: { ...fault('hang an instance', 0), target: at } },
      ]
    },
    () => [
      {
        together: [single(), single(), single(), { do: 'visit', app: app() }],
        pauseMs: 500,
        fault: fault(any(faults.filter((kind) => kind !== 'hang an instance')), below(800)),
      },
    ],
  ]

  const steps: Step[] = [
    ...Array.from({ length: steadyApps }, (_, at) => alone({ do: 'deploy', app: at, source: 'good' }, 100)),
    ...Array.from({ length: databases }, (_, at) => alone({ do: 'create database', name: at }, 100)),
    alone({ do: 'create webhook', name: 0 }, 0),
    alone({ do: 'create key', name: 0 }, 0),
    alone({ do: 'settle' }, 0),
    ...Array.from({ length: steadyApps }, (_, at) => alone({ do: 'create minute schedule', app: at, name: at }, 0)),
    // Copies of databases take a while.
    ...Array.from({ length: databases }, (_, at) => alone({ do: 'fill', database: at }, 0)),
  ]
  const count = () => steps.reduce((sum, { together }) => sum + together.length, 0)
  let made = 0
  while (count() < size.operations || made < size.faults) {
    const due = (made + 1) / (size.faults + 1)
    if (made < size.faults && count() / size.operations >= due) {
      steps.push(...any(disturbed)())
      made += 1
    } else if (random() < 0.5) steps.push(...any(meetings)())
    else steps.push({ together: Array.from({ length: 2 + below(3) }, single), pauseMs: below(300) })
  }
  return { seed, servers: 1 + below(3), steps }
}
