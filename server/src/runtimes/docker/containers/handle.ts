import type { Handle } from '../../runtime.ts'

export const runtimeName = 'docker'

/** An instance as it is stored. */
export interface ContainerInstance {
  /** The id of the container. */
  readonly container: string
  readonly releaseId: string
  /** The value of `PORT`. */
  readonly port: number
  /** The port at which it is served in place of `PORT`. */
  readonly servedPort?: number
}

export const toHandle = (instance: ContainerInstance): Handle => ({ runtime: runtimeName, data: { ...instance } })

/** @throws Error for a handle that another runtime has made */
export function fromHandle({ runtime, data }: Handle): ContainerInstance {
  const { container, releaseId, port, servedPort } = data
  if (runtime !== runtimeName || typeof container !== 'string' || typeof releaseId !== 'string') {
    throw new Error(`this is no instance of the runtime "${runtimeName}": ${JSON.stringify(data)}`)
  }
  return {
    container,
    releaseId,
    port: Number(port),
    ...(servedPort === undefined ? {} : { servedPort: Number(servedPort) }),
  }
}
