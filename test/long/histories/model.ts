/*
 * Checks the final state of a history. Everything here is a pure function of the record of a history and of the state
 * at its end.
 */

/** A request with its response. Times are milliseconds since the start of the history. */
export interface Call {
  readonly step: number
  readonly method: string
  /** The path below `/v1`; for visits of an app the whole address. */
  readonly path: string
  readonly body: Readonly<Record<string, unknown>> | null
  /** Its `X-Request-Id`; absent for commands and visits. */
  readonly id?: string
  /** Its `Idempotency-Key`. */
  readonly key?: string
  readonly start: number
  readonly end: number
  /** `null` without a response: the change may have been made, or not. */
  readonly status: number | null
  readonly answer: unknown
}

/** The time of a fault: from its start until all of its targets are back. */
export interface FaultWindow {
  readonly kind: string
  readonly start: number
  readonly end: number
  /** The deployment whose instance ended; otherwise `null`. */
  readonly deployment: string | null
}

export interface DeploymentAtEnd {
  readonly id: string
  readonly status: string
  /** The code of its failure. */
  readonly failure: string | null
  /** The end of its job, on the time scale of calls; `null` before. */
  readonly finishedAt: number | null
}

export interface AppAtEnd {
  readonly path: string
  readonly name: string
  readonly deployments: readonly DeploymentAtEnd[]
  /** The serving deployment, according to the API. */
  readonly serving: string | null
  /** The responses at the app's address to several connections. */
  readonly answers: readonly AddressAtEnd[]
  /** The numbers of desired and running instances, from the API and by process type; none without a running release. */
  readonly instances: ReadonlyMap<string, { readonly wanted: number; readonly running: number }>
  /** The names in the processes' connection strings that do not work, with the reason. */
  readonly refused: ReadonlyMap<string, string>
}

/** A response with its deployment, `null` without a listener. */
export type AddressAtEnd = { readonly status: number; readonly deployment: string | null } | null

/** The state that the API, the processes and the disk show at the end. */
export interface StateAtEnd {
  /** The responses to a GET of every resource that was ever created, by its path. */
  readonly resources: ReadonlyMap<string, { readonly status: number; readonly body: unknown }>
  readonly apps: readonly AppAtEnd[]
  /** The number of instances among the processes of the machine, by deployment. */
  readonly processes: ReadonlyMap<string, number>
  readonly databases: readonly {
    readonly path: string
    readonly status: string
    /** The returned connection strings that work. */
    readonly opened: readonly string[]
    /** The reason why the newest connection string does not work. */
    readonly problem: string | null
    /** The present share of its written content; `null` without writes. */
    readonly content: { readonly found: number; readonly written: number } | null
  }[]
  /** The accepted ones of the created keys, by their ids. */
  readonly keys: ReadonlyMap<string, boolean>
  /** Work that should end: runs, snapshots and databases by their path, with their status. */
  readonly underWay: readonly { readonly path: string; readonly status: string }[]
  /** Stored files with a row and no content, and with content and no row. */
  readonly files: { readonly missing: readonly string[]; readonly strange: readonly string[] }
  /** The folders of releases on the disk. */
  readonly releases: readonly string[]
  /** Deliveries without success to the endpoint that accepts everything. */
  readonly pending: readonly string[]
  /** The events that it received, such as `deployment.failed dep_1`. */
  readonly events: ReadonlySet<string>
  /** How often each event was created, in the same format. */
  readonly made: ReadonlyMap<string, number>
  /** True for files whose address returns the uploaded content, `null` for files whose address returns none. */
  readonly downloads: ReadonlyMap<string, boolean | null>
  /** The responses at the addresses of deleted apps. */
  readonly formerAddresses: ReadonlyMap<string, AddressAtEnd>
  /** The ids of requests that the audit log names. */
  readonly audited: ReadonlySet<string>
  /** Due jobs, with their outcome. */
  readonly jobs: readonly string[]
  /** Statements of transactions that remain open. */
  readonly transactions: readonly string[]
  /** The maximal number of resources that requests to a path create. */
  readonly limits: ReadonlyMap<string, number>
  /** Numbers that a plan limits or a counter counts: the actual and the correct number. */
  readonly counts: readonly {
    readonly what: string
    readonly found: number
    readonly least: number
    readonly most: number
  }[]
  /**
   * The schedules for every minute: the times for which they have begun runs, and the age of the newest, in
   * milliseconds.
   */
  readonly minutes: readonly { readonly path: string; readonly times: readonly string[]; readonly lateMs: number }[]
}

