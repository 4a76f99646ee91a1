import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { freePort } from '../../harness/ports.ts'
import { type ServerProcess, serverProcess } from '../../harness/process.ts'

/** The time in which another server must lead after the leader's end. */
/** The message that a server logs when it begins to lead, with its epoch. */
const leads = 'this server leads'

const takeoverTimeoutMs = 60_000

/** Servers on one data directory, each with a fixed port. */
export interface Servers extends AsyncDisposable {
  /** The client of one of the live servers. */
  anyClient(random: () => number): Client
  /** The position of the leading server, and its epoch. */
  leader(): Promise<{ readonly at: number; readonly epoch: number }>
  kill(at: number): Promise<void>
  /** Restarts a killed server. */
  start(at: number): Promise<void>
  /** Suspends a server (SIGSTOP), which the other servers cannot distinguish from a hanging machine; or resumes it. */
  pause(at: number): void
  resume(at: number): void
  /** Resolves with the milliseconds until a server leads in a later epoch. */
  untilOtherLeads(epoch: number): Promise<number>
}

export async function startServers(options: {
  readonly count: number
  readonly dataDirectory: string
  readonly apiKey: string
  readonly environment: Readonly<Record<string, string>>
}): Promise<Servers> {
  const { count, dataDirectory, apiKey, environment } = options
  await using cleanup = new AsyncDisposableStack()
  const ports = await Promise.all(Array.from({ length: count }, freePort))
  const servers: ServerProcess[] = []
  const away = new Set<number>()
  const start = async (at: number) => {
    servers[at] = await serverProcess(dataDirectory, { ...environment, FAIRLEAD_PORT: String(ports[at]) })
    away.delete(at)
  }
  cleanup.defer(async () => {
    await Promise.all(servers.filter((_, at) => !away.has(at)).map((server) => server[Symbol.asyncDispose]()))
  })
  for (const at of ports.keys()) await start(at)
  const server = (at: number) => servers[at] as ServerProcess

  /** Every epoch in which a server has begun to lead, by its log, with the server's position. */
  const epochs = (): { epoch: number; at: number }[] =>
    servers.flatMap(({ log }, at) =>
      log.filter(({ msg }) => msg === leads).map(({ epoch }) => ({ epoch: Number(epoch), at })),
    )
  const latest = () => epochs().toSorted((a, b) => b.epoch - a.epoch)[0]
  const until = async <Value>(what: string, find: () => Value | undefined): Promise<Value> => {
    const deadline = performance.now() + takeoverTimeoutMs
    for (;;) {
      const found = find()
      if (found !== undefined) return found
      if (performance.now() > deadline) throw new Error(`${what} within ${takeoverTimeoutMs / 1000} s`)
      await sleep(10)
    }
  }

  const owned = cleanup.move()
  return {
    anyClient(random) {
      const there = [...servers.keys()].filter((at) => !away.has(at))
      return server(there[Math.floor(random() * there.length)] ?? 0).clientFor(apiKey)
    },
    leader: () => until('no server leads', () => (count === 1 ? { at: 0, epoch: 0 } : latest())),
    async kill(at) {
      away.add(at)
      await server(at).kill()
    },
    start,
    pause(at) {
      away.add(at)
      server(at).child.kill('SIGSTOP')
    },
    resume(at) {
      server(at).child.kill('SIGCONT')
      away.delete(at)
    },
    async untilOtherLeads(epoch) {
      const startedAt = performance.now()
      await until('no other server leads', () => epochs().find((each) => each.epoch > epoch))
      return performance.now() - startedAt
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
