import type { FileHandle } from 'node:fs/promises'
import type { Command } from '../../platform/command.ts'
import type { Logger } from '../../platform/logger.ts'
import {
  bootId,
  familyOf,
  isRunning,
  killAll,
  openExit,
  type ProcessExit,
  type ProcessIdentity,
  readStat,
  ticksPerSecond,
} from '../../platform/processes.ts'
import type { Handle, Instances, Observation, Release, StopOptions, Usage } from '../runtime.ts'
import { attach } from './attach.ts'
import type { Confinement, Entry } from './confinement/confinement.ts'
import { memoryOf } from './confinement/memory-watch.ts'
import { fromHandle, type LocalInstance, type LocalSite, newUnit, noProcess, toHandle, unitOf } from './handle.ts'
import type { CommandStarter, ExitStatus } from './launch.ts'
import type { ProcessMarks } from './marks.ts'
import { endNetwork } from './network/pasta-networks.ts'
import type { Ports } from './network/ports.ts'
import { createObserver } from './observe.ts'
import type { Quotas } from './quotas.ts'
import { giveOutputToUser, type LocalRelease, makeAppFolders, openToApp } from './release-folders.ts'
import { type SiteCommand, type Sites, siteCommand } from './sites.ts'

export interface InstancesParts extends Pick<StartParts, 'ports' | 'portInside' | 'logger' | 'quotas'> {
  readonly locate: (release: Release) => Promise<LocalRelease>
  readonly children: Children
  readonly confinement: Confinement
  readonly startCommand: CommandStarter
  readonly marks: ProcessMarks
  readonly sites: Sites
}

/** Runs each instance as a process in its own session. The processes outlive the server. */
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
      // An earlier server may have closed the release when it could not complete a stop.
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

/** Starts a static site. A site without a folder counts as exited, with code 1. */
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
  return memoryBytes === undefined ? null : confinement.exceeded(unitOf(instance), 'app', memoryBytes)
}

interface StartParts {
  readonly children: Pick<Children, 'add' | 'forgetEnded'>
  readonly confinement: Pick<Confinement, 'open' | 'watch'>
  readonly startCommand: CommandStarter
  readonly ports: Ports
  readonly quotas: Pick<Quotas, 'hold'>
  readonly portInside: number
  readonly logger: Pick<Logger, 'info'>
}

/**
 * Starts an instance of a release in a separate network, or on a free port of this machine. Resolves as soon as its
 * process exists.
 *
 * @param unit the name of the instance; ends an earlier instance of this name
 */
async function startInstance(
  parts: StartParts,
  release: LocalRelease,
  command: Command,
  output: FileHandle,
  unit: string,
): Promise<LocalInstance> {
  const { children, confinement, ports, portInside } = parts
  children.forgetEnded(release.id, unit)
  await makeAppFolders(release)
  await parts.quotas.hold(release)
  await openToApp(release.paths)
  await giveOutputToUser(output, release.user)
  const entry = await confinement.open({ ...release, id: unit }, 'app')
  const { address, forward } = entry
  const isShared = address === null && forward === null
  const port = isShared ? await ports.reserve() : (forward?.ipv4 ?? portInside)
  try {
    const { process, exited } = await startProcess(parts, release, command, { entry, output, port, unit })
    children.add({ releaseId: release.id, unit, process, exited })
    void exited.then((exit) => {
      if (isShared) ports.release(port)
      parts.logger.info({ deployment: release.id, pid: process.pid, ...exit }, 'app exited')
    })
    const boot = bootId()
    return {
      releaseId: release.id,
      unit,
      ...process,
      ...(boot === null ? {} : { boot }),
      port,
      ...(address === null ? {} : { address }),
      ...(forward === null ? {} : { holder: forward.holder }),
      ...(typeof forward?.ipv6 === 'number' ? { ipv6Port: forward.ipv6 } : {}),
      memoryBytes: release.limits.memoryBytes,
      ...(release.user === null ? {} : { uid: release.user.uid }),
    }
  } catch (error) {
    if (isShared) ports.release(port)
    throw error
  }
}

async function startProcess(
  { confinement, startCommand }: StartParts,
  release: LocalRelease,
  command: Command,
  how: { readonly entry: Entry; readonly output: FileHandle; readonly port: number; readonly unit: string },
): Promise<{ process: ProcessIdentity; exited: Promise<ExitStatus> }> {
  const { entry, output, port, unit } = how
  const launched = await startCommand(release, command, {
    scope: { kind: 'app', port },
    entry,
    output: output.fd,
    unit,
  })
  if (!launched.ok) {
    await output.write(`${launched.message}\n`)
    // A failed start counts as an exit.
    return { process: noProcess, exited: Promise.resolve({ code: launched.code, signal: null }) }
  }
  // The app outlives the server.
  launched.child.unref()
  const endWatch = confinement.watch({ ...release, id: unit }, 'app', launched.process)
  void launched.exited.then(endWatch)
  return launched
}

export interface Child {
  readonly releaseId: string
  readonly unit: string
  readonly process: ProcessIdentity
  readonly exited: Promise<ExitStatus>
}

/** The instances that this server process has started. It learns the exit status only of these. */
export interface Children {
  add(child: Child): void
  find(instance: Pick<Child, 'releaseId'> & ProcessIdentity): Child | undefined
  of(releaseId: string): Child[]
  /** Forgets the ended instances of the release, or with `unit` of one name: a crash loop must not fill the memory. */
  forgetEnded(releaseId: string, unit?: string): void
}