const isOfClock = ({ kind }: FaultWindow) => kind === 'move the clock of a server'
const acknowledged = ({ status }: Call) => status !== null && status < 300
const unknown = ({ status }: Call) => status === null || status >= 500
const isRefused = (call: Call) => !acknowledged(call) && !unknown(call)

/** The creations of resources that can be read at their path and their id. */
const creations =
  /^\/(projects|webhooks|projects\/[^/]+\/(deployments|databases|links)|projects\/[^/]+\/databases\/[^/]+\/snapshots|projects\/[^/]+\/apps\/[^/]+\/(runs|schedules))$/

/** Returns the path of the resource that a request created; `null` when it created none. */
export function madeBy({ method, path, status, answer }: Call): string | null {
  if (method !== 'POST' || status !== 201) return null
  const { id } = Object(answer) as { id?: string }
  if (id === undefined) return null
  if (path.endsWith('/storage/upload')) return path.replace(/upload$/, `files/${id}`)
  return creations.test(path) ? `${path}/${id}` : null
}

/** Returns the problems in the responses of a history. */
export function problemsOfAnswers(calls: readonly Call[], windows: readonly FaultWindow[]): string[] {
  const disturbed = ({ start, end }: Call) => windows.some((window) => window.start <= end && start <= window.end)
  const isVisit = ({ path }: Call) => path.startsWith('http')
  // A stopped or restarting app answers 503.
  const failed = (call: Call) =>
    isVisit(call) ? call.status === 502 || call.status === 504 : call.status === null || call.status >= 500
  return calls
    .filter((call) => failed(call) && !disturbed(call))
    .map((call) => `step ${call.step}: ${call.method} ${call.path} got ${call.status ?? 'no answer'} without a fault`)
}

/** Returns the problems of the final state. */
export function problemsOfState(calls: readonly Call[], windows: readonly FaultWindow[], state: StateAtEnd): string[] {
  return [
    ...lostResources(calls, state),
    ...lostChanges(calls, state),
    ...state.apps.flatMap((app) => [...problemsOfApp(app, state), ...problemsOfWants(app, calls, windows, state)]),
    ...strangers(state),
    ...problemsOfKeys(calls, state),
    ...state.databases.flatMap((database) => problemsOfDatabase(database, calls)),
    ...state.underWay.map(({ path, status }) => `${path} is still ${status}`),
    ...repeatedCreations(calls),
    ...exceededLimits(calls, state),
    ...problemsOfAudit(calls, state),
    ...problemsOfEvents(calls, state),
    ...problemsOfDownloads(calls, state),
    ...problemsOfRuns(calls, state),
    ...problemsOfMinutes(windows, state),
    ...[...state.formerAddresses].flatMap(([path, address]) =>
      address?.deployment ? [`${address.deployment} answers at the address of ${path}, which is gone`] : [],
    ),
    ...state.jobs.map((job) => `a job is left: ${job}`),
    ...state.transactions.map((statement) => `a transaction stays open: ${statement}`),
    ...state.counts
      .filter(({ found, least, most }) => found < least || found > most)
      .map(({ what, found, least, most }) => `there are ${found} ${what}, and there should be ${least} to ${most}`),
    ...state.files.missing.map((id) => `the content of ${id} is not on the disk`),
    ...state.files.strange.map((name) => `${name} is on the disk and has no row`),
    ...state.pending.map((delivery) => `the delivery ${delivery} has not succeeded`),
  ]
}

