import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AddressRange } from '../../../platform/config.ts'
import { createKeyedLock, type KeyedLock } from '../../../platform/keyed-lock.ts'
import { unlessShort } from '../../../platform/processes.ts'
import { interfaceName, type Names, subnetOf } from '../../network/addresses.ts'
import { publishedPorts } from '../../network/host-table.ts'
import { hostsLine, type Neighbours, type ProjectContainers } from '../../network/neighbours.ts'
import { formerBridgeRules, formerMemberRules, memberRules, type ProjectMember } from '../../network/rules.ts'
import { runTool, ToolError, type Tools } from '../../network/tools.ts'
import type { NamedNamespace } from './namespaces.ts'
import type { Network } from './network.ts'

export interface Projects {
  /**
   * Adds a network to a project; ignores a network without an address. Returns the network; its `ready` then includes
   * the project.
   */
  introduce(network: Network, project: Pick<Member, 'projectId' | 'name'>): Promise<Network>
  hostsOf(projectId: string): string
  members(): ProjectMember[]
  leave(namespace: Pick<NamedNamespace, 'index'>): Promise<void>
  /** Removes networks whose namespaces no longer exist. */
  keep(namespaces: readonly Pick<NamedNamespace, 'index'>[]): Promise<void>
  readonly neighbours: Neighbours
}

export interface ProjectsOptions {
  readonly tools: Pick<Tools, 'nft'>
  readonly names: Names
  readonly range: AddressRange
  readonly dataDirectory: string
  readonly namespaces: readonly Pick<NamedNamespace, 'index'>[]
  /** Writes the table of the host again: reloading a firewall removes it. */
  readonly restore: () => Promise<void>
}

export async function openProjects(options: ProjectsOptions): Promise<Projects> {
  const { names, range } = options
  const rules = openProjectRules(options)
  const indexOf = ({ address }: Pick<Member, 'address'>) => subnetOf(range, address)?.index ?? -1
  const withLink = (member: Member): ProjectMember => ({
    ...member,
    link: interfaceName(names, 'app', indexOf(member)),
    bridge: files.containers().get(member.projectId)?.bridge ?? null,
  })
  const there = new Set(options.namespaces.map(({ index }) => index))
  const files = await openProjectFiles(join(options.dataDirectory, 'runtime', 'projects'), (address) =>
    there.has(indexOf({ address })),
  )
  /** Files and rules of a project change in the same order. */
  const lock = createKeyedLock()
  const listeners: ((projectId: string) => void)[] = []
  const changed = (projectId: string): void => {
    for (const listener of listeners) listener(projectId)
  }

  const remove = async ({ address, projectId }: Pick<Member, 'address' | 'projectId'>): Promise<void> =>
    lock(projectId, async () => {
      const member = await files.remove(address)
      if (member === null) return
      await rules.remove(withLink(member), member.isLast)
      changed(projectId)
    })
  const admit = (member: Member): Promise<void> => rules.admit(withLink(member))

  return {
    neighbours: createNeighbours({ files, lock, rules, admit, listeners }),
    hostsOf: files.folderOf,
    members: () => files.members().map(withLink),

    async introduce(network, { projectId, name }) {
      if (network.address === null) return network
      const member = { projectId, name, address: network.address }
      const added = Promise.withResolvers<void>()
      const ready = lock(projectId, async () => {
        await files.add(member).then(added.resolve, added.reject)
        await admit(member)
        changed(projectId)
      })
      ready.catch(added.reject)
      await added.promise
      return { ...network, ready: Promise.all([network.ready, ready]).then(() => undefined) }
    },

    async leave({ index }) {
      for (const member of files.members()) if (indexOf(member) === index) await remove(member)
    },

    async keep(namespaces) {
      const kept = new Set(namespaces.map(({ index }) => index))
      for (const member of files.members()) if (!kept.has(indexOf(member))) await remove(member)
    },
  }
}

/** The rules of projects in the table of the host. Callers change each project in one call at a time. */
interface ProjectRules {
  admit(member: ProjectMember): Promise<void>
  remove(member: ProjectMember, isLast: boolean): Promise<void>
  /** Removes the bridge of a project that has a member. */
  removeBridge(bridge: string): Promise<void>
  /** Writes the table if it is missing. */
  restore(): Promise<void>
}

