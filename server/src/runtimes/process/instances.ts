import type { Handle, Instances, Release } from '../runtime.ts'
import { attach } from './attach.ts'
import type { Children } from './children.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import { endRelease } from './end-release.ts'
import { createExitWatch } from './exit-watch.ts'
import { createObserver } from './observe.ts'
import type { LocalRelease } from './release/layout.ts'
import { fromHandle, type LocalInstance, toHandle } from './release/local-instance.ts'
import { type StartParts, startInstance } from './start-instance.ts'
import { usageOf } from './usage.ts'

export interface InstancesParts extends Pick<StartParts, 'ports' | 'logger'> {
  readonly locate: (release: Release) => LocalRelease
  readonly children: Children
  readonly confinement: Confinement
  readonly startCommand: CommandStarter
}

/** Runs instances as processes in sessions of their own, which outlive the server. */
export function createInstances(parts: InstancesParts): Instances {
  const { locate, children, confinement } = parts
  const observeRunning = createObserver()
  const exits = createExitWatch()

  return {
    start: async (release, command, output) => toHandle(await startInstance(parts, locate(release), command, output)),

    async observe(handle) {
      const instance = fromHandle(handle)
      const observation = await observeRunning(handle, instance)
      if (observation !== null) return observation
      const exit = (await children.find(instance)?.exited) ?? { code: null, signal: null }
      return { state: 'exited', ...exit, exceeded: await exceededBy(instance, confinement) }
    },

    watch(handle, onExit) {
      const instance = fromHandle(handle)
      const child = children.find(instance)
      if (child === undefined) return exits.add(instance, onExit)
      let isWatching = true
      void child.exited.then(() => {
        if (isWatching) onExit()
      })
      return () => {
        isWatching = false
      }
    },

    async adopt(release, handle) {
      confinement.watch(release, 'app', fromHandle(handle))
    },

    async stop(handle, options) {
      const instance = fromHandle(handle)
      await endRelease(confinement, { id: instance.releaseId, uid: instance.uid }, [instance], options)
      if (options.signal?.aborted !== true) await children.find(instance)?.exited
    },

    attach: async (release, handle, request) => attach(parts, locate(release), fromHandle(handle), request),
    usage: async (handle: Handle) => usageOf(fromHandle(handle), confinement),
  }
}

async function exceededBy({ releaseId, memoryBytes }: LocalInstance, confinement: Pick<Confinement, 'exceeded'>) {
  // Without the limit, in the handle of an older server, there is no number to report.
  return memoryBytes === undefined ? null : confinement.exceeded(releaseId, 'app', memoryBytes)
}
