import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type Edge, edgeHome, endEdge, makeEdgeHome, startEdge } from '../../../../server/src/edge/edge.ts'
import { type EdgeRecord, readRecord } from '../../../../server/src/edge/record.ts'
import { testAuthority } from '../../../harness/edge.ts'
import { freePort } from '../../../harness/ports.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

/* A Caddy as a server runs it, between a gateway and an API of the test. */

type Listener = (request: IncomingMessage, response: ServerResponse) => unknown

export interface Beside extends AsyncDisposable {
  readonly dataDirectory: string
  readonly httpPort: number
  readonly httpsPort: number
  /** The names that the gateway was asked for. */
  readonly asked: string[]
  /** The lines that the server would log. */
  readonly log: { level: string; message: string; facts: Record<string, unknown> }[]
  problems(): readonly string[]
  /** Makes certificates for names that the gateway did not have. */
  certify(...names: string[]): Promise<void>
  /** Starts the supervision, as a server that begins to lead does. */
  start(changes?: Partial<Changes>): Promise<Edge>
  /** The Caddy of the record; rejects without one. */
  record(): Promise<EdgeRecord>
  /** Restarts the server behind one of the sockets, or stops it. */
  readonly api: Behind
  readonly gateway: Behind
}

interface Changes {
  readonly httpsPort: number
  readonly path: string
  readonly trustedProxies: readonly string[]
}

export interface Behind {
  start(listener: Listener): Promise<void>
  stop(): Promise<void>
}

export const dashboardHost = 'fairlead.example.test'

export async function beside(): Promise<Beside> {
  await using cleanup = new AsyncDisposableStack()
  const { path: dataDirectory } = cleanup.use(await temporaryDirectory())
  const home = edgeHome(dataDirectory)
  await makeEdgeHome(home, null)
  const [httpPort, httpsPort] = [await freePort(), await freePort()]
  const asked: string[] = []
  const certificates = new Map<string, string>()
  const log: Beside['log'] = []
  let known: readonly string[] = []
  const at = (name: string) => join(dataDirectory, name)
  const questions = behind(at('questions.sock'))
  const gateway = behind(at('edge.sock'))
  const api = behind(home.api)
  for (const each of [questions, gateway, api]) cleanup.defer(each.stop)
  await questions.start(({ url = '' }, response) => {
    const name = new URL(url, 'http://localhost').searchParams.get('server_name') ?? ''
    asked.push(name)
    const pem = certificates.get(name)
    response.writeHead(pem === undefined ? 204 : 200).end(pem)
  })
  cleanup.defer(() => endEdge(dataDirectory, null))
  const edges: Edge[] = []
  cleanup.defer(async () => void (await Promise.all(edges.map((edge) => edge.stop('server')))))
  const write = (level: string) => (facts: unknown, message?: string) =>
    void log.push({ level, message: message ?? String(facts), facts: Object(facts) })
  const owned = cleanup.move()
  return {
    dataDirectory,
    httpPort,
    httpsPort,
    asked,
    log,
    problems: () => known,
    api,
    gateway,
    async certify(...names) {
      const pem = await (await testAuthority()).issue(...names)
      for (const name of names) certificates.set(name, pem)
    },
    async start(changes = {}) {
      const edge = await startEdge({
        dataDirectory,
        config: {
          domain: 'example.test',
          dashboardHost,
          acme: { email: '', url: '', ca: null },
          httpPort,
          httpsPort: changes.httpsPort ?? httpsPort,
          dnsServers: null,
          dnsUpdates: null,
        },
        trustedProxies: changes.trustedProxies ?? [],
        gateway: { apps: at('edge.sock'), questions: at('questions.sock') },
        runAs: null,
        path: changes.path ?? process.env['PATH'] ?? '',
        logger: { info: write('info'), warn: write('warn'), error: write('error') },
        fence: () => undefined,
        onProblems: (problems) => {
          known = problems
        },
      })
      edges.push(edge)
      return edge
    },
    async record() {
      const found = await readRecord(home)
      if (found === null) throw new Error(`there is no record: ${await readFile(home.output, 'utf8').catch(String)}`)
      return found
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

function behind(path: string): Behind {
  let server: Server | undefined
  return {
    async start(listener) {
      server = createServer(listener)
      server.listen(path)
      await once(server, 'listening')
    },
    async stop() {
      if (server?.listening !== true) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
