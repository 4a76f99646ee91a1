import { startProcess } from '../processes.ts'
import type { OsUser } from '../users.ts'

/**
 * Runs a program to its end, as `user` and with no environment but the C locale, and returns its exit code and output.
 * Rejects when it cannot be started, when the signal aborts, or at the deadline.
 */
export async function runProgram(options: {
  readonly command: string
  readonly arguments: readonly string[]
  readonly user: OsUser | null
  readonly signal: AbortSignal
  readonly deadlineMs: number
}): Promise<{ readonly code: number | null; readonly output: string }> {
  options.signal.throwIfAborted()
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(options.deadlineMs)])
  const child = startProcess(options.command, options.arguments, {
    ...(options.user ?? {}),
    cwd: '/',
    env: { LC_ALL: 'C' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  child.once('error', (error) =>
    reject(new Error(`${options.command} cannot be run: ${error.message}`, { cause: error })),
  )
  child.once('close', resolve)
  const stop = () => child.kill('SIGTERM')
  signal.addEventListener('abort', stop)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  }
  try {
    const code = await promise
    options.signal.throwIfAborted()
    if (signal.aborted) throw new Error(`${options.command} was not done after ${options.deadlineMs / 1000} s`)
    return { code, output }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
