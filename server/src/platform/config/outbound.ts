import { z } from 'zod'
import { list, networks, port } from './values.ts'

/** The addresses and ports that webhooks and git may reach. */
export interface OutboundConfig {
  readonly mode: 'public' | 'any'
  readonly allow: readonly string[]
  readonly ports: readonly number[]
}

export const outboundSettings = {
  FAIRLEAD_OUTBOUND: z.enum(['public', 'any']).optional(),
  FAIRLEAD_OUTBOUND_ALLOW: networks.default([]),
  FAIRLEAD_OUTBOUND_PORTS: list.pipe(z.array(port, 'must be ports joined by commas')).default([]),
}

export type OutboundSet = z.output<z.ZodObject<typeof outboundSettings>>

export function outboundConfig(set: OutboundSet, localMode: boolean): OutboundConfig {
  return {
    mode: set.FAIRLEAD_OUTBOUND ?? (localMode ? 'any' : 'public'),
    allow: set.FAIRLEAD_OUTBOUND_ALLOW,
    ports: set.FAIRLEAD_OUTBOUND_PORTS,
  }
}
