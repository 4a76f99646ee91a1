import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { programFile } from '../platform/package-files.ts'
import { reachableCopy } from '../platform/reachable-files.ts'
import { tryStartLock } from '../platform/start-lock.ts'
import { giveUpRights, type LesserUser, type OsUser } from '../platform/users.ts'
import { makeHome } from './place.ts'
import {
  type Assignment,
  type GatewayHome,
  logOf,
  type Notice,
  type ProgramOptions,
  spawnGateway,
} from './protocol/program.ts'

const readyMs = 20_000
const lockRetryMs = 20

/**
 * Returns the command that runs a gateway of this version. The folder in it only helps readers of the process list.
 *
 * @param isPrivileged true when root runs the command and has to drop its rights
 */
export function gatewayCommand(
  { folder }: GatewayHome,
  runAs: RunAs | null,
  isPrivileged: boolean,
): readonly [string, ...string[]] {
  if (runAs === null) return [process.execPath, programFile('gateway'), folder]
  const [first = runAs.node, ...rest] = [
    ...(isPrivileged ? giveUpRights(runAs) : []),
    ...[runAs.node, runAs.program, folder],
  ]
  return [first, ...rest]
}

/**
 * Starts a gateway that outlives this process. Resolves when it takes calls. Servers take turns: `isNeeded` is called
 * at this server's turn.
 */
export async function launchGateway(
  home: GatewayHome,
  { options, runAs }: { readonly options: ProgramOptions; readonly runAs: RunAs | null },
  isNeeded: () => Promise<boolean>,
): Promise<void> {
  await makeHome(home, runAs?.user ?? null)
  const release = await takeLock(join(home.folder, 'start.lock'))
  try {
    if (await isNeeded()) await start(home, options, gatewayCommand(home, runAs, true))
  } finally {
    await release()
  }
}

/** The unprivileged user of a gateway whose server runs as root. */
export interface RunAs extends LesserUser {
  readonly node: string
  readonly program: string
}

/** Finds readable paths of Node and the gateway's program, or copies them to `runtime`. */
export async function reachableGateway({
  runtime,
  user,
  version,
}: {
  readonly runtime: string
  readonly user: OsUser
  readonly version: string
}): Promise<Pick<RunAs, 'node' | 'program'>> {
  const [node, program] = await Promise.all([
    reachableCopy({ source: process.execPath, copyTo: join(runtime, `node-${process.version}`), user }),
    // The ending makes it a module, because the copy has no package.json beside it.
    reachableCopy({ source: programFile('gateway'), copyTo: join(runtime, `gateway-${version}.mjs`), user }),
  ])
  return { node, program }
}

/**
 * Returns the version of the gateway's program: a fingerprint of its file and of Node. An update of Fairlead that does
 * not change it keeps the running gateway, and with it the open WebSockets.
 */
export async function programVersion(): Promise<string> {
  const hash = createHash('sha256').update(process.version)
  return hash
    .update(await readFile(programFile('gateway')))
    .digest('hex')
    .slice(0, 12)
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

async function start(
  home: GatewayHome,
  options: ProgramOptions,
  command: readonly [string, ...string[]],
): Promise<void> {
  const child = spawnGateway(command, home)
  child.unref()
  try {
    const ready = untilReady(child)
    // Without a start there is no channel.
    if (child.connected) child.send({ type: 'start', home, options } satisfies Assignment, () => {})
    await ready
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
