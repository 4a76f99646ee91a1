import { addressesIn } from '../../platform/outbound.ts'
import type { ProgramOptions } from '../control/program.ts'
import type { EngineOptions } from '../engine/engine.ts'

/** Returns the options of an engine that follow from those of the program. */
export function engineOptions(
  options: ProgramOptions,
): Pick<EngineOptions, 'host' | 'apps' | 'isTrustedProxy' | 'edge'> {
  return {
    host: options.host,
    apps: options.apps,
    isTrustedProxy: addressesIn(options.trustedProxies),
    edge: options.edge,
  }
}
