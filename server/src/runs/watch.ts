import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../platform/database.ts'
import { Canceled } from './canceled.ts'
import { canceledOf, canceledProblem } from './rows.ts'
import type { RunRow } from './tables.ts'

/** Returns those of these keys and sessions that are neither revoked nor expired. */
export type FindValid = (ids: readonly string[]) => Promise<ReadonlySet<string>>

/** Ends commands that their owners cancel, and those of keys and sessions that have ended. */
export interface RunWatch {
  /** Does `work` with a signal that aborts, with the reason `Canceled`, when the run is to end. */
  during<Result>(run: RunRow, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>
}

/** The time between two looks at the commands that are under way. */
const lookMs = 1_000

/** @param dependencies.onError is called when the commands could not be looked at; the next look comes */
export function createRunWatch(dependencies: {
  readonly database: Database
  readonly findValid: FindValid
  readonly onError: (error: unknown) => void
}): RunWatch {
  const watched = new Map<string, Watched>()
  let looking = false

  const look = async (runs: readonly Watched[]): Promise<void> => {
    const canceled = await canceledOf(
      dependencies.database,
      runs.map(({ run }) => run.id),
    )
    const begunBy = [...new Set(runs.flatMap(({ run }) => run.begun_by ?? []))]
    const valid = begunBy.length === 0 ? new Set() : await dependencies.findValid(begunBy)
    for (const { run, ending } of runs) {
      if (canceled.has(run.id)) ending.abort(new Canceled(canceledProblem))
      else if (run.begun_by !== null && !valid.has(run.begun_by)) ending.abort(new Canceled(ended))
    }
  }
  const follow = async (): Promise<void> => {
    if (looking) return
    looking = true
    while (watched.size > 0) {
      await sleep(lookMs)
      await look([...watched.values()]).catch(dependencies.onError)
    }
    looking = false
  }

  return {
    async during(run, work) {
      const own = { run, ending: new AbortController() }
      // A ticket may outlive the key that made it.
      await look([own])
      watched.set(run.id, own)
      void follow()
      return work(own.ending.signal).finally(() => watched.delete(run.id))
    },
  }
}

interface Watched {
  readonly run: RunRow
  readonly ending: AbortController
}

const ended = 'The key or the session that began it has ended.'