/** Each created resource exists unless it, or its parent, was deleted; deleted resources do not exist. */
function lostResources(calls: readonly Call[], { resources }: StateAtEnd): string[] {
  const problems: string[] = []
  for (const call of calls) {
    const path = madeBy(call)
    const final = path === null ? undefined : resources.get(path)
    if (path === null || final === undefined) continue
    const deletions = deletionsOf(path, calls)
    if (final.status >= 300 && deletions.length === 0) problems.push(`${path} was made and answers ${final.status}`)
    // A deleted database can be restored, so it remains. Deletions of apps remove the deployments of known apps.
    const isGone = deletions.some(
      (deletion) =>
        acknowledged(deletion) &&
        !/^\/projects\/[^/]+\/databases\/[^/]+$/.test(deletion.path) &&
        (path === deletion.path || path.startsWith(`${deletion.path}/`)),
    )
    if (final.status < 300 && isGone) problems.push(`${path} was deleted and is still there`)
  }
  return problems
}

/** A creation that is sent twice with one key makes one resource. */
function repeatedCreations(calls: readonly Call[]): string[] {
  const groups = Map.groupBy(
    calls.filter((call) => call.key !== undefined && acknowledged(call)),
    ({ key }) => key,
  )
  return [...groups].flatMap(([key, same]) => {
    const ids = new Set(same.map(({ answer }) => (Object(answer) as { id?: string }).id))
    return ids.size > 1 ? [`the key ${key} of one creation made ${[...ids].join(' and ')}`] : []
  })
}

/** No creation is acknowledged while the plan's limit is certainly reached. */
function exceededLimits(calls: readonly Call[], { limits }: StateAtEnd): string[] {
  return [...limits].flatMap(([path, most]) => {
    const creations = calls.filter((call) => call.path === path && acknowledged(call) && madeBy(call) !== null)
    return creations.flatMap(({ end }) => {
      const there = creations.filter((other) => {
        const deletions = calls.filter((call) => call.method === 'DELETE' && call.path === madeBy(other))
        return other.end <= end && !deletions.some((call) => call.start <= end && !isRefused(call))
      })
      return there.length > most ? [`POST ${path} made one more than the ${most} that the plan allows`] : []
    })
  })
}

/** The audit log names each acknowledged change, and no refused change. */
function problemsOfAudit(calls: readonly Call[], { audited }: StateAtEnd): string[] {
  return calls.flatMap((call) => {
    const { id, method, path, key, status } = call
    if (id === undefined || method === 'GET' || unknown(call)) return []
    const isThere = audited.has(id)
    // Only one request per key makes a change.
    const isOne = key !== undefined && calls.some((other) => other.key === key && audited.has(other.id ?? ''))
    if (acknowledged(call) && !isThere && !isOne) return [`${method} ${path} was made and is not in the audit log`]
    return !acknowledged(call) && isThere ? [`${method} ${path} got ${status} and is in the audit log`] : []
  })
}

/** Each event is created as often as it happened, and created events were received. */
function problemsOfEvents(calls: readonly Call[], { made, events, resources }: StateAtEnd): string[] {
  const problems: string[] = []
  const count = (name: string, id: string) => made.get(`${name} ${id}`) ?? 0
  for (const call of calls) {
    const path = madeBy(call)
    const id = path?.split('/').at(-1) ?? ''
    if (path?.includes('/files/') && count('file.uploaded', id) !== 1)
      problems.push(`${id} was uploaded, and ${count('file.uploaded', id)} events say so`)
    const { status } = Object(path === null ? null : resources.get(path)?.body) as { status?: string }
    if (id.startsWith('db_') && status === 'available' && count('database.available', id) === 0)
      problems.push(`${id} is available, and no event says so`)
  }
  for (const [event, times] of made) {
    const [name = '', id = ''] = event.split(' ')
    if (!name.startsWith('deployment.')) continue
    const verbs = calls.filter(
      (call) =>
        call.method === 'POST' && call.path.includes(`/deployments/${id}/`) && (acknowledged(call) || unknown(call)),
    )
    const again = verbs.filter(({ path }) => /(rollback|restart)$/.test(path)).length
    const cancels = verbs.filter(({ path }) => path.endsWith('/cancel')).length
    const most = name === 'deployment.canceled' ? cancels : 1 + again
    if (times > most) problems.push(`${times} events say ${event}, and it can have happened ${most} times`)
    if (!events.has(event)) problems.push(`${event} was made and not received`)
  }
  return problems
}