function openProjectRules({
  tools,
  names,
  restore,
}: Pick<ProjectsOptions, 'tools' | 'names' | 'restore'>): ProjectRules {
  const lock = createKeyedLock()
  /** @param mend writes the table again, with the members at the time of its turn */
  const change = (rules: string, mend: () => Promise<void>): Promise<void> =>
    lock(names.table, async () => {
      try {
        await runTool(tools.nft, ['-f', '-'], rules)
      } catch (error) {
        if (!(error instanceof ToolError)) throw error
        await mend()
      }
    })
  const isThere = async () => (await publishedPorts(tools, names)) !== null
  // Without the table there is nothing to remove.
  const restoreIfThere = async () => ((await isThere()) ? restore() : undefined)
  const removeBridge = (bridge: string) => change(formerBridgeRules(names, bridge), restoreIfThere)

  return {
    admit: (member) => change(memberRules(names, member), restore),
    async remove({ bridge, ...member }, isLast) {
      if (isLast && bridge !== null) await removeBridge(bridge)
      await change(formerMemberRules(names, member, isLast), restoreIfThere)
    },
    removeBridge,
    restore: () => lock(names.table, async () => ((await isThere()) ? undefined : restore())),
  }
}

interface NeighboursParts {
  readonly files: Pick<ProjectFiles, 'members' | 'containers' | 'setContainers'>
  /** Locked while the files and the rules of a project change. */
  readonly lock: KeyedLock
  readonly rules: Pick<ProjectRules, 'removeBridge' | 'restore'>
  /** Sets a project's rules again, with one of its members. */
  readonly admit: (member: Member) => Promise<void>
  /** Called after each change of the processes of a project. */
  readonly listeners: ((projectId: string) => void)[]
}

function createNeighbours({ files, lock, rules, admit, listeners }: NeighboursParts): Neighbours {
  const setContainers = (projectId: string, containers: ProjectContainers | null): Promise<void> =>
    lock(projectId, async () => {
      const before = files.containers().get(projectId) ?? null
      if (JSON.stringify(containers) === JSON.stringify(before)) return
      await files.setContainers(projectId, containers)
      const member = files.members().find((each) => each.projectId === projectId)
      if (before?.bridge === containers?.bridge || member === undefined) return
      if (before !== null) await rules.removeBridge(before.bridge)
      await admit(member)
    })
  /** Held across projects, because a bridge belongs to one project at a time. */
  const settingLock = createKeyedLock()

  return {
    set: (projectId, containers) =>
      settingLock('', async () => {
        // No other project may reach the bridge of its former containers.
        for (const [other, { bridge }] of [...files.containers()]) {
          if (other !== projectId && bridge === containers?.bridge) await setContainers(other, null)
        }
        await setContainers(projectId, containers)
      }),
    projects: () => [...files.containers().keys()],
    restoreRules: rules.restore,
    processesOf: (projectId) =>
      files
        .members()
        .flatMap(({ name, address, ...member }) =>
          member.projectId === projectId && name !== null ? [{ name, address }] : [],
        ),
    onProcesses: (changed) => void listeners.push(changed),
  }
}

export interface Member {
  readonly projectId: string
  /** The name of the app for the other apps of the project, as `<name>.internal`; null without a name. */
  readonly name: string | null
  readonly address: string
}

/**
 * A project's networks are in a file that its apps see as `/etc/hosts`. Later servers read it. Callers change a
 * project's files in one call at a time.
 */
interface ProjectFiles {
  members(): readonly Member[]
  add(member: Member): Promise<void>
  /**
   * Removes a network. Returns the member, and whether it was the last of its project; null for a network without a
   * project.
   */
  remove(address: string): Promise<(Member & { readonly isLast: boolean }) | null>
  /** Returns the folder with the file `hosts`, which exists while the project has a member. */
  folderOf(projectId: string): string
  containers(): ReadonlyMap<string, ProjectContainers>
  setContainers(projectId: string, containers: ProjectContainers | null): Promise<void>
}

