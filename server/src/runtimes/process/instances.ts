import type { FileHandle } from 'node:fs/promises'
import type { Handle, Instances, Observation, Release, StopOptions } from '../runtime.ts'
import { attach } from './attach.ts'
import type { Children } from './children.ts'
import type { CommandStarter } from './commands.ts'
import type { Confinement } from './confinement/confinement.ts'
import { endInstance } from './end-release.ts'
import { createExitWatch } from './exit-watch.ts'
import { createObserver } from './observe.ts'
import { openToApp } from './release/folders.ts'
import type { LocalRelease } from './release/layout.ts'
import {
  fromHandle,
  type LocalInstance,
  type LocalSite,
  newUnit,
  noProcess,
  toHandle,
  unitOf,
} from './release/local-instance.ts'
import type { ProcessMarks } from './release/marks.ts'
import { type SiteCommand, siteCommand } from './sites/folder.ts'
import type { Sites } from './sites/sites.ts'
import { type StartParts, startInstance } from './start-instance.ts'
import { tieToNetwork } from './tie-network.ts'
import { usageOf } from './usage.ts'

export interface InstancesParts extends Pick<StartParts, 'ports' | 'portInside' | 'logger' | 'quotas'> {
  readonly locate: (release: Release) => Promise<LocalRelease>
  readonly children: Children
  readonly confinement: Confinement
  readonly startCommand: CommandStarter
  readonly marks: ProcessMarks
  readonly sites: Sites
}

/** Runs instances as processes in sessions of their own, which outlive the server. */
export function createInstances(parts: InstancesParts): Instances {
  const { locate, children, confinement, marks, sites } = parts
  const observeRunning = createObserver(marks)
  const exits = createExitWatch()
  const tie = (instance: LocalInstance) => tieToNetwork(instance, exits, confinement.fence)

  return {
    async start(release, command, output, { beside = false } = {}) {
      const local = await locate(release)
      const site = siteCommand(command)
      if (site === null)
        return toHandle(tie(await startInstance(parts, local, command, output, beside ? newUnit(local.id) : local.id)))
      return toHandle(await startSite(parts, local, site, output))
    },

    // Servers of older versions started a process for a static site.
    isCurrent: (handle, command) => siteCommand(command) === null || fromHandle(handle).site !== undefined,

    async observe(handle) {
      const instance = fromHandle(handle)
      const { site } = instance
      if (site !== undefined) return (await sites.isServed(site)) ? servedFrom(site) : endedSite
      const observation = await observeRunning(handle, instance)
      if (observation !== null) return observation
      const exit = (await children.find(instance)?.exited) ?? { code: null, signal: null }
      return { state: 'exited', ...exit, exceeded: await exceededBy(instance, confinement) }
    },

    serveAt: (handle, port) => serveAt(confinement, handle, port),
    watch(handle, onExit) {
      const instance = fromHandle(handle)
      if (instance.site !== undefined) return sites.watch(instance.site, onExit)
      const child = children.find(instance)
      if (child === undefined) return exits.add(instance, onExit)
      let isWatching = true
      void child.exited.then(() => isWatching && onExit())
      return () => {
        isWatching = false
      }
    },

    async adopt(release, handle) {
      const instance = fromHandle(handle)
      const local = await locate(release)
      // An earlier server may have closed it, when it could not complete a stop.
      await openToApp(local.paths)
      if (instance.site !== undefined) return sites.reopen(local, instance.site)
      await parts.quotas.hold(local)
      confinement.watch({ ...release, id: unitOf(instance) }, 'app', tie(instance))
    },

    stop: (handle, options) => stop(parts, fromHandle(handle), options),

    attach: async (release, handle, request) => attach(parts, await locate(release), fromHandle(handle), request),
    usage: async (handle) => usageOf(fromHandle(handle), confinement),
  }
}

async function stop(parts: InstancesParts, instance: LocalInstance, options: StopOptions): Promise<void> {
  const { children, confinement, sites } = parts
  if (instance.site !== undefined) return sites.stop(instance.site)
  await endInstance(parts, instance, options)
  if (options.signal?.aborted === true) return
  await children.find(instance)?.exited
  if (unitOf(instance) === instance.releaseId) return
  // Its name is never used again.
  await confinement.remove(unitOf(instance))
  children.forgetEnded(instance.releaseId, unitOf(instance))
}

async function serveAt(confinement: Pick<Confinement, 'redirect'>, handle: Handle, port: number): Promise<Handle> {
  const { servedPort: _, ...instance } = fromHandle(handle)
  if (instance.holder !== undefined) await confinement.redirect(instance.holder, { from: instance.port, to: port })
  return toHandle(port === instance.port ? instance : { ...instance, servedPort: port })
}

const servedFrom = ({ folder, fallback }: LocalSite): Observation => ({
  state: 'listening',
  endpoints: [{ folder, ...(fallback === undefined ? {} : { fallback }) }],
})
const endedSite: Observation = { state: 'exited', code: null, signal: null, exceeded: null }

/** Starts a static site. One without a folder counts as exited, with code 1. */
async function startSite(
  { sites, children }: InstancesParts,
  release: LocalRelease,
  command: SiteCommand,
  output: FileHandle,
): Promise<LocalInstance> {
  children.forgetEnded(release.id)
  const site = await sites.start(release, command, output)
  const instance = { releaseId: release.id, ...noProcess, port: 0 }
  if (site !== null) return { ...instance, site }
  children.add({
    releaseId: release.id,
    unit: release.id,
    process: noProcess,
    exited: Promise.resolve({ code: 1, signal: null }),
  })
  return instance
}

async function exceededBy(instance: LocalInstance, confinement: Pick<Confinement, 'exceeded'>) {
  const { memoryBytes } = instance
  // Without the limit, in the handle of an older server, there is no number to report.
  return memoryBytes === undefined ? null : confinement.exceeded(unitOf(instance), 'app', memoryBytes)
}