/** The content of existing files can be read, and the content of deleted files cannot. */
function problemsOfDownloads(calls: readonly Call[], { downloads, resources }: StateAtEnd): string[] {
  return [...downloads].flatMap(([path, isRight]) => {
    const isThere = (resources.get(path)?.status ?? 404) < 300
    if (isThere) return isRight ? [] : [`the content of ${path} is ${isRight === null ? 'not there' : 'another one'}`]
    const isDeleted = calls.some((call) => call.method === 'DELETE' && call.path === path && acknowledged(call))
    return isDeleted && isRight !== null ? [`${path} was deleted, and its content can be read`] : []
  })
}

/** A command that its client saw end with code 0 has succeeded. */
function problemsOfRuns(calls: readonly Call[], { resources }: StateAtEnd): string[] {
  return calls.flatMap(({ method, path, answer }) => {
    if (method !== 'RUN') return []
    const final = resources.get(path)
    const { status } = Object(final?.body) as { status?: string }
    const { code, problem } = Object(answer) as { code?: number; problem?: string }
    const isRight = final === undefined || final.status >= 300 || code !== 0 || problem || status === 'succeeded'
    return isRight ? [] : [`${path} ended with 0 and is ${status}`]
  })
}

/** Two minutes, and the possible delay of a run. */
const minutesMs = 150_000

function problemsOfMinutes(windows: readonly FaultWindow[], { minutes }: StateAtEnd): string[] {
  // The next leader corrects a time that a fast clock produced.
  const isTimed = !windows.some(isOfClock)
  return minutes.flatMap(({ path, times, lateMs }) => [
    ...(isTimed && lateMs > minutesMs ? [`${path} has begun nothing for more than two minutes`] : []),
    ...times
      .map((time) => time.slice(0, '2026-01-01T12:00'.length))
      .filter((time, at, all) => all.indexOf(time) !== at)
      .map((time) => `${path} has begun two runs for ${time}`),
  ])
}

/**
 * The deletions that remove a resource. The platform itself removes old snapshots, runs, and deployments of deleted
 * apps.
 */
function deletionsOf(path: string, calls: readonly Call[]): Call[] {
  const appOf = new Map<string, string>()
  for (const { answer } of calls) {
    const { id, app_id } = Object(answer) as { id?: string; app_id?: string }
    if (id?.startsWith('dep_') && app_id !== undefined) appOf.set(id, app_id)
  }
  const apps = path.replace(/deployments\/.*/, 'apps/')
  const app = appOf.get(path.split('/').at(-1) ?? '')
  return calls.filter(
    (call) =>
      call.method === 'DELETE' &&
      (acknowledged(call) || unknown(call)) &&
      (path === call.path ||
        path.startsWith(`${call.path}/`) ||
        // A link disappears with its app and its database.
        (path.includes('/links/') && /\/(apps|databases)\/[^/]+$/.test(call.path)) ||
        // Without a response that names its app, a deployment may belong to any app.
        (path.includes('/deployments/') && call.path.startsWith(`${apps}${app ?? ''}`))),
  )
}

/** A write of one field. */
interface Write {
  readonly value: unknown
  readonly start: number
  readonly end: number
  readonly isKnown: boolean
}

