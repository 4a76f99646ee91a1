import { createHash, createHmac } from 'node:crypto'
import type { Sticky, Upstream } from '../../gateway/client.ts'
import type { Endpoint } from '../../runtimes/runtime.ts'
import { web } from '../process-types.ts'
import type { DeploymentRow } from '../tables.ts'

type Row = Pick<DeploymentRow, 'id' | 'app_id' | 'variables' | 'build_plan'>

/** Returns the upstream of a release at these endpoints; with keys for its clients' cookies where its plan asks for them. */
export function upstreamOf(row: Row, endpoints: Upstream['endpoints']): Upstream {
  const isSticky = row.build_plan?.processes?.[web]?.sticky === true
  return { deploymentId: row.id, endpoints, ...(isSticky && { sticky: stickyOf(row, endpoints) }) }
}

/**
 * Gives each endpoint a key that tells nothing about it, and that all servers know alike. The stored form of the release's
 * variables begins with random bytes that no client ever sees. Apps have cookies of their own: those of one host are sent to
 * all of its ports.
 */
function stickyOf({ app_id, variables }: Row, endpoints: readonly Endpoint[]): Sticky {
  const suffix = createHash('sha256').update(app_id).digest('hex').slice(0, 12)
  const keyOf = (endpoint: Endpoint) =>
    createHmac('sha256', variables).update(JSON.stringify(endpoint)).digest('hex').slice(0, 32)
  return { cookie: `fairlead_instance_${suffix}`, keys: endpoints.map(keyOf) }
}
