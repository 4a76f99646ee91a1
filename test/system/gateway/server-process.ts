/**
 * A process that connects to the gateway of a data directory, as a server does, routes an app, and waits for its end.
 */

import type { Upstream } from '../../../server/src/gateway/client.ts'
import { connectGateway, type GatewayOptions } from '../../../server/src/gateway/gateway.ts'
import { silent } from '../../harness/gateway/silent.ts'

/** The only argument of the process, as JSON. */
export interface Task {
  readonly dataDirectory: string
  readonly options: GatewayOptions['options']
  readonly port: number
  readonly upstream: Upstream
}

const { dataDirectory, options, port, upstream } = JSON.parse(process.argv[2] ?? '') as Task
const gateway = await connectGateway({ dataDirectory, options, runAs: null, epoch: 1, retireMs: 1_000, log: silent })
await gateway.open('app', { port })
await gateway.route('app', upstream)
process.stdout.write('routed\n')
