import { readFile } from 'node:fs/promises'
import type { Config } from '../../platform/config.ts'
import { type PortRange, type Reach, type Service, servicesIn } from './reach.ts'
import { isLoopback } from './resolvers.ts'

/** The settings of this machine's package managers and its Docker engine, which builds read. */
const packageSettings = [
  '/etc/npmrc',
  '/usr/etc/npmrc',
  '/usr/local/etc/npmrc',
  '/etc/pip.conf',
  '/etc/xdg/pip/pip.conf',
  '/etc/docker/daemon.json',
]

/** Returns the services that apps and builds reach with this configuration, at the addresses that users are told. */
export async function configuredReach(
  config: Pick<
    Config,
    'host' | 'port' | 'apps' | 'edge' | 'databases' | 'deploys' | 'outbound' | 'publicAddress' | 'localMode'
  >,
): Promise<Reach> {
  const { apps, databases, deploys, outbound } = config
  const own = [one(config.port), ...(apps.mode === 'ports' ? [] : [one(apps.gatewayPort)])]
  const clusters = databases.url === undefined ? [databases.ports] : []
  const settings = await Promise.all(packageSettings.map((file) => readFile(file, 'utf8').catch(() => '')))
  const listensOnLoopback = isLoopback(config.host) || config.host === 'localhost'
  return {
    // Elsewhere the addresses that users are told are not on loopback, and a proxy on this machine is the only way there.
    loopback: [...clusters, ...(config.localMode ? own : [])],
    localOnly: clusters,
    direct: [...(listensOnLoopback ? [] : own), ...publicPorts(config)],
    apps: apps.mode === 'ports' ? appPorts(apps.ports, config.localMode, listensOnLoopback) : null,
    services: databases.url === undefined ? [] : [databaseService(databases.url)],
    mirrors: servicesIn([...Object.values(deploys.environment), ...settings]),
    outbound: { mode: outbound.mode, allow: outbound.allow },
  }
}

function appPorts(ports: PortRange, localMode: boolean, listensOnLoopback: boolean): Reach['apps'] {
  if (localMode) return { ports, at: 'loopback' }
  return listensOnLoopback ? null : { ports, at: 'direct' }
}

/** The ports in the addresses of the API and of apps, where a proxy on this machine may listen. */
function publicPorts({ publicAddress, apps, edge }: Pick<Config, 'publicAddress' | 'apps' | 'edge'>): PortRange[] {
  const api = 'origin' in publicAddress ? servicesIn([publicAddress.origin]).map(({ port }) => one(port)) : []
  const plain = edge === null ? [] : [one(edge.httpPort)]
  return [...api, ...plain, ...(apps.mode === 'hostnames' ? [one(apps.publicPort)] : [])]
}

function databaseService(url: string): Service {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: port === '' ? 5432 : Number(port) }
}

const one = (port: number): PortRange => ({ from: port, to: port })
