import { readdir, readFile, stat } from 'node:fs/promises'
import { isRunning, type ProcessIdentity, sendSignal, startTimeOf } from '../../../platform/processes.ts'
import type { Containers } from '../calls/containers.ts'
import { entryInside } from '../network/entry.ts'
import { isAlive } from './exit-watch.ts'

export interface LostParts {
  readonly containers: Pick<Containers, 'list'>
  /** The file that every container of this server begins with, by which its processes are known; null where there is none. */
  readonly entry: string | null
  /** Called right before something is ended. */
  readonly fence: () => void
}

/** A process of a container. */
interface Member extends ProcessIdentity {
  readonly container: string
}

/**
 * Returns a function that ends processes of containers which the engine has lost: one that is killed while it starts a container may
 * not know later that it runs. A process is ended at the second call that finds it, because a container that is just being started
 * does not count as running either. Calls are to be a minute apart, and follow each other.
 */
export function createEndLost({ containers, entry, fence }: LostParts): () => Promise<void> {
  let before = new Map<number, string>()
  return async () => {
    if (entry === null) return
    // Before the engine is asked: what starts afterwards is none of them.
    const found = await membersWith(entry)
    const running = new Set((await containers.list({})).filter(({ State }) => isAlive(State)).map(({ Id }) => Id))
    const lost = found.filter(({ container }) => !running.has(container))
    fence()
    for (const one of lost) if (before.get(one.pid) === one.startTime && isRunning(one)) sendSignal(one.pid, 'SIGKILL')
    before = new Map(lost.map(({ pid, startTime }) => [pid, startTime]))
  }
}

/** Returns the processes of containers in which this file is the first program. */
async function membersWith(entry: string): Promise<Member[]> {
  const own = await identityOf(entry)
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const members: Member[] = []
  for (const pid of pids) {
    const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
    // The engine's name for the group of a container, whatever makes the groups.
    const container = /[/-]([0-9a-f]{64})(?:\.scope)?$/m.exec(groups)?.[1]
    if (container === undefined || own === null || (await identityOf(`/proc/${pid}/root${entryInside}`)) !== own)
      continue
    const startTime = startTimeOf(pid)
    if (startTime !== null) members.push({ pid, startTime, container })
  }
  return members
}

/** Two paths lead to one file when this is the same; null where there is no file. */
const identityOf = (path: string): Promise<string | null> =>
  stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev} ${ino}`,
    () => null,
  )
