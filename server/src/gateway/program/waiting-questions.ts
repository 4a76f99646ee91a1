import type { Edge, Served } from '../routing/edge.ts'

/** The time that a question waits for a certificate. */
const WAIT_MS = 30_000
/** A server is told of a name at most once in this time. */
const TELL_MS = 10_000
/** The questions that may wait. Further ones are told at once that there is no certificate. */
const MOST_WAITING = 1_024
/** Those of one app, whose names may be any number: a wildcard stands for all of them. */
const MOST_WAITING_FOR_AN_APP = 128

/** The answer to a question: a certificate with its key in PEM form, or that there is none, or that another gateway answers. */
export type Outcome = Buffer | 'none' | 'elsewhere'

/** Questions for certificates. Those for names that are served here and have none wait until the server sends it. */
export interface WaitingQuestions {
  /** Calls `answer` once, at once perhaps. Returns a function that ends the waiting without an answer. */
  ask(hostname: string, answer: (outcome: Outcome) => void): () => void
  /** Looks at all that wait again: there are other names or certificates than before. */
  recheck(): void
  /** Tells a server that has just come of all names that are waited for. */
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
  /** Tells the server of a name without a certificate; returns false when no server is there. */
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

/** True when one more question of an app may wait. It may have as many as are free at most, so that a few apps never take all. */
function mayWait(waiting: ReadonlySet<Question>, owner: object): boolean {
  const own = [...waiting].filter((each) => each.owner === owner).length
  return own < Math.min(MOST_WAITING_FOR_AN_APP, MOST_WAITING - waiting.size)
}
