import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { problemsOfAnswers, problemsOfState } from './model.ts'
import { type Plan, planOf, type Step } from './plan.ts'
import { startWorld } from './world.ts'

/** Everything has to be in order this long after the last fault. */
const restMs = 60_000
/** A queue of builds may be longer: each end of one gives this time again. */
const longestRestMs = 300_000
/** Operations that take longer go on beside the next steps. */
const stepMs = 2_000

export interface Outcome {
  readonly operations: number
  readonly faults: number
  readonly problems: readonly string[]
}

/**
 * Runs a plan on servers of its own, and returns what is wrong with its answers and its end.
 *
 * @param isEnough true when problems of the answers end the history at once
 */
export async function runPlan(
  plan: Plan,
  record: (line: object) => void = () => undefined,
  isEnough: (problems: readonly string[]) => boolean = () => false,
): Promise<Outcome> {
  await using world = await startWorld(plan.servers, record)
  const underWay: Promise<void>[] = []
  for (const [at, { together, fault, pauseMs }] of plan.steps.entries()) {
    await world.isReadyFor(fault)
    record({ step: at, together, fault })
    if (fault?.slowMs !== undefined) world.slow(fault.slowMs)
    const operations = together.map((operation) => world.operate(at, operation))
    underWay.push(...operations)
    const failing = fault === undefined ? null : sleep(fault.afterMs).then(() => world.fail(at, fault))
    if (failing !== null) underWay.push(failing)
    // A change of the app could leave it the hanging instance alone.
    if (fault?.kind === 'hang an instance') await failing
    const isWait = together.some((operation) => operation.do === 'settle')
    await Promise.race([Promise.all(operations), ...(isWait ? [] : [sleep(stepMs)])])
    await sleep(pauseMs)
  }
  await Promise.all(underWay)
  const early = [...world.troubles, ...problemsOfAnswers(world.calls, world.windows)]
  const problems = isEnough(early) ? early : [...early, ...(await problemsAtRest(world))]
  return { operations: world.calls.length, faults: world.windows.length, problems }
}

/** Looks until nothing is wrong any more, or until the time is over. */
async function problemsAtRest(world: Awaited<ReturnType<typeof startWorld>>): Promise<string[]> {
  const begunAt = performance.now()
  let deadline = begunAt + restMs
  let building = Number.POSITIVE_INFINITY
  for (;;) {
    await world.hurry()
    const state = await world.look()
    const problems = problemsOfState(world.calls, world.windows, state)
    const now = state.apps
      .flatMap(({ deployments }) => deployments)
      .filter(({ status }) => status === 'building').length
    if (now < building) deadline = Math.min(performance.now() + restMs, begunAt + longestRestMs)
    building = now
    if (problems.length === 0 || performance.now() > deadline) return problems
    await sleep(500)
  }
}

/** Takes steps out of a plan for as long as it still fails, the half of them first. */
export async function shortest(
  plan: Plan,
  fails: (plan: Plan) => Promise<boolean>,
  isOver: () => boolean,
): Promise<Plan> {
  let { steps } = plan
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = steps.length - size; at > -size; at -= size) {
      if (isOver()) return { ...plan, steps }
      const fewer: Step[] = [...steps.slice(0, Math.max(at, 0)), ...steps.slice(at + size)]
      if (fewer.length > 0 && fewer.length < steps.length && (await fails({ ...plan, steps: fewer }))) steps = fewer
    }
  }
  return { ...plan, steps }
}

/** Returns a problem without what differs between histories: ids, numbers and values. */
export const kindOf = (problem: string): string =>
  problem
    .replace(/\b[a-z]+_\w+/g, 'ID')
    .replace(/"[^"]*"/g, 'VALUE')
    .replace(/\d+/g, 'N')

/** A line of the file of results. */
interface Result extends Outcome {
  readonly seed: number
}

/**
 * Runs one history after the other until this many operations and faults are in the file, which may have some of an earlier run. Stops
 * at the first history that fails, and returns what was found.
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
  for (
    let seed = options.firstSeed + results.length;
    operations < options.operations || faults < options.faults;
    seed += 1
  ) {
    const plan = planOf(seed, eachHistory)
    const outcome = await runPlan(plan, (line) => appendFileSync(`${file}.${seed}.jsonl`, `${JSON.stringify(line)}\n`))
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
      async (fewer) => isSame((await runPlan(fewer, undefined, isSame)).problems),
      () => performance.now() > until,
    )
    const text = [`seed ${seed}`, ...outcome.problems, ...shrunk.steps.map((step) => JSON.stringify(step))].join('\n')
    return text
  }
  return null
}

/** The size of one history: long enough for work to meet, short enough to be tried again. */
const eachHistory = { operations: 200, faults: 4 }
