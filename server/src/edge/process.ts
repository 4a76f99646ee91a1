import { constants } from 'node:fs'
import { open, readFile, rename, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { machineBytes } from '../platform/config/deploys.ts'
import { exists } from '../platform/files.ts'
import { killAll, openExit, type ProcessIdentity, startProcess, startTimeOf } from '../platform/processes.ts'
import { giveUpRights, type LesserUser } from '../platform/users.ts'
import type { EdgeHome } from './home.ts'
import { markOf } from './record.ts'

const readyMs = 20_000
const pollMs = 20
/** Longer than the time that Caddy gives its servers to finish. */
const graceMs = 12_000

/** Thrown when Caddy ended during its start. The message is the last line that it printed. */
export class CaddyStartError extends Error {
  override readonly name = 'CaddyStartError'
}

export interface StartOptions {
  readonly home: EdgeHome
  readonly file: string
  readonly runAs: LesserUser | null
  /** A file that does not exist yet. Caddy writes its pid there when it starts to serve. */
  readonly pidFile: string
  readonly signal: AbortSignal
}

/**
 * Starts a Caddy that outlives this process. Resolves when it serves.
 *
 * @throws CaddyStartError
 */
export async function startCaddy(options: StartOptions): Promise<ProcessIdentity> {
  const { home, runAs, pidFile, signal } = options
  const arguments_ = ['run', '--config', home.configuration, '--pidfile', pidFile]
  const [program = options.file, ...rest] = [
    ...(runAs === null ? [] : giveUpRights(runAs)),
    options.file,
    ...arguments_,
  ]
  const output = await openOutput(home)
  try {
    const child = startProcess(program, rest, {
      cwd: '/',
      // Caddy gets nothing of the server's environment. Without HOME, it would write to its working directory.
      env: {
        ...markOf(home),
        ...memorySettings(),
        HOME: home.caddy,
        XDG_CONFIG_HOME: home.caddy,
        XDG_DATA_HOME: home.caddy,
      },
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
    })
    child.unref()
    const { pid } = child
    const startTime = pid === undefined ? null : startTimeOf(pid)
    if (pid === undefined || startTime === null) throw new CaddyStartError(`${program} cannot be started`)
    const identity = { pid, startTime }
    await untilReady(identity, pidFile, signal).catch(async (error: unknown) => {
      await endCaddy(identity, 0)
      throw error instanceof CaddyStartError ? new CaddyStartError(await lastLineOf(home)) : error
    })
    return identity
  } finally {
    await output.close()
  }
}

/**
 * Settings of the Go runtime (https://pkg.go.dev/runtime). Caddy keeps little memory but allocates much for each
 * request, so by default it would collect garbage many times a second. With these settings it collects rarely up to a
 * quarter of the machine's memory, and as often as needed beyond.
 */
const memorySettings = () => ({ GOGC: '400', GOMEMLIMIT: String(Math.floor(machineBytes() / 4)) })

async function untilReady(identity: ProcessIdentity, pidFile: string, signal: AbortSignal): Promise<void> {
  const exit = openExit(identity)
  const deadline = performance.now() + readyMs
  try {
    while (!(await exists(pidFile))) {
      signal.throwIfAborted()
      if (exit.hasEnded()) throw new CaddyStartError('it has ended')
      if (performance.now() > deadline) throw new Error(`Caddy was not ready after ${readyMs / 1000} seconds`)
      await sleep(pollMs)
    }
  } finally {
    exit.close()
  }
}

/** Ends a Caddy, whose requests may finish for `finishMs`. */
export async function endCaddy(identity: ProcessIdentity, finishMs = graceMs): Promise<void> {
  await killAll({ leaders: [identity] }, { graceMs: finishMs })
}

/** Opens the file for Caddy's output. Keeps the output of the previous start, which may explain why Caddy ended. */
async function openOutput({ output }: EdgeHome) {
  const size = await stat(output).then(
    (info) => info.size,
    () => 0,
  )
  if (size > 0) await rename(output, `${output}.1`)
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  return open(output, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
}

const mostBytes = 2000

/** Returns the last line that Caddy printed, such as `Error: loading initial config: …`. */
async function lastLineOf({ output }: EdgeHome): Promise<string> {
  const text = await readFile(output, 'utf8').catch(() => '')
  const line = text.trim().split('\n').at(-1)?.slice(0, mostBytes) ?? ''
  return line === '' ? 'it ended and printed nothing' : line
}
