import type { Command } from '../../../platform/command.ts'
import { fieldsOf, isFields, readJson } from '../../source/json.ts'
import { type PackageJson, parsePackageJson } from '../../source/package-json.ts'
import type { SourceTree } from '../../source/tree.ts'
import type { NodeApp } from './start.ts'

/** The files of which the members of a workspace are known. */
export const memberFiles = ['*/package.json', '*/*/package.json'] as const

const mostMembers = 50

/**
 * Returns the commands that build the other members of a workspace that the app uses, in their order. npm and Yarn do not know
 * it themselves.
 *
 * @param repository all files
 */
export function planMembers(repository: SourceTree, { package: app, installing }: NodeApp): readonly Command[] {
  const { manager, folder } = installing
  if (folder !== '.' || (manager.name !== 'npm' && manager.name !== 'yarn')) return []
  const members = readMembers(repository)
  const ordered: string[] = []
  const seen = new Set<string>([app.name ?? ''])
  const visit = (node: PackageJson): void => {
    for (const name of [...node.dependencies, ...node.devDependencies]) {
      const member = members.get(name)
      if (member === undefined || seen.has(name) || seen.size > mostMembers) continue
      seen.add(name)
      visit(member)
      if (member.scripts.has('build')) ordered.push(name)
    }
  }
  visit(app)
  return ordered.map((name) => ({
    argv:
      manager.name === 'npm'
        ? ['npm', 'run', 'build', `--workspace=${name}`]
        : ['yarn', 'workspace', name, 'run', 'build'],
    env: manager.env,
  }))
}

/** Returns the members of the workspace at the top by their names, as far as they lie in folders or in folders of those. */
function readMembers(repository: SourceTree): ReadonlyMap<string, PackageJson> {
  const patterns = workspacesOf(repository.read('package.json') ?? '')
  const members = new Map<string, PackageJson>()
  if (patterns.length === 0) return members
  const folders = repository.list('.').flatMap((top) => [top, ...repository.list(top).map((name) => `${top}/${name}`)])
  for (const folder of folders) {
    const text = repository.read(`${folder}/package.json`)
    if (text === undefined || !patterns.some((pattern) => isAt(pattern, folder))) continue
    const parsed = parsePackageJson(text)
    const name = parsed.ok ? parsed.value.name : undefined
    if (parsed.ok && name !== undefined && /^[@\w][\w@/.-]*$/.test(name)) members.set(name, parsed.value)
  }
  return members
}

/** Returns the folders that the field `workspaces` names, each a name or a pattern. */
function workspacesOf(text: string): readonly string[] {
  const read = readJson('package.json', text)
  const field: unknown = read.ok && isFields(read.value) ? read.value['workspaces'] : undefined
  const list: unknown = Array.isArray(field) ? field : fieldsOf(field)['packages']
  return Array.isArray(list) ? list.filter((each): each is string => typeof each === 'string' && each.length < 200) : []
}

/** True when a pattern such as `apps/*` means this folder. */
function isAt(pattern: string, folder: string): boolean {
  const parts = pattern.replace(/^\.\//, '').replace(/\/$/, '').split('/')
  const names = folder.split('/')
  if (parts.at(-1) === '**') return parts.slice(0, -1).every((part, at) => isNamed(part, names[at] ?? ''))
  return parts.length === names.length && parts.every((part, at) => isNamed(part, names[at] ?? ''))
}

/** Compares a name with one part of a pattern, in which one `*` stands for any characters. */
function isNamed(part: string, name: string): boolean {
  const [before = '', after, ...more] = part.split('*')
  if (after === undefined) return part === name
  return (
    more.length === 0 && name.length >= before.length + after.length && name.startsWith(before) && name.endsWith(after)
  )
}
