import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { missingPackages } from './system-packages.js'
import { budgetOf, busySeconds, describe, exceeded, readCounts, startCounting } from './test-counts.ts'
import { runVitest } from './vitest.ts'

/**
 * Runs a level of tests: `node scripts/test.ts quick`, `… system [PART…]` or `… long [PART…]`, or prints what files
 * cost: `… cost [PATH…]`. docs/testing.md describes the levels. All arguments that are not a part go to vitest: `npm
 * test -- test/unit/builds`.
 */

const [level = 'quick', ...rest] = process.argv.slice(2)

/** Longer runs are aborted, because something hangs. */
const deadlineMinutes: Readonly<Record<string, number>> = { quick: 30, system: 180, cost: 300, long: 24 * 60 }

/** The programs of the level `long` besides the tests of its folder. */
const longPrograms: Readonly<Record<string, readonly string[]>> = {
  attacks: ['test/long/attacks/main.ts'],
  chaos: ['test/long/chaos/main.ts', '100'],
  containers: ['test/long/chaos/main.ts', '50', '30', '--docker'],
  continuity: ['test/long/continuity/main.ts'],
  corpora: ['test/corpus/main.ts'],
  dockerfiles: ['test/corpus/dockerfiles.ts'],
  https: ['test/long/https/main.ts'],
}

/** The slowest system tests whose subjects other tests touch. `.ci/run` leaves them out: it must end in time on a slow machine. */
const notBrief = [
  'attacks/containers',
  'attacks/dockerfiles',
  'bench/*',
  'containers/deployments/engine',
  'containers/kills',
  'corpus/*',
  'deployments/hostile/processes',
  'deployments/kinds',
  'isolation/toolchains',
  'lifecycle/handover-several',
].flatMap((name) => ['--exclude', `test/system/${name}.test.ts`])

if (level === 'quick') await quick()
else if (level === 'system') await system()
else if (level === 'cost') await cost()
else if (level === 'long') long()
else fail(`There is no level ${level}: quick, system, cost, long.`)

async function quick(): Promise<void> {
  const projects = ['unit', 'api', 'processes'].flatMap((name) => ['--project', name])
  // These tests wait more than other tests, mostly for their shared server.
  if (await vitest([...projects, '--maxWorkers=4', ...rest], rest.length === 0 ? 'npm test' : null))
    process.stdout.write(
      'Not tried: isolation, containers, browsers, TLS, systemd, crashes and attacks. npm run test:system tries them.\n',
    )
}

/** Prints what files cost, one after the other. */
async function cost(): Promise<void> {
  const projects = ['unit', 'api', 'processes', 'system'].flatMap((name) => ['--project', name])
  await vitest([...projects, '--maxWorkers=1', '--reporter=./scripts/cost-reporter.ts', ...rest], null)
}

async function system(): Promise<void> {
  const parts = readdirSync('test/system')
  const missing = missingPackages()
  if (missing.length > 0) {
    for (const each of missing)
      process.stderr.write(`MISSING ${each.package}, for ${each.for}: its tests are skipped\n`)
    const line = `apt-get install --no-install-recommends ${missing.map((each) => each.package).join(' ')}`
    process.stderr.write(`Install them: ${line}\n`)
    if (process.env['CI'] === 'true') fail('With CI=true no test may be skipped for a missing program.')
  }
  const filters = rest.flatMap((word) => {
    if (word === '--brief') return notBrief
    return parts.includes(word) ? `test/system/${word}/` : word
  })
  if (rest.some((word) => /^[a-z]+$/.test(word) && !parts.includes(word))) fail(`The parts are: ${parts.join(', ')}.`)
  await vitest(['--project', 'system', ...filters], rest.length === 0 ? 'npm run test:system' : null)
}

function long(): void {
  const names = [...Object.keys(longPrograms), 'tests', 'fuzz', 'histories', 'engine']
  const unknown = rest.find((name) => !names.includes(name))
  if (unknown !== undefined) fail(`There is no part ${unknown}. The parts are: ${names.join(', ')}.`)
  const failed = (rest.length === 0 ? names : rest).filter((name) => !runPart(name))
  if (failed.length > 0) fail(`Failed: ${failed.join(', ')}.`)
}

function runPart(name: string): boolean {
  process.stdout.write(`== ${name}\n`)
  const program = longPrograms[name]
  if (program !== undefined) return succeeds('node', program)
  if (name === 'fuzz')
    return succeeds('vitest', ['run', '--project', 'api', 'test/api/fuzz'], { FUZZ_REQUESTS: '20000' })
  const histories = 'test/long/histories.test.ts'
  if (name === 'histories') return succeeds('vitest', ['run', '--project', 'long', histories])
  if (name === 'tests')
    return succeeds('vitest', ['run', '--project', 'long', '--exclude', 'test/long/attacks/**', '--exclude', histories])
  const engine = 'test/system/containers/other-engine.sh'
  return succeeds(engine, ['trixie', 'vitest', 'run', '--project', 'system', 'test/system/containers'])
}

function succeeds(program: string, args: readonly string[], more: Readonly<Record<string, string>> = {}): boolean {
  return spawnSync(program, args, { stdio: 'inherit', env: { ...process.env, ...more } }).status === 0
}

/**
 * Runs vitest, and compares the counts of a whole run of `command` with the docs.
 *
 * @param command `null` for a run of some tests
 */
async function vitest(args: readonly string[], command: string | null): Promise<boolean> {
  const counts = join(mkdtempSync(join(tmpdir(), 'fairlead-counts-')), 'counts')
  startCounting(counts)
  const busyBefore = busySeconds()
  const { code, minutes } = await runVitest(['run', ...args], {
    minutes: deadlineMinutes[level] ?? 60,
    environment: { TEST_COUNTS: counts },
  })
  const made = readCounts(counts)
  rmSync(dirname(counts), { recursive: true })
  const busy = (busySeconds() - busyBefore).toFixed(0)
  process.stdout.write(`${minutes.toFixed(1)} minutes, ${busy} CPU seconds of the machine, ${describe(made)}\n`)
  process.exitCode = code
  if (command === null || code !== 0) return code === 0
  const tooMany = exceeded(made, budgetOf(command, readFileSync('docs/testing.md', 'utf8')))
  for (const sentence of tooMany) process.stderr.write(`${sentence}\n`)
  if (tooMany.length > 0) process.exitCode = 1
  return tooMany.length === 0
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
