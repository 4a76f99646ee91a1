import { once } from 'node:events'
import { startProcess } from '../../platform/processes/spawn.ts'

export interface ProgramRun {
  readonly args: readonly string[]
  /** Written to its standard input, which is closed then. */
  readonly input?: string
  /** The `PATH` of the program, which gets no other variable but `LC_ALL`. */
  readonly path: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export interface ProgramResult {
  /** Null when it was ended, or could not be started. */
  readonly status: number | null
  /** The end of what it has printed. */
  readonly output: string
}

const mostOutput = 2_000

/** Runs a program to its end. One that takes too long is ended. Rejects when the signal aborts. */
export async function runProgram(program: string, run: ProgramRun): Promise<ProgramResult> {
  run.signal.throwIfAborted()
  const child = startProcess(program, run.args, {
    cwd: '/',
    env: { PATH: run.path, LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'pipe'],
    signal: AbortSignal.any([run.signal, AbortSignal.timeout(run.timeoutMs)]),
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-mostOutput)
    })
  }
  // It may end before it has read everything.
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(run.input ?? '')
  try {
    const [status] = (await once(child, 'close')) as [number | null]
    run.signal.throwIfAborted()
    return { status, output }
  } catch (error) {
    run.signal.throwIfAborted()
    return { status: null, output: `${output}\n${(error as Error).message}` }
  }
}