/** Every field has the value of a write that no later write has replaced. */
function lostChanges(calls: readonly Call[], { resources }: StateAtEnd): string[] {
  const writes = new Map<string, Write[]>()
  for (const call of calls) {
    if (!acknowledged(call) && !unknown(call)) continue
    const path = call.method === 'PATCH' ? call.path : madeBy(call)
    if (path === null) continue
    for (const [field, value] of Object.entries(fieldsOf(call))) {
      const key = `${path} ${field}`
      const { start, end } = call
      writes.set(key, [...(writes.get(key) ?? []), { value, start, end, isKnown: acknowledged(call) }])
    }
  }
  return [...writes].flatMap(([key, all]) => {
    const [path = '', field = ''] = key.split(' ')
    const final = resources.get(path)
    const members = Object(final?.body) as Record<string, unknown>
    // Fields that no response shows, such as sources.
    if (final === undefined || final.status >= 300 || !(field in members)) return []
    const possible = possibleValues(all).map((value) => JSON.stringify(value))
    const found = JSON.stringify(members[field])
    return possible.includes(found) ? [] : [`${path} has the ${field} ${found}, not ${possible.join(' or ')}`]
  })
}

/** The fields that a request writes, as the resource at its path shows them. */
function fieldsOf({ path, body }: Call): Readonly<Record<string, unknown>> {
  const { processes, set, ...rest } = body ?? {}
  if (path.endsWith('/variables')) return Object(set)
  if (!path.endsWith('/processes')) return rest
  return Object.fromEntries(
    Object.entries(Object(processes) as Record<string, { instances: number }>).map(([type, { instances }]) => [
      type,
      instances,
    ]),
  )
}

/** An unanswered change may happen until this long after it, in milliseconds. */
const lateMs = 30_000

/**
 * The possible values of a field after these writes: an acknowledged write replaces all writes that ended before it
 * began.
 */
export function possibleValues(writes: readonly Write[]): unknown[] {
  return writes
    .filter((one) =>
      writes.every((other) => !other.isKnown || other.start <= one.end + (one.isKnown ? 0 : lateMs) || other === one),
    )
    .map(({ value }) => value)
}

function problemsOfApp(app: AppAtEnd, state: StateAtEnd): string[] {
  const problems: string[] = []
  const running = app.deployments.filter(({ status }) => status === 'running')
  for (const { id, status } of app.deployments) {
    if (status === 'building') problems.push(`${id} of ${app.name} is still building`)
    const found = state.processes.get(id) ?? 0
    if (status !== 'running' && found > 0) problems.push(`${id} of ${app.name} is ${status} and has ${found} processes`)
    const event = { running: 'succeeded', failed: 'failed', canceled: 'canceled' }[status]
    if (event !== undefined && !state.events.has(`deployment.${event} ${id}`))
      problems.push(`${id} of ${app.name} is ${status}, and no event says so`)
  }
  if (running.length > 1) problems.push(`${app.name} has ${running.length} running releases`)
  const [serving] = running
  if (serving === undefined) {
    const strange = app.answers.find((answer) => answer?.deployment)
    if (strange) problems.push(`${strange.deployment} answers for ${app.name}, which has none running`)
    return problems
  }
  if (app.serving !== serving.id)
    problems.push(`${serving.id} of ${app.name} is running, and the API says that ${app.serving} serves`)
  const wrong = app.answers.find((answer) => answer?.status !== 200 || answer.deployment !== serving.id)
  if (wrong !== undefined) {
    const seen = wrong === null ? 'nothing' : `${wrong.deployment} with ${wrong.status}`
    problems.push(`${serving.id} of ${app.name} is running, and ${seen} answers at its address`)
  }
  for (const [type, { wanted, running }] of app.instances)
    if (wanted !== running)
      problems.push(
        `${serving.id} of ${app.name} should have ${wanted} instances of ${type}, and ${running} run by the API`,
      )
  const wanted = [...app.instances.values()].reduce((sum, each) => sum + each.wanted, 0)
  const found = state.processes.get(serving.id) ?? 0
  if (found !== wanted)
    problems.push(`${serving.id} of ${app.name} should have ${wanted} instances, and ${found} have processes`)
  for (const [name, reason] of app.refused) {
    const found = state.databases.find(({ opened }) => opened.some((each) => new URL(each).pathname === `/${name}`))
    if (found?.status === 'available')
      problems.push(
        `${serving.id} of ${app.name} has a connection string of ${found.path} that does not work: ${reason}`,
      )
  }
  return problems
}

