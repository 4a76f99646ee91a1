import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { missingPackages } from './system-packages.js'

/**
 * Runs a level of tests: `node scripts/test.ts quick`, `… system [PART…]` or `… long [PART…]`. docs/testing.md describes the
 * levels. All further arguments that are no part go to vitest: `npm test -- test/unit/builds`.
 */

const [level = 'quick', ...rest] = process.argv.slice(2)

/** Longer runs are given up: something hangs. */
const deadlineMinutes: Readonly<Record<string, number>> = { quick: 30, system: 180, long: 24 * 60 }

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

if (level === 'quick') quick()
else if (level === 'system') system()
else if (level === 'long') long()
else fail(`There is no level ${level}: quick, system, long.`)

function quick(): void {
  const projects = ['unit', 'api', 'processes'].flatMap((name) => ['--project', name])
  vitest([...projects, ...rest], () => {
    process.stdout.write(
      'Not tried: isolation, containers, browsers, TLS, systemd, crashes and attacks. npm run test:system tries them.\n',
    )
  })
}

function system(): void {
  const parts = readdirSync('test/system')
  const missing = missingPackages()
  if (missing.length > 0) {
    for (const each of missing)
      process.stderr.write(`MISSING ${each.package}, for ${each.for}: its tests are skipped\n`)
    const line = `apt-get install --no-install-recommends ${missing.map((each) => each.package).join(' ')}`
    process.stderr.write(`Install them: ${line}\n`)
    if (process.env['CI'] === 'true') fail('With CI=true no test may be skipped for a missing program.')
  }
  const filters = rest.map((word) => (parts.includes(word) ? `test/system/${word}/` : word))
  if (rest.some((word) => /^[a-z]+$/.test(word) && !parts.includes(word))) fail(`The parts are: ${parts.join(', ')}.`)
  vitest(['--project', 'system', ...filters], () => undefined)
}

function long(): void {
  const names = [...Object.keys(longPrograms), 'tests', 'fuzz', 'engine']
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
  if (name === 'tests') return succeeds('vitest', ['run', '--project', 'long', '--exclude', 'test/long/attacks/**'])
  const engine = 'test/system/containers/other-engine.sh'
  return succeeds(engine, ['trixie', 'vitest', 'run', '--project', 'system', 'test/system/containers'])
}

function succeeds(program: string, args: readonly string[], more: Readonly<Record<string, string>> = {}): boolean {
  return spawnSync(program, args, { stdio: 'inherit', env: { ...process.env, ...more } }).status === 0
}

function vitest(args: readonly string[], passed: () => void): void {
  const started = performance.now()
  const minutes = deadlineMinutes[level] ?? 60
  // A group of processes, which ends together.
  const run = randomBytes(3).toString('hex')
  const env = { ...process.env, TEST_RUN: run }
  const child = spawn('vitest', ['run', ...args], { stdio: 'inherit', detached: true, env })
  // It outlives this process, and ends what the tests left when this process is killed.
  const leftovers = ['scripts/end-leftovers.ts', run, String(child.pid)]
  const watch = spawn('node', leftovers, { stdio: ['pipe', 'ignore', 'inherit'], detached: true })
  const end = (signal: NodeJS.Signals) => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, signal)
  }
  const deadline = setTimeout(() => {
    process.stderr.write(`The tests were ended after ${minutes} minutes, their deadline.\n`)
    end('SIGKILL')
  }, minutes * 60_000)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end(signal))
  child.on('exit', (code) => {
    clearTimeout(deadline)
    watch.stdin.end()
    process.stdout.write(`${((performance.now() - started) / 60_000).toFixed(1)} minutes\n`)
    if (code === 0) passed()
    process.exitCode = code ?? 1
  })
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
