import { Agent } from 'node:http'
import { ask, type Place, type Scope } from './harness.ts'

export interface Load {
  answered(): number
  /** All other outcomes of requests. */
  readonly failures: unknown[]
  /** Resolves after this many more successful requests. */
  more(count: number): Promise<void>
  stop(): Promise<void>
}

/**
 * Sends requests in many loops: half over new connections, half over kept connections. `begin` is called before each
 * request, and its callback with the body of the response.
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
