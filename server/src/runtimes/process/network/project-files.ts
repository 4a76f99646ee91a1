import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessShort } from '../../../platform/processes.ts'
import { hostsLine, type ProjectContainers } from '../../network/neighbours.ts'

/** An app's network among those of its project. */
export interface Member {
  readonly projectId: string
  /** The name by which the other apps of the project find it, as `<name>.internal`; null without. */
  readonly name: string | null
  /** The IPv4 address inside. */
  readonly address: string
}

/**
 * Remembers which networks belong to one project, in files that its apps see as `/etc/hosts`: so later servers know it, too.
 * Callers change a project's files one at a time.
 */
export interface ProjectFiles {
  /** The members of all projects. */
  members(): readonly Member[]
  add(member: Member): Promise<void>
  /** Forgets a network. Returns what it was, and whether it was the last one of its project; null for a network of no project. */
  remove(address: string): Promise<(Member & { readonly isLast: boolean }) | null>
  /** The folder with the file `hosts`, which exists while the project has a member. */
  folderOf(projectId: string): string
  /** The containers of each project that has any. */
  containers(): ReadonlyMap<string, ProjectContainers>
  /** Sets the containers of a project, in place of those from before; null for none. */
  setContainers(projectId: string, containers: ProjectContainers | null): Promise<void>
}

const marker = '# Apps of this project'
const containersMarker = '# Containers of this project, at '
/** A network that has no name is a comment. */
const memberLine = /^(# )?(\d+\.\d+\.\d+\.\d+)(?: (\S+)\.internal)?$/

/**
 * Reads the files that an earlier server has left.
 *
 * @param folder an absolute path; made when it is needed
 * @param exists tells whether the network with an address is still there; those that are not are forgotten
 */
export async function openProjectFiles(folder: string, exists: (address: string) => boolean): Promise<ProjectFiles> {
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
    // Apps that run see the file under its name: all of it at once.
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

/** Returns the file with the machine's own names, those of the members, the oldest first, and those of containers. */
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
