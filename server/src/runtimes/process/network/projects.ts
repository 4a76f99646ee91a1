import { join } from 'node:path'
import type { AddressRange } from '../../../platform/config.ts'
import { createKeyedLock } from '../../../platform/keyed-lock.ts'
import { interfaceName, type Names, subnetOf } from '../../network/addresses.ts'
import { formerMemberRules, memberRules, type ProjectMember } from '../../network/project-rules.ts'
import { runTool, ToolError, type Tools } from '../../network/tools.ts'
import type { NamedNamespace } from './namespaces.ts'
import type { Network } from './network.ts'
import { type Member, openProjectFiles } from './project-files.ts'

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
  const { tools, names, range, restore } = options
  const indexOf = ({ address }: Pick<Member, 'address'>) => subnetOf(range, address)?.index ?? -1
  const withLink = (member: Member): ProjectMember => ({
    ...member,
    link: interfaceName(names, 'app', indexOf(member)),
  })
  const there = new Set(options.namespaces.map(({ index }) => index))
  const files = await openProjectFiles(join(options.dataDirectory, 'runtime', 'projects'), (address) =>
    there.has(indexOf({ address })),
  )
  /** The files and the rules of a project change in the order of its members. */
  const lock = createKeyedLock()

  const remove = async ({ address, projectId }: Pick<Member, 'address' | 'projectId'>): Promise<void> =>
    lock(projectId, async () => {
      const member = await files.remove(address)
      if (member === null) return
      const rules = formerMemberRules(names, withLink(member), member.isLast)
      // Without the table there is nothing to take out.
      await runTool(tools.nft, ['-f', '-'], rules).catch(ignoreToolError)
    })
  const admit = async (member: Member): Promise<void> => {
    try {
      await runTool(tools.nft, ['-f', '-'], memberRules(names, withLink(member)))
    } catch (error) {
      ignoreToolError(error)
      await restore()
    }
  }

  return {
    hostsOf: files.folderOf,
    members: () => files.members().map(withLink),

    async introduce(network, { projectId, name }) {
      if (network.address === null) return network
      const member = { projectId, name, address: network.address }
      const added = Promise.withResolvers<void>()
      const ready = lock(projectId, async () => {
        await files.add(member).then(added.resolve, added.reject)
        await admit(member)
      })
      ready.catch(added.reject)
      await added.promise
      return { ...network, ready: Promise.all([network.ready, ready]).then(() => undefined) }
    },

    async leave({ index }) {
      const member = files.members().find((each) => indexOf(each) === index)
      if (member !== undefined) await remove(member)
    },

    async keep(namespaces) {
      const kept = new Set(namespaces.map(({ index }) => index))
      for (const member of files.members()) if (!kept.has(indexOf(member))) await remove(member)
    },
  }
}

function ignoreToolError(error: unknown): void {
  if (!(error instanceof ToolError)) throw error
}
