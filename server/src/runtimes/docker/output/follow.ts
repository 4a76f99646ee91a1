import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../engine/engine.ts'
import { isMissing } from '../engine/error.ts'
import { type OutputFrame, readBatches } from '../engine/streams.ts'
import { countFrom, passedOf, sinceOf, unknown } from './position.ts'
import { type OutputRecord, OutputTakenOver } from './record.ts'

const pauseMs = 200

/** A time, as the engine puts it before each frame: nanoseconds, and always of one length. */
const timeBytes = '2026-01-31T12:00:00.000000000Z'.length
const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/

export interface FollowParts {
  readonly engine: Engine
  /** Resolves to true while the container runs; waits while the engine is away. */
  readonly runs: (signal: AbortSignal) => Promise<boolean>
  /** Appends to the log; rejects when another server does that from now on. */
  readonly append: OutputRecord['append']
  readonly signal: AbortSignal
}

/**
 * Writes the output of a container into its log, from where the record says, until the container has ended and all of it is
 * written, or until the signal aborts. An engine that is started again is asked again.
 */
export async function followOutput(
  parts: FollowParts,
  container: string,
  record: Pick<OutputRecord, 'position'>,
): Promise<void> {
  const { runs, signal } = parts
  for (;;) {
    // Asked before the output is read: all of an ended one is there by then.
    const follow = await runs(signal)
    const isRead = await readOn(parts, container, record, follow).then(
      () => true,
      (error: unknown) => {
        signal.throwIfAborted()
        if (error instanceof OutputTakenOver) throw error
        return isMissing(error)
      },
    )
    if (isRead && !follow) return
    await sleep(pauseMs, undefined, { signal })
  }
}

/** Reads what there is beyond the position, and with `follow` what comes until the connection or the container ends. */
async function readOn(
  { engine, append, signal }: FollowParts,
  container: string,
  { position }: Pick<OutputRecord, 'position'>,
  follow: boolean,
): Promise<void> {
  const answer = await engine.open({
    method: 'GET',
    path: ['containers', container, 'logs'],
    query: { stdout: true, stderr: true, timestamps: true, follow, since: sinceOf(position) },
    signal,
  })
  try {
    let counter = countFrom(position)
    let toPass: number | null = null
    for await (const batch of readBatches(answer)) {
      const pieces: Buffer[] = []
      for (const { at, text } of batch.flatMap(timed)) {
        if (toPass === null) {
          toPass = passedOf(position, at)
          if (toPass === 0 && position[0]?.at !== '') counter = countFrom(unknown)
        }
        if (toPass > 0) {
          toPass -= 1
          continue
        }
        counter.pass(at)
        pieces.push(text)
      }
      if (pieces.length > 0) await append(Buffer.concat(pieces), counter.position())
    }
  } finally {
    answer.destroy()
  }
}

/** Takes the time off a frame. The engine reports its own troubles in frames without one, which are none of the app's output. */
function timed({ bytes }: OutputFrame): { at: string; text: Buffer }[] {
  const at = bytes.toString('latin1', 0, timeBytes)
  return isTime.test(at) ? [{ at, text: bytes.subarray(timeBytes + 1) }] : []
}