/** A key is accepted until it is revoked. */
function problemsOfKeys(calls: readonly Call[], { keys }: StateAtEnd): string[] {
  return [...keys].flatMap(([id, isAccepted]) => {
    const revocations = calls.filter(({ path }) => path === `/api-keys/${id}`)
    if (isAccepted && revocations.some(acknowledged)) return [`the key ${id} was revoked and is accepted`]
    return isAccepted || revocations.length > 0 ? [] : [`the key ${id} was made and is refused`]
  })
}

/** Processes and folders of deployments that do not exist. */
function strangers({ apps, processes, releases }: StateAtEnd): string[] {
  const known = new Set(apps.flatMap(({ deployments }) => deployments.map(({ id }) => id)))
  return [
    ...[...processes.keys()].filter((id) => !known.has(id)).map((id) => `${id} has processes and no deployment`),
    ...releases.filter((id) => !known.has(id)).map((id) => `${id} has files and no deployment`),
  ]
}

/** A request by which the owner starts to desire a deployment. */
interface Want {
  readonly deployment: DeploymentAtEnd
  readonly start: number
  readonly end: number
  /** A rollback or a restart, which aborts waiting deployments. */
  readonly isAgain: boolean
}

/** The newest desired deployment serves, and none was aborted for an undesired one. */
function problemsOfWants(
  app: AppAtEnd,
  calls: readonly Call[],
  windows: readonly FaultWindow[],
  { events }: StateAtEnd,
): string[] {
  const project = app.path.split('/')[2]
  const found = new Map(app.deployments.map((deployment) => [deployment.id, deployment]))
  const verbOf = ({ path }: Call) => /\/deployments\/([^/]+)\/(cancel|stop|rollback|restart)$/.exec(path)
  const ofApp = calls.filter((call) => {
    if (call.method !== 'POST') return false
    if (call.path === `/projects/${project}/deployments`) return call.body?.['name'] === app.name
    return found.has(verbOf(call)?.[1] ?? '')
  })
  const wants = ofApp.flatMap((call): Want[] => {
    const [, id, what] = verbOf(call) ?? [null, (Object(call.answer) as { id?: string }).id, 'create']
    const deployment = found.get(id ?? '')
    if (!acknowledged(call) || deployment === undefined || what === 'cancel' || what === 'stop') return []
    return [{ deployment, start: call.start, end: call.end, isAgain: what !== 'create' }]
  })
  // A moved clock makes the times of rows differ from the times of calls.
  const isTimed = !windows.some(isOfClock)
  const changes: Changes = {
    wants: wants.toSorted((one, other) => one.start - other.start),
    unanswered: ofApp.filter((call) => unknown(call) && verbOf(call)?.[2] !== 'cancel'),
    stops: ofApp.filter((call) => acknowledged(call) && verbOf(call)?.[2] === 'stop'),
    interruptionsOf: ({ start, deployment: { finishedAt } }) =>
      windows.filter(
        (window) =>
          /^(kill|suspend) (a|all) server|^cut/.test(window.kind) &&
          window.end >= start &&
          (!isTimed || finishedAt === null || window.start <= finishedAt),
      ).length,
    isCanceled: (id) =>
      ofApp.some((call) => verbOf(call)?.[1] === id && verbOf(call)?.[2] === 'cancel' && (call.status ?? 500) !== 400),
    wasHit: (id) => windows.some(({ deployment }) => deployment === id),
    hasRun: ({ id, status }) => status === 'running' || events.has(`deployment.succeeded ${id}`),
  }
  return [...unwantedRelease(app.name, changes), ...(isTimed ? givenUp(app.name, changes) : [])]
}

/** A request about an app. */
interface Changes {
  /** The number of faults that can end an attempt during a deployment's build. */
  readonly interruptionsOf: (want: Want) => number
  /** In the order of their time. */
  readonly wants: readonly Want[]
  readonly unanswered: readonly Call[]
  readonly stops: readonly Call[]
  readonly isCanceled: (id: string) => boolean
  readonly wasHit: (id: string) => boolean
  readonly hasRun: (deployment: DeploymentAtEnd) => boolean
}

