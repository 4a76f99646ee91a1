import { execFile } from 'node:child_process'
import { lstat, truncate } from 'node:fs/promises'
import { promisify } from 'node:util'
import { appendMark, type Mark, markBytes, readAllMarks, readEnds, replaceMarks } from './times.ts'

/** What of a log can be read, in bytes. Positions count from the first byte ever written, gone or not. */
export interface LogExtent {
  readonly start: number
  readonly end: number
}

/**
 * Looks after files that apps write on their own: notes when they have grown, and frees what is too much. An app is
 * never in the way of this, nor this in the way of an app.
 */
export interface LogKeeper {
  /** Notes what is new in a log, so that every line up to `end` has its time as far as that is known. Never rejects. */
  look(path: string): Promise<LogExtent>
  /** Looks at a log several times a second for as long as something `lives` that may write to it. */
  watch(path: string, lives: () => boolean): Promise<void>
}

const lookMs = 250
/** A log that does not grow is looked at less often: the file's own time tells when it last grew. */
const quietLooks = 4
/** A file system ends somewhere (16 TB on ext4); a log that counts this far begins anew. */
const farthest = 2 ** 40
const blockSize = 4096

interface State {
  readonly start: number
  readonly last: Mark
  readonly count: number
}

interface Watched {
  lives: () => boolean
  looks: number
  isBusy: boolean
  state: State | null
}

/**
 * @param options.mostBytes what a log may take on the disk, its times included; the older half goes then
 * @param options.free frees the space of the first bytes of a file and leaves its other bytes in their places
 */
export function createLogKeeper(options: {
  readonly mostBytes: number
  readonly free?: (path: string, bytes: number) => Promise<unknown>
}): LogKeeper {
  const { mostBytes, free = punchHole } = options
  const watched = new Map<string, Watched>()
  const looking = new Map<string, Promise<unknown>>()
  let timer: NodeJS.Timeout | undefined

  const lookNow = async (path: string): Promise<State> => {
    const stats = await lstat(path).catch(() => null)
    if (stats === null || !stats.isFile()) return nothing
    const own = watched.get(path)
    const known = own?.state?.count ? own.state : await load(path)
    // An app can truncate its log; then it begins anew.
    const before = known === null || stats.size < known.last.end ? await begin(path) : known
    if (stats.size === before.last.end) return before
    const at = Math.max(before.last.at, Math.min(stats.mtimeMs, Date.now()))
    // What was written while nobody looked was written some time before.
    const last = { end: stats.size, at, isExact: own !== undefined && own.state !== null }
    await appendMark(path, last)
    const grown = { start: before.start, last, count: before.count + 1 }
    return sizeOf(grown) > mostBytes ? trim(path, grown) : grown
  }

  const trim = async (path: string, { last }: State): Promise<State> => {
    const marks = await readAllMarks(path)
    let kept = marks.length - 1
    const fits = (index: number) =>
      last.end - (marks[index - 1]?.end ?? 0) + (marks.length - index + 1) * markBytes <= mostBytes / 2
    while (kept > 1 && fits(kept - 1)) kept -= 1
    const before = marks[kept - 1] ?? last
    const first = { ...before, end: Math.max(before.end, last.end - Math.floor(mostBytes / 2)), isExact: false }
    const rest = marks.slice(kept)
    try {
      if (first.end > farthest) throw new Error('the positions are used up')
      await replaceMarks(path, [first, ...rest])
      const freed = first.end - (first.end % blockSize)
      if (freed > 0) await free(path, freed)
      return { start: first.end, last, count: rest.length + 1 }
    } catch {
      // Not every file system can free a part of a file. Better no old lines than a full disk.
      await truncate(path, 0)
      return begin(path)
    }
  }

  const look = (path: string): Promise<State> => {
    const next = (looking.get(path) ?? Promise.resolve()).then(async () => {
      const state = await lookNow(path)
      const own = watched.get(path)
      if (own !== undefined) own.state = state
      return state
    })
    const settled: Promise<unknown> = next
      .catch(() => undefined)
      .finally(() => {
        if (looking.get(path) === settled) looking.delete(path)
      })
    looking.set(path, settled)
    return next
  }

  const lookAgain = async (path: string, own: Watched): Promise<void> => {
    own.looks += 1
    if (own.isBusy || (own.looks > quietLooks && own.looks % quietLooks !== 0)) return
    own.isBusy = true
    const before = own.state
    // Asked first: what is written at the very end is seen by the last look.
    const lives = own.lives()
    try {
      if ((await look(path)) !== before) own.looks = 0
    } catch {
      // A full disk, or a log that is being removed: the next look tells.
    } finally {
      own.isBusy = false
    }
    if (!lives && watched.get(path) === own) watched.delete(path)
    if (watched.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }

  return {
    async look(path) {
      const state = await look(path).catch(() => null)
      if (state !== null) return { start: state.start, end: state.last.end }
      // A full disk takes no times; the log can be read all the same.
      const [known, stats] = await Promise.all([load(path), lstat(path).catch(() => null)])
      return { start: known?.start ?? 0, end: stats?.isFile() ? stats.size : 0 }
    },

    async watch(path, lives) {
      const state = watched.get(path)?.state ?? (await look(path).catch(() => null))
      watched.set(path, { lives, looks: 0, isBusy: false, state })
      timer ??= setInterval(() => {
        for (const [watchedPath, own] of watched) void lookAgain(watchedPath, own)
      }, lookMs).unref()
    },
  }
}

const nothing: State = { start: 0, last: { end: 0, at: 0, isExact: false }, count: 0 }

const sizeOf = ({ start, last, count }: State): number => last.end - start + count * markBytes

async function load(path: string): Promise<State | null> {
  const ends = await readEnds(path)
  return ends === null ? null : { start: ends.first.end, last: ends.last, count: ends.count }
}

async function begin(path: string): Promise<State> {
  const first = { end: 0, at: 0, isExact: false }
  await replaceMarks(path, [first])
  return { start: 0, last: first, count: 1 }
}

/** `fallocate` of util-linux: the hole takes no space, and whoever appends to the file notices nothing. */
function punchHole(path: string, bytes: number): Promise<unknown> {
  const args = ['--punch-hole', '--offset', '0', '--length', String(bytes), path]
  return promisify(execFile)('fallocate', args, { timeout: 60_000, env: { PATH: '/usr/bin:/bin' } })
}