export function createChildren(): Children {
  const children = new Map<string, Child>()
  const ended = new Set<Child>()
  const of: Children['of'] = (id) => [...children.values()].filter((child) => child.releaseId === id)
  return {
    add(child) {
      children.set(keyOf(child.releaseId, child.process), child)
      void child.exited.then(() => ended.add(child))
    },
    find: ({ releaseId, ...process }) => children.get(keyOf(releaseId, process)),
    of,
    forgetEnded(releaseId, unit) {
      for (const child of of(releaseId)) {
        if (unit !== undefined && child.unit !== unit) continue
        if (ended.delete(child)) children.delete(keyOf(releaseId, child.process))
      }
    },
  }
}

const keyOf = (releaseId: string, { pid, startTime }: ProcessIdentity): string => `${releaseId}:${pid}:${startTime}`

/**
 * Ends the network when the instance ends, and the instance when the network ends. Without its network the app is
 * unreachable, and the reconciler starts an ended instance again. Does nothing for a network without a holder. Returns
 * the instance.
 */
function tieToNetwork(instance: LocalInstance, exits: ExitWatch, fence: () => void): LocalInstance {
  const { holder } = instance
  if (holder === undefined) return instance
  exits.add(instance, () => endNetwork(holder))
  exits.add(holder, () => {
    // A replaced server must end nothing; the new server has the same watch.
    killAll({ leaders: [instance] }, { graceMs: 0, fence }).catch(() => undefined)
  })
  return instance
}

/** Notices the end of processes that are not children of this server. */
interface ExitWatch {
  add(process: ProcessIdentity, onExit: () => void): () => void
}

interface Watched {
  readonly exit: ProcessExit
  readonly onExit: () => void
}

/** Node reports only the end of its children, so each process is checked, in some microseconds. */
const intervalMs = 500

function createExitWatch(): ExitWatch {
  const watched = new Set<Watched>()
  let timer: NodeJS.Timeout | undefined

  const remove = (entry: Watched): void => {
    if (!watched.delete(entry)) return
    entry.exit.close()
    if (watched.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
  const check = (entry: Watched): void => {
    if (!watched.has(entry) || !entry.exit.hasEnded()) return
    remove(entry)
    entry.onExit()
  }

  return {
    add(process, onExit) {
      const entry = { exit: openExit(process), onExit }
      watched.add(entry)
      timer ??= setInterval(() => {
        for (const each of [...watched]) check(each)
      }, intervalMs).unref()
      // The process may have ended already. The check runs in a later turn, when the caller has the function that ends
      // the watch.
      setImmediate(() => check(entry))
      return () => remove(entry)
    },
  }
}

export interface EndParts {
  readonly confinement: Pick<Confinement, 'kill' | 'processesOf' | 'unitsOf' | 'fence'>
  readonly marks: Pick<ProcessMarks, 'markerOf' | 'instanceMarkerOf'>
}

export async function endRelease(
  { confinement, marks }: EndParts,
  { id, uid }: { readonly id: string; readonly uid: number | undefined },
  leaders: readonly ProcessIdentity[],
  options: StopOptions,
): Promise<void> {
  const units = await confinement.unitsOf(id)
  await end(confinement, units, { marker: marks.markerOf(id, uid), leaders }, options)
}

export async function endInstance(
  { confinement, marks }: EndParts,
  instance: LocalInstance,
  options: StopOptions,
): Promise<void> {
  const unit = unitOf(instance)
  const marker = marks.instanceMarkerOf(unit, instance.uid)
  await end(confinement, [unit], { marker, leaders: [instance] }, options)
}

/**
 * Ends marked processes and control groups. The groups come last: they still contain a process that has cleared its
 * environment and detached itself.
 */
async function end(
  confinement: EndParts['confinement'],
  units: readonly string[],
  target: { readonly marker: ReturnType<ProcessMarks['markerOf']>; readonly leaders: readonly ProcessIdentity[] },
  options: StopOptions,
): Promise<void> {
  const kill = async () => {
    for (const unit of units) await confinement.kill(unit)
  }
  if (options.graceMs === 0) await kill()
  try {
    const members = async () => (await Promise.all(units.map((unit) => confinement.processesOf(unit)))).flat()
    await killAll({ ...target, members }, { ...options, fence: confinement.fence })
  } finally {
    if (options.signal?.aborted !== true) await kill()
  }
}

/** Measures an instance by its control group, or by its processes where the group has no counters. */
async function usageOf(
  instance: LocalInstance,
  confinement: Pick<Confinement, 'usageOf' | 'processesOf'>,
): Promise<Usage> {
  if (!isRunning(instance)) return { memoryBytes: 0, cpuSeconds: 0, processes: 0 }
  const group = await confinement.usageOf(unitOf(instance))
  const members = await confinement.processesOf(unitOf(instance), 'app')
  // A group lists all processes, and is faster to read.
  const pids = members.length > 0 ? members : await familyOf(instance.pid)
  return {
    memoryBytes: group.memoryBytes ?? memoryOf(pids),
    cpuSeconds: group.cpuSeconds ?? cpuSecondsOf(pids),
    processes: pids.length,
  }
}

/** Returns the CPU time of the processes and of the children that they have waited for, in seconds. */
function cpuSecondsOf(pids: readonly number[]): number {
  return pids.reduce((ticks, pid) => ticks + (readStat(pid)?.cpuTicks ?? 0), 0) / ticksPerSecond
}