/** The newest desired deployment serves; when it was canceled or cannot be built, the previous one. */
function unwantedRelease(
  app: string,
  { interruptionsOf, wants, unanswered, stops, isCanceled, wasHit }: Changes,
): string[] {
  // Such a request leaves the desired state open, until a later request determines it.
  const open = Math.max(...[...unanswered, ...stops].map(({ end }) => end + lateMs), Number.NEGATIVE_INFINITY)
  for (const want of wants.toReversed()) {
    const { id, status, failure } = want.deployment
    if (want.start <= open || status === 'running' || status === 'building' || wasHit(id)) return []
    if (wants.some((other) => other !== want && other.end >= want.start && other.start <= want.end)) return []
    // A build that two faults have hit is aborted.
    const isInterrupted = /^(interrupted|server_error)$/.test(failure ?? '') && interruptionsOf(want) >= 2
    const isWithdrawn =
      (status === 'canceled' && isCanceled(id)) ||
      (status === 'failed' && (failure === 'not_recognised' || isInterrupted))
    if (!isWithdrawn)
      return [`${id} of ${app} was wanted last and is ${status}${failure === null ? '' : ` (${failure})`}`]
    if (want.isAgain) return []
  }
  return []
}

/** A release that was undesired for this long replaces no other. */
const patienceMs = 2_000

/** A deployment that never served is superseded only while a newer one is desired. */
function givenUp(app: string, { wants, unanswered, hasRun }: Changes): string[] {
  return wants.flatMap((want) => {
    const { id, status, finishedAt } = want.deployment
    if (want.isAgain || status !== 'superseded' || finishedAt === null || hasRun(want.deployment)) return []
    const newer = wants.filter((other) => other.end >= want.start && other.deployment.id !== id)
    const again = wants.filter(({ isAgain }) => isAgain)
    // A rollback aborts waiting deployments, and a request without a response may be a rollback.
    const isOpen = (until: number) =>
      [...unanswered, ...again].some(({ start, end }) => end + lateMs > want.start && start <= until)
    if (!newer.some(({ start }) => start <= finishedAt))
      return isOpen(finishedAt) ? [] : [`${id} of ${app} is superseded, and nothing newer was wanted`]
    // From this moment on, all newer deployments are canceled or have failed.
    const moment = newer
      .map((each) => endOf(each, hasRun))
      .filter((end) => end > finishedAt)
      .find((end) => newer.every((each) => each.start > end + patienceMs || endOf(each, hasRun) <= end))
    if (moment === undefined || moment === Number.POSITIVE_INFINITY || isOpen(moment + patienceMs)) return []
    return [`${id} of ${app} is superseded, and nothing newer was wanted any more`]
  })
}

/** The time when a deployment was canceled or failed without having served. */
function endOf({ deployment }: Want, hasRun: Changes['hasRun']): number {
  const { status, finishedAt } = deployment
  const isWithdrawn = (status === 'canceled' || status === 'failed') && !hasRun(deployment)
  return isWithdrawn && finishedAt !== null ? finishedAt : Number.POSITIVE_INFINITY
}

function problemsOfDatabase(
  { path, status, opened, problem, content }: StateAtEnd['databases'][number],
  calls: readonly Call[],
): string[] {
  if (status !== 'available') return []
  if (content !== null && content.found !== content.written && opened.length > 0)
    return [`${path} has ${content.found} of the ${content.written} rows that were written to it`]
  const rotations = calls.filter(
    (call) => call.path === `${path}/rotate-password` && (acknowledged(call) || unknown(call)),
  )
  const made = calls.filter((call) => madeBy(call) === path)
  const writes = [...made, ...rotations].map((call) => ({
    ...{ start: call.start, end: call.end, isKnown: acknowledged(call) },
    value: (Object(call.answer) as { connection_string?: string }).connection_string,
  }))
  const possible = possibleValues(writes)
  // The password of a rotation without a response is unknown.
  const isOpen = possible.some((value) => value === undefined || opened.includes(String(value)))
  return isOpen ? [] : [`${path} is available and accepts no connection: ${problem}`]
}
