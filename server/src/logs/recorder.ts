import { createKeyedLock } from '../platform/keyed-lock.ts'
import { type LogCap, type LogExtent, type LogState, noteGrowth, punchHole, readExtent } from './extent.ts'
import { createGrowthWatch, type GrowthWatch } from './growth.ts'

/**
 * Records files that programs write by themselves: notes when they have grown, and frees space beyond their cap. A
 * program never waits for the recorder, nor the recorder for a program.
 */
export interface Recorder {
  /** Notes new lines of a log, so that every line up to `end` has its time as far as it is known. Never rejects. */
  look(path: string): Promise<LogExtent>
  /**
   * Returns what can be read of a log, with the times of its lines as far as they are known. Notes them only when this
   * process records the log: another one may do so, and two would spoil each other's marks. Never rejects.
   */
  extent(path: string): Promise<LogExtent>
  /** Looks at a log several times a second while it grows, until `ended` settles, and once more then. */
  record(path: string, ended: Promise<unknown>): Promise<void>
  /** Ends all recording at once: another server records from now on. */
  release(): void
}

const intervalMs = 250

interface Recorded {
  readonly growth: GrowthWatch
  state: LogState | null
}

/** @param options.mostBytes the most that a log may take on the disk, its times included */
export function createRecorder(options: Pick<LogCap, 'mostBytes'> & Partial<Pick<LogCap, 'free'>>): Recorder {
  const cap: LogCap = { free: punchHole, ...options }
  const recorded = new Map<string, Recorded>()
  const oneAtATime = createKeyedLock()
  let timer: NodeJS.Timeout | undefined

  const look = (path: string): Promise<LogState> =>
    oneAtATime(path, async () => {
      const known = recorded.get(path)?.state ?? null
      const state = await noteGrowth(path, known, known !== null, cap)
      const own = recorded.get(path)
      if (own !== undefined) own.state = state
      return state
    })

  const hasGrown = async (path: string): Promise<boolean> => {
    const before = recorded.get(path)?.state
    return (await look(path)) !== before
  }

  const remove = (path: string, own: Recorded): void => {
    own.growth.close()
    if (recorded.get(path) === own) recorded.delete(path)
    if (recorded.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  const lookOrRead = async (path: string): Promise<LogExtent> => {
    const state = await look(path).catch(() => null)
    // A full disk has no room for times; the log can be read all the same.
    return state === null ? readExtent(path) : { start: state.start, end: state.last.end }
  }

  return {
    look: lookOrRead,
    extent: (path) => (recorded.has(path) ? lookOrRead(path) : readExtent(path)),

    release() {
      for (const { growth } of recorded.values()) growth.close()
      recorded.clear()
      clearInterval(timer)
      timer = undefined
    },

    async record(path, ended) {
      const state = recorded.get(path)?.state ?? (await look(path).catch(() => null))
      const own: Recorded = { growth: createGrowthWatch(path, () => hasGrown(path)), state }
      recorded.set(path, own)
      timer ??= setInterval(() => {
        for (const { growth } of recorded.values()) growth.tick()
      }, intervalMs).unref()
      const finish = async () => {
        await look(path).catch(() => undefined)
        remove(path, own)
      }
      void ended.then(finish, finish)
    },
  }
}
