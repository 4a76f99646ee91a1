import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { problemsOfAnswers, problemsOfState } from './model.ts'
import { type Operation, type Plan, planOf, type Step } from './plan.ts'
import { leftOut, startWorld, type World } from './world.ts'

/** Everything must be correct this long after the last fault. */
const restMs = 60_000
/** While a history is shortened, a problem of this duration counts as found. */
const shrinkingRestMs = 20_000
/** A queue of builds may be longer: each end of a build extends the time by this. */
const longestRestMs = 300_000
/** Longer operations continue beside the next steps. */
const stepMs = 2_000

export interface Outcome {
  readonly operations: number
  readonly faults: number
  readonly problems: readonly string[]
}

/**
 * Runs a plan on new servers, and returns the problems of its responses and of its final state.
 *
 * @param isEnough true when problems of the responses end the history at once
 * @param mostRestMs the time after the last fault until everything must be correct
 */
export async function runPlan(
  plan: Plan,
  record: (line: object) => void = () => undefined,
  isEnough: (problems: readonly string[]) => boolean = () => false,
  mostRestMs: number = restMs,
): Promise<Outcome> {
  await using world = await startWorld(plan.servers, record)
  const underWay: Promise<void>[] = []
  const answers = () => [...world.troubles, ...problemsOfAnswers(world.calls, world.windows)]
  let faultsUnderWay = 0
  for (const [at, { together, fault, pauseMs }] of plan.steps.entries()) {
    await world.isReadyFor(fault)
    record({ step: at, together, fault })
    if (fault?.slowMs !== undefined) world.slow(fault.slowMs)
    const moment = fault === undefined ? null : world.momentOf(fault)
    const failing = fault === undefined || moment === null ? null : moment.then(() => world.fail(at, fault))
    if (failing !== null) {
      faultsUnderWay += 1
      underWay.push(failing.finally(() => (faultsUnderWay -= 1)))
    }
    // The fault counts the writes of these operations.
    const operations = together.map((operation) => world.operate(at, operation))
    underWay.push(...operations)
    // A change of the app could leave only its hanging instance.
    if (fault?.kind === 'hang an instance') await failing
    const isWait = together.some((operation) => operation.do === 'settle')
    await Promise.race([Promise.all(operations), ...(isWait ? [] : [sleep(stepMs)])])
    // The next step meets the state after the fault.
    await moment
    await sleep(pauseMs)
    // Until a fault is over, it is unknown which responses it excuses.
    if (faultsUnderWay === 0 && isEnough(answers())) break
  }
  await Promise.all(underWay)
  const early = answers()
  const atRest = isEnough(early) ? [] : await problemsAtRest(world, mostRestMs)
  const problems = [...answers(), ...atRest]
  return { operations: world.calls.length, faults: world.windows.length, problems }
}

/** Checks until no problem remains, or until the time is over. */
async function problemsAtRest(world: World, mostRestMs: number): Promise<string[]> {
  const begunAt = performance.now()
  let deadline = begunAt + mostRestMs
  let building = Number.POSITIVE_INFINITY
  for (;;) {
    await world.hurry()
    const state = await world.look().catch((error: unknown) => String(error))
    const isUnread = typeof state === 'string'
    const problems = isUnread
      ? [`the state cannot be read: ${state}`]
      : problemsOfState(world.calls, world.windows, state)
    const releases = isUnread ? [] : state.apps.flatMap(({ deployments }) => deployments)
    const now = isUnread ? building : releases.filter(({ status }) => status === 'building').length
    if (now < building) deadline = Math.min(performance.now() + mostRestMs, begunAt + longestRestMs)
    building = now
    if (problems.length === 0 || performance.now() > deadline) return problems
    await sleep(500)
  }
}

/**
 * Removes faults, steps and then single operations from a plan as long as it still fails: large parts first, because
 * each attempt takes a minute or more.
 */
