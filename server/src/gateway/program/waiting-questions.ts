import type { Edge, Served } from '../routing/edge.ts'

/** A question waits this long for a certificate. */
const WAIT_MS = 30_000
/** The server hears of a name at most once in this time. */
const TELL_MS = 10_000
/** At most this many questions wait. Further questions are answered at once: there is no certificate. */
const MOST_WAITING = 1_024
/** At most this many questions wait for one app, because a wildcard allows any number of names. */
const MOST_WAITING_FOR_AN_APP = 128

/** A certificate with its key as PEM, `none`, or `elsewhere` when another gateway answers. */
export type Outcome = Buffer | 'none' | 'elsewhere'

/** A question for a served name without a certificate waits until the server sends one. */
export interface WaitingQuestions {
  /** Calls `answer` once, possibly before it returns. Returns a function that ends the waiting without an answer. */
  ask(hostname: string, answer: (outcome: Outcome) => void): () => void
  /** Checks all waiting questions again, after names or certificates have changed. */
  recheck(): void
  /** Tells a newly connected server about all names that wait. */
  retell(): void
  endAll(outcome: Outcome): void
}

interface Question {
  readonly hostname: string
  readonly owner: object
  readonly end: (outcome: Outcome) => void
}

export function createWaitingQuestions({
  edge,
  tell,
}: {
  readonly edge: Pick<Edge, 'servedAs' | 'certificateOf'>
  /** Tells the server about a name without a certificate; returns false when there is no server. */
  readonly tell: (hostname: string) => boolean
}): WaitingQuestions {
  const waiting = new Set<Question>()
  const told = new Set<string>()

  const tellOnce = (name: string): void => {
    if (told.has(name) || !tell(name)) return
    told.add(name)
    setTimeout(() => told.delete(name), TELL_MS).unref()
  }

  const wait = (hostname: string, { owner }: Served, answer: (outcome: Outcome) => void): (() => void) => {
    const giveUp = () => {
      clearTimeout(late)
      waiting.delete(question)
    }
    const end = (outcome: Outcome) => {
      giveUp()
      answer(outcome)
    }
    const question: Question = { hostname, owner, end }
    const late = setTimeout(() => end('none'), WAIT_MS)
    waiting.add(question)
    return giveUp
  }

  return {
    ask(hostname, answer) {
      const served = edge.servedAs(hostname)
      const pem = served && edge.certificateOf(hostname)
      if (served !== null && pem === null) {
        tellOnce(served.name)
        if (mayWait(waiting, served.owner)) return wait(hostname, served, answer)
      }
      answer(pem ?? 'none')
      return () => {}
    },
    recheck() {
      for (const { hostname, end } of [...waiting]) {
        const outcome = edge.servedAs(hostname) === null ? 'none' : edge.certificateOf(hostname)
        if (outcome !== null) end(outcome)
      }
    },
    retell() {
      told.clear()
      for (const { hostname } of waiting) tellOnce(edge.servedAs(hostname)?.name ?? hostname)
    },
    endAll(outcome) {
      for (const { end } of [...waiting]) end(outcome)
    },
  }
}

/**
 * True when one more question for an app may wait. An app may have at most as many waiting questions as there are free
 * slots, so that a few apps never take all slots.
 */
function mayWait(waiting: ReadonlySet<Question>, owner: object): boolean {
  const own = [...waiting].filter((each) => each.owner === owner).length
  return own < Math.min(MOST_WAITING_FOR_AN_APP, MOST_WAITING - waiting.size)
}
