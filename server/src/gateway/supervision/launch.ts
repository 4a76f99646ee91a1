import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { tryStartLock } from '../../platform/machine/start-lock.ts'
import type { Assignment, GatewayHome, Notice, ProgramOptions } from '../control/program.ts'
import { logOf, spawnGateway } from '../control/spawn.ts'
import { makeHome } from './place.ts'

const readyMs = 20_000
const lockRetryMs = 20

/** Returns the command that runs a gateway of this version. The folder is named for those who look at the processes. */
export function gatewayCommand({ folder }: GatewayHome): [string, ...string[]] {
  const file = import.meta.url.endsWith('.ts') ? '../program/main.ts' : '../program/main.js'
  return [process.execPath, fileURLToPath(new URL(file, import.meta.url)), folder]
}

/**
 * Starts a gateway that outlives this process, and resolves when it takes calls. Servers that try it at the same time do
 * so one after the other: `isNeeded` is asked when this one's turn has come.
 */
export async function launchGateway(
  home: GatewayHome,
  options: ProgramOptions,
  isNeeded: () => Promise<boolean>,
): Promise<void> {
  await makeHome(home)
  const release = await takeLock(join(home.folder, 'start.lock'))
  try {
    if (await isNeeded()) await start(home, options)
  } finally {
    await release()
  }
}

async function takeLock(path: string): Promise<() => Promise<void>> {
  const deadline = performance.now() + readyMs
  for (;;) {
    const release = await tryStartLock(path)
    if (release !== null) return release
    if (performance.now() > deadline) throw new Error(`another process starts the gateway and does not finish: ${path}`)
    await sleep(lockRetryMs)
  }
}

async function start(home: GatewayHome, options: ProgramOptions): Promise<void> {
  const child = spawnGateway(gatewayCommand(home), home)
  child.unref()
  child.send({ type: 'start', home, options } satisfies Assignment, () => {})
  try {
    await untilReady(child)
  } catch (error) {
    child.kill('SIGKILL')
    throw new Error(`The gateway did not start: ${(error as Error).message}. See ${logOf(home)}.`, { cause: error })
  }
  child.removeAllListeners()
  if (child.connected) child.disconnect()
}

async function untilReady(child: ChildProcess): Promise<void> {
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(readyMs)])
  try {
    const ended = once(child, 'exit', { signal }).then(([code, by]) => {
      throw new Error(`its process ended (${code ?? by})`)
    })
    const said = once(child, 'message', { signal }).then(([message]) => {
      const notice = message as Notice
      if (notice.type === 'failed') throw new Error(notice.error.message)
    })
    await Promise.race([ended, said])
  } finally {
    over.abort()
  }
}
