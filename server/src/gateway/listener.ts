import type { Config } from '../platform/config.ts'
import type { PublicAddress } from './protocol/calls.ts'

export function listenerOf(config: Pick<Config, 'host' | 'apps'>, address: PublicAddress) {
  return { host: reachableHost(config.host), port: 'port' in address ? address.port : sharedPort(config.apps) }
}

export function sharedPort(apps: Config['apps']): number {
  return apps.mode === 'hostnames' ? apps.gatewayPort : 0
}

/** Returns an address that reaches a listener on `host` from this machine. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
