import type { Containers } from '../calls/containers.ts'
import type { Container } from '../calls/types.ts'
import { projectLabel } from '../names.ts'
import type { ContainerNetworks } from '../network/networks.ts'

/** Containers whose networks are completed when they start, and removed after the last of them. */
export function networked(containers: Containers, networks: Pick<ContainerNetworks, 'started' | 'left'>): Containers {
  return {
    ...containers,

    async start(id) {
      await containers.start(id)
      await completeNetwork(networks, await containers.inspect(id))
    },

    async remove(id) {
      const project = (await containers.inspect(id))?.Config.Labels?.[projectLabel]
      await containers.remove(id)
      // The next sweep finds one that stays.
      if (project !== undefined) await networks.left(project).catch(() => undefined)
    },
  }
}

/** Completes the inside of the network of a container that runs, unless that is another container's. */
export async function completeNetwork(
  networks: Pick<ContainerNetworks, 'started'>,
  container: Container | null,
): Promise<void> {
  const gateway = Object.values(container?.NetworkSettings.Networks ?? {}).find(
    ({ Gateway }) => Gateway !== '',
  )?.Gateway
  const project = container?.Config.Labels?.[projectLabel]
  if (container == null || gateway === undefined || project === undefined) return
  const { Id: id, State } = container
  if (State.Pid > 0) await networks.started(project, { id, pid: State.Pid, gateway })
}
