import { sleepUntilAborted } from '../platform/abort.ts'
import { openExit } from '../platform/processes.ts'
import { adminAt } from './admin.ts'
import { endCaddy } from './process.ts'
import type { EdgeRecord } from './record.ts'

/** A Caddy may be another process's child, of whose end nothing is told. */
const lookEveryMs = 100
const askEveryMs = 5_000
/** One that did not answer is asked again soon. */
const askAgainMs = 1_000
const answerMs = 5_000
/** A machine that is very busy may be late once or twice. */
const mostFailures = 3

/**
 * Watches a Caddy. Resolves with the reason when it has ended, or was ended because it did not answer several times; with
 * `null` when `signal` aborts, or after `mostMs`.
 */
export async function untilOver(
  record: EdgeRecord,
  { signal, mostMs = Number.POSITIVE_INFINITY }: { readonly signal: AbortSignal; readonly mostMs?: number | undefined },
): Promise<string | null> {
  const exit = openExit(record)
  const asking = createAsking(record)
  const until = performance.now() + mostMs
  try {
    while (!signal.aborted && performance.now() < until) {
      if (exit.hasEnded()) return 'its process has ended'
      if (asking.failures() >= mostFailures) {
        await endCaddy(record, 0)
        return `it did not answer ${mostFailures} times`
      }
      await sleepUntilAborted(lookEveryMs, signal)
      asking.tick()
    }
    return null
  } finally {
    exit.close()
  }
}

/** Asks Caddy from time to time whether it is well. */
function createAsking({ admin: socket }: EdgeRecord) {
  const admin = adminAt(socket)
  let failures = 0
  let isAsking = false
  let next = performance.now() + askEveryMs
  const ask = async (): Promise<void> => {
    failures = (await admin.answers(answerMs)) ? 0 : failures + 1
    next = performance.now() + (failures === 0 ? askEveryMs : askAgainMs)
    isAsking = false
  }
  return {
    failures: () => failures,
    tick(): void {
      if (isAsking || performance.now() < next) return
      isAsking = true
      void ask()
    },
  }
}