export async function shortest(
  plan: Plan,
  fails: (plan: Plan) => Promise<boolean>,
  isOver: () => boolean,
): Promise<Plan> {
  const failsWith = (steps: readonly Step[]) => (steps.length > 0 ? fails({ ...plan, steps }) : Promise.resolve(false))
  const { steps } = plan
  const disturbed = steps.filter(({ fault }) => fault !== undefined)
  const withFaults = (kept: readonly Step[]): Step[] =>
    steps.map((step) => (kept.includes(step) ? step : { together: step.together, pauseMs: step.pauseMs }))
  const faults = await fewest(disturbed, (kept) => failsWith(withFaults(kept)), isOver)
  const left = await fewest(withFaults(faults), failsWith, isOver)
  const operations = left.flatMap(({ together }) => together)
  const withOperations = (kept: readonly Operation[]) =>
    left
      .map((step) => ({ ...step, together: step.together.filter((each) => kept.includes(each)) }))
      .filter(({ together, fault }) => together.length > 0 || fault !== undefined)
  const needed = await fewest(operations, (kept) => failsWith(withOperations(kept)), isOver)
  return { ...plan, steps: withOperations(needed) }
}

/**
 * Removes items, first all, then halves, then ever smaller parts, the last ones first, as long as the rest still fails.
 */
async function fewest<Item>(
  items: readonly Item[],
  fails: (items: readonly Item[]) => Promise<boolean>,
  isOver: () => boolean,
): Promise<readonly Item[]> {
  let left = items
  for (let size = items.length; size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = left.length - size; at > -size; at -= size) {
      if (isOver()) return left
      const fewer = [...left.slice(0, Math.max(at, 0)), ...left.slice(Math.max(at + size, 0))]
      if (fewer.length < left.length && (await fails(fewer))) left = fewer
    }
  }
  return left
}

/** Returns a problem without the parts that differ between histories: ids, numbers and values. */
export const kindOf = (problem: string): string =>
  problem
    .replace(/\b[a-z]+_\w+/g, 'ID')
    .replace(/"[^"]*"/g, 'VALUE')
    .replace(/\d+/g, 'N')

/** Like `runPlan`; a history that cannot be executed is also a finding. */
const outcomeOf: typeof runPlan = (...args) =>
  runPlan(...args).catch((error: Error) => ({
    operations: 0,
    faults: 0,
    problems: [`the history has no end: ${error.stack ?? String(error)}`],
  }))

/** A line of the file of results. */
interface Result extends Outcome {
  readonly seed: number
}

/**
 * Runs one history after another until the file, which may continue an earlier run, has this many operations and
 * faults. Stops at the first failing history, and returns its findings.
 */
export async function campaign(options: {
  readonly file: string
  readonly firstSeed: number
  readonly operations: number
  readonly faults: number
  readonly shrinkMs: number
  readonly say: (line: string) => void
}): Promise<string | null> {
  const { file, say } = options
  mkdirSync(dirname(file), { recursive: true })
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').filter(Boolean) : []
  const results = lines.map((line) => JSON.parse(line) as Result)
  let [operations, faults] = [0, 0]
  for (const result of results) {
    operations += result.operations
    faults += result.faults
  }
  for (const [kind, name] of leftOut()) say(`left out: ${kind}, because the Debian package ${name} is not installed`)
  for (
    let seed = options.firstSeed + results.length;
    operations < options.operations || faults < options.faults;
    seed += 1
  ) {
    const plan = planOf(seed, eachHistory)
    const outcome = await outcomeOf(plan, (line) =>
      appendFileSync(`${file}.${seed}.jsonl`, `${JSON.stringify(line)}\n`),
    )
    appendFileSync(file, `${JSON.stringify({ seed, ...outcome } satisfies Result)}\n`)
    operations += outcome.operations
    faults += outcome.faults
    say(`seed ${seed}: ${outcome.operations} operations, ${outcome.faults} faults; ${operations} and ${faults} in all`)
    if (outcome.problems.length === 0) continue
    for (const problem of outcome.problems) say(problem)
    const until = performance.now() + options.shrinkMs
    const kinds = new Set(outcome.problems.map(kindOf))
    const isSame = (found: readonly string[]) => found.some((problem) => kinds.has(kindOf(problem)))
    const shrunk = await shortest(
      plan,
      async (fewer) => isSame((await outcomeOf(fewer, undefined, isSame, shrinkingRestMs)).problems),
      () => performance.now() > until,
    )
    const text = [`seed ${seed}`, ...outcome.problems, ...shrunk.steps.map((step) => JSON.stringify(step))].join('\n')
    return text
  }
  return null
}

/** The size of one history: long enough for interactions, short enough for a retry. */
const eachHistory = { operations: 200, faults: 8 }
