import type { FileHandle } from 'node:fs/promises'
import type { JobTransitions } from '../../state/job-transitions.ts'
import type { DeploymentGeneration } from '../../state/tables.ts'
import { waitingLine } from '../../state/waiting-line.ts'

/** Tells, in a build's log and in its row, how many builds come before it. */
export interface QueueNotes {
  note(before: number): void
  /** Notes that it waits no more, if it has waited. */
  end(): Promise<void>
  /** Resolves when everything is written. Never rejects: a build does not depend on notes. */
  settle(): Promise<void>
}

export function createQueueNotes(
  jobs: Pick<JobTransitions, 'waits'>,
  row: DeploymentGeneration,
  output: Pick<FileHandle, 'write'>,
): QueueNotes {
  // One after the other, so that an earlier number never replaces a later one.
  let written: Promise<unknown> | undefined
  const add = (work: () => Promise<unknown>) => {
    written = Promise.resolve(written)
      .then(work)
      .catch(() => undefined)
  }
  const settle = async () => {
    await written
  }
  return {
    note(before) {
      add(() => output.write(`${waitingLine(before)}\n`))
      add(() => jobs.waits(row, before))
    },
    async end() {
      if (written === undefined) return
      add(() => jobs.waits(row, null))
      await settle()
    },
    settle,
  }
}
