import { spawn } from 'node:child_process'

export interface VitestOptions {
  /** Longer runs are aborted, because something hangs. */
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

/** Runs vitest once, with the arguments of its command line, in a group of processes that ends together. */
export function runVitest(
  args: readonly string[],
  { minutes, environment = {}, quiet = false }: VitestOptions,
): Promise<VitestResult> {
  const started = performance.now()
  const child = spawn('vitest', [...args], {
    stdio: quiet ? ['ignore', 'pipe', 'pipe'] : 'inherit',
    detached: true,
    env: { ...process.env, ...environment },
  })
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
  const endNow = () => end('SIGKILL')
  process.on('exit', endNow)
  return new Promise((done) => {
    child.on('close', (code) => {
      clearTimeout(deadline)
      for (const signal of signals) process.off(signal, end)
      process.off('exit', endNow)
      done({ code: code ?? 1, minutes: (performance.now() - started) / 60_000, output })
    })
  })
}
