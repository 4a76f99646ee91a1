import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'

export interface VitestOptions {
  /** Longer runs are given up: something hangs. */
  readonly minutes: number
  /** More variables of the environment. */
  readonly environment?: Readonly<Record<string, string>>
  /** Returns the output instead of showing it. */
  readonly quiet?: boolean
}

export interface VitestResult {
  /** Zero when all tests passed. */
  readonly code: number
  readonly minutes: number
  /** Empty unless the run was quiet. */
  readonly output: string
}

/**
 * Runs vitest once, with the arguments of its command line. Whatever the tests leave, processes and folders, ends with it, also when this process is killed:
 * `end-leftovers.ts` finds it by the number of the run.
 */
export function runVitest(
  args: readonly string[],
  { minutes, environment = {}, quiet = false }: VitestOptions,
): Promise<VitestResult> {
  const started = performance.now()
  const run = randomBytes(3).toString('hex')
  // A group of processes, which ends together.
  const child = spawn('vitest', [...args], {
    stdio: quiet ? ['ignore', 'pipe', 'pipe'] : 'inherit',
    detached: true,
    env: { ...process.env, ...environment, TEST_RUN: run },
  })
  // It outlives this process.
  const leftovers = ['scripts/end-leftovers.ts', run, String(child.pid)]
  const watch = spawn('node', leftovers, { stdio: ['pipe', 'ignore', 'inherit'], detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  const end = (signal: NodeJS.Signals) => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, signal)
  }
  const deadline = setTimeout(() => {
    process.stderr.write(`The tests were ended after ${minutes} minutes, their deadline.\n`)
    end('SIGKILL')
  }, minutes * 60_000)
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, end)
  return new Promise((done) => {
    child.on('close', (code) => {
      clearTimeout(deadline)
      for (const signal of signals) process.off(signal, end)
      watch.stdin.end()
      watch.on('exit', () => done({ code: code ?? 1, minutes: (performance.now() - started) / 60_000, output }))
    })
  })
}
