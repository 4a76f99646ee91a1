import { Agent } from 'node:http'
import { ask, type Place, type Scope } from './harness.ts'

export interface Load {
  /** The number of requests that were answered with 200. */
  answered(): number
  /** Everything else that came of a request. */
  readonly failures: unknown[]
  /** Resolves when this many more requests were answered. */
  more(count: number): Promise<void>
  stop(): Promise<void>
}

/**
 * Sends requests one after the other in many loops: half of them over a new connection each, half over kept ones.
 * `begin` is called before each request, and what it returns with the body of the answer.
 */
export function startLoad(
  scope: Scope,
  place: Place,
  {
    loops = 20,
    begin = () => () => {},
    headers = {},
  }: { loops?: number; begin?: () => (body: string) => void; headers?: Record<string, string> } = {},
): Load {
  const failures: unknown[] = []
  const waiting = new Set<{ readonly at: number; readonly resolve: () => void }>()
  let answered = 0
  let stopped = false

  const count = () => {
    answered += 1
    for (const each of waiting) {
      if (answered < each.at) continue
      waiting.delete(each)
      each.resolve()
    }
  }

  const loop = async (isKept: boolean): Promise<void> => {
    const agent = isKept ? new Agent({ keepAlive: true, maxSockets: 1 }) : false
    while (!stopped) {
      const check = begin()
      try {
        const { status, body } = await ask(place, { agent, headers })
        check(body)
        if (status === 200) count()
        else failures.push([status, body])
      } catch (error) {
        failures.push(error)
      }
    }
    if (agent !== false) agent.destroy()
  }

  const running = Promise.all(Array.from({ length: loops }, (_, at) => loop(at % 2 === 0)))
  const load: Load = {
    answered: () => answered,
    failures,
    more: (number) => new Promise((resolve) => waiting.add({ at: answered + number, resolve })),
    async stop() {
      stopped = true
      await running
    },
  }
  scope.defer(load.stop)
  return load
}
