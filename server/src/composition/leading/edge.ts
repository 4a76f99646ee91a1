import { type Edge, edgeHome, endEdge, makeEdgeHome, startEdge } from '../../edge/edge.ts'
import { edgeSockets, type GatewayProcess, type RunAs } from '../../gateway/gateway.ts'
import type { EdgeConfig } from '../../platform/config/edge.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Composition, SharedParts } from '../composition.ts'

/** The time between checks of the socket, which a cleaner of temporary folders may remove. */
const lookEveryMs = 5_000

export interface EdgeParts extends Pick<SharedParts, 'edge'> {
  readonly gateway: GatewayProcess
  /** The user of the gateway and of Caddy; `null` for the user of the server. */
  readonly runAs: RunAs | null
  /** Throws when another server leads. */
  readonly fence: () => void
}

/**
 * Opens the API for the edge, and starts or adopts the edge. Without a domain, ends the edge of an earlier
 * configuration. Never rejects for problems of the edge: apps and API have other addresses.
 */
export async function leadEdge(composition: Composition, parts: EdgeParts): Promise<void> {
  const { config, state, stack } = composition
  const { runAs } = parts
  if (config.edge === null) return endEdge(state.directory.root, runAs?.user ?? null)
  const api = listenForEdge(composition, parts)
  stack.defer('the socket of the API for the edge', () => api.stop())
  await api.listening
  const edge = await runEdge(composition, config.edge, parts)
  stack.defer('edge', edge.stop)
}

/** Listens for requests of the edge while this server leads, and afterwards until another server leads. */
function listenForEdge({ state, logger }: Composition, { edge, runAs }: EdgeParts) {
  const home = edgeHome(state.directory.root)
  const user = runAs?.user ?? null
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  const { stop } = startPeriodic({
    name: 'listening for the edge',
    everyMs: lookEveryMs,
    work: async () => {
      try {
        await makeEdgeHome(home, user)
        await edge.listener.listen(home.api, user?.gid ?? null)
      } finally {
        resolve()
      }
    },
    logger,
  })
  return { listening, stop }
}

function runEdge({ config, state, logger }: Composition, edge: EdgeConfig, parts: EdgeParts): Promise<Edge> {
  const { runAs, fence } = parts
  const sockets = edgeSockets(state.directory.root)
  return startEdge({
    dataDirectory: state.directory.root,
    config: edge,
    trustedProxies: config.trustedProxies,
    gateway: { apps: sockets.edge, questions: sockets.questions },
    runAs: runAs && { ...runAs, hasLowPorts: Math.min(edge.httpPort, edge.httpsPort) < 1024 },
    path: config.path,
    logger,
    fence,
    onProblems: parts.edge.setProblems,
  })
}