const marker = '# Apps of this project'
const containersMarker = '# Containers of this project, at '
/** A network without a name is a comment. */
const memberLine = /^(# )?(\d+\.\d+\.\d+\.\d+)(?: (\S+)\.internal)?$/

/**
 * Reads the files that an earlier server has left.
 *
 * @param folder an absolute path; made when it is needed
 * @param exists tells whether the network with an address still exists; other networks are forgotten
 */
async function openProjectFiles(folder: string, exists: (address: string) => boolean): Promise<ProjectFiles> {
  const projects = new Map<string, readonly Member[]>()
  const containers = new Map<string, ProjectContainers>()
  const folderOf = (projectId: string) => join(folder, projectId)

  const othersOf = ({ projectId, address }: Member): readonly Member[] =>
    (projects.get(projectId) ?? []).filter((member) => member.address !== address)

  const set = async (projectId: string, members: readonly Member[]): Promise<void> => {
    if (members.length === 0) {
      projects.delete(projectId)
      await rm(folderOf(projectId), { recursive: true, force: true })
      return
    }
    projects.set(projectId, members)
    const path = join(folderOf(projectId), 'hosts')
    await mkdir(folderOf(projectId), { recursive: true })
    await chmod(folderOf(projectId), 0o755)
    const system = await readFile('/etc/hosts', 'utf8').catch(() => '')
    // A rename, so that running apps see all of it or nothing.
    const text = hostsFile(system, members, containers.get(projectId) ?? null)
    await writeFile(`${path}.new`, text, { mode: 0o644 })
    await chmod(`${path}.new`, 0o644)
    await rename(`${path}.new`, path)
  }

  for (const projectId of await readdir(folder).catch(unlessShort([]))) {
    const written = await readFile(join(folderOf(projectId), 'hosts'), 'utf8').catch(unlessShort(''))
    const known = containersIn(written)
    if (known !== null) containers.set(projectId, known)
    await set(
      projectId,
      membersIn(written, projectId).filter(({ address }) => exists(address)),
    )
  }

  return {
    members: () => [...projects.values()].flat(),
    add: (member) => set(member.projectId, [...othersOf(member), member]),

    async remove(address) {
      const found = [...projects.values()].flat().find((member) => member.address === address)
      if (found === undefined) return null
      const others = othersOf(found)
      await set(found.projectId, others)
      return { ...found, isLast: others.length === 0 }
    },

    folderOf,
    containers: () => containers,

    async setContainers(projectId, found) {
      if (found === null) containers.delete(projectId)
      else containers.set(projectId, found)
      const members = projects.get(projectId)
      if (members !== undefined) await set(projectId, members)
    },
  }
}

/** Returns the hosts file: the lines of the machine, then members from oldest to newest, then containers. */
function hostsFile(system: string, members: readonly Member[], containers: ProjectContainers | null): string {
  const lines = members.map(({ address, name }) => (name === null ? `# ${address}` : hostsLine({ address, name })))
  const others = (containers?.named ?? []).map(hostsLine)
  const bridge = containers === null ? [] : [`${containersMarker}${containers.bridge}`]
  return [system.trimEnd(), marker, ...lines, ...bridge, ...others, ''].join('\n')
}

function membersIn(hosts: string, projectId: string): Member[] {
  const [, own = ''] = hosts.split(`${marker}\n`)
  const [members = ''] = own.split(containersMarker)
  return linesIn(members).map((line) => ({ projectId, ...line }))
}

function containersIn(hosts: string): ProjectContainers | null {
  const [, own] = hosts.split(containersMarker)
  const [bridge = ''] = own?.split('\n') ?? []
  if (own === undefined) return null
  return { bridge, named: linesIn(own).flatMap(({ name, address }) => (name === null ? [] : [{ name, address }])) }
}

function linesIn(text: string): Pick<Member, 'name' | 'address'>[] {
  return text.split('\n').flatMap((line) => {
    const [, , address, name] = memberLine.exec(line) ?? []
    return address === undefined ? [] : [{ address, name: name ?? null }]
  })
}
