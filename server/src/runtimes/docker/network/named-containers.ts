import { type NamedAddress, nameSuffix } from '../../network/neighbours.ts'
import type { Engine } from '../engine/engine.ts'
import { unlessMissing } from '../engine/error.ts'

/** The parts of the engine's descriptions that are read here. */
interface Network {
  /** Those that run, by their ids. */
  readonly Containers?: Readonly<Record<string, unknown>> | null
}

interface Container {
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, Endpoint>> | null }
}

interface Endpoint {
  readonly NetworkID: string
  /** Empty while the container does not run. */
  readonly IPAddress: string
  readonly Aliases?: readonly string[] | null
}

/** Returns the running containers of a network that have a name there; none of a network that does not exist. */
export async function namedIn({ call }: Pick<Engine, 'call'>, network: string): Promise<NamedAddress[]> {
  const found = await unlessMissing(call<Network>({ method: 'GET', path: ['networks', network] }), null)
  const named: NamedAddress[] = []
  for (const id of Object.keys(found?.Containers ?? {}).toSorted()) {
    // It may have ended meanwhile.
    const container = await unlessMissing(call<Container>({ method: 'GET', path: ['containers', id, 'json'] }), null)
    for (const endpoint of Object.values(container?.NetworkSettings.Networks ?? {})) {
      if (endpoint.NetworkID === network && endpoint.IPAddress !== '') named.push(...namesOf(endpoint))
    }
  }
  return named
}

const namesOf = ({ IPAddress, Aliases }: Endpoint): NamedAddress[] =>
  (Aliases ?? [])
    .filter((alias) => alias.endsWith(nameSuffix))
    .map((alias) => ({ name: alias.slice(0, -nameSuffix.length), address: IPAddress }))
