import { join } from 'node:path'
import type { AddressRange } from '../../../platform/config.ts'
import { createKeyedLock, type KeyedLock } from '../../../platform/keyed-lock.ts'
import { interfaceName, type Names, subnetOf } from '../../network/addresses.ts'
import { publishedPorts } from '../../network/host-table.ts'
import type { Neighbours, ProjectContainers } from '../../network/neighbours.ts'
import { formerBridgeRules, formerMemberRules, memberRules, type ProjectMember } from '../../network/project-rules.ts'
import { runTool, ToolError, type Tools } from '../../network/tools.ts'
import type { NamedNamespace } from './namespaces.ts'
import type { Network } from './network.ts'
import { type Member, openProjectFiles, type ProjectFiles } from './project-files.ts'

/** The networks that belong to projects, whose apps reach each other by names. */
export interface Projects {
  /** Adds a network to a project; without an address it is left as it is. Returns it, ready when that is done. */
  introduce(network: Network, project: Pick<Member, 'projectId' | 'name'>): Promise<Network>
  /** Returns the folder with the file `hosts` that the apps of a project see. */
  hostsOf(projectId: string): string
  /** The networks for the host's table. */
  members(): ProjectMember[]
  /** Takes the network of a namespace out of its project. */
  leave(namespace: Pick<NamedNamespace, 'index'>): Promise<void>
  /** Takes out the networks of all namespaces but these. */
  keep(namespaces: readonly Pick<NamedNamespace, 'index'>[]): Promise<void>
  readonly neighbours: Neighbours
}

export interface ProjectsOptions {
  readonly tools: Pick<Tools, 'nft'>
  readonly names: Names
  readonly range: AddressRange
  readonly dataDirectory: string
  /** The namespaces that are there. */
  readonly namespaces: readonly Pick<NamedNamespace, 'index'>[]
  /** Writes the host's table anew: a firewall that is loaded again removes it. */
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
  /** The files and the rules of a project change in the order of its members. */
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

/** The rules of projects in the host's table. Callers change those of a project one at a time. */
interface ProjectRules {
  admit(member: ProjectMember): Promise<void>
  /** @param isLast true for the last one of its project */
  remove(member: ProjectMember, isLast: boolean): Promise<void>
  /** Takes out the bridge of a project that has a member. */
  removeBridge(bridge: string): Promise<void>
  /** Writes the table where it is missing. */
  restore(): Promise<void>
}

function openProjectRules({
  tools,
  names,
  restore,
}: Pick<ProjectsOptions, 'tools' | 'names' | 'restore'>): ProjectRules {
  const lock = createKeyedLock()
  /** @param mend writes the table anew, with the members that there are when its turn has come */
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
  // Without the table there is nothing to take out.
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
  /** Held while the files and the rules of a project change. */
  readonly lock: KeyedLock
  readonly rules: Pick<ProjectRules, 'removeBridge' | 'restore'>
  /** Sets the rules of a project anew, by one of its members. */
  readonly admit: (member: Member) => Promise<void>
  /** Called after each change of the processes of a project. */
  readonly listeners: ((projectId: string) => void)[]
}

/** Sets the containers of projects in their files and rules. */
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
  /** A bridge belongs to one project at a time. */
  const settingLock = createKeyedLock()

  return {
    set: (projectId, containers) =>
      settingLock('', async () => {
        // The networks of containers come and go: no other project may reach the bridge that had it before.
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
