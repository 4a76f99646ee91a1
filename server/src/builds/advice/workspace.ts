import { type Fields, fieldsOf, isFields, readJson } from '../source/json.ts'
import type { SourceTree } from '../source/tree.ts'

/**
 * True when the top of a repository is no app but a workspace: its packages are in folders, and it names no start itself.
 * Its build script, if it has one, builds them all.
 */
export function isWorkspace(files: Pick<SourceTree, 'has' | 'read'>): boolean {
  const fields = readFields(files.read('package.json') ?? '')
  if (fields === null || typeof fieldsOf(fields['scripts'])['start'] === 'string') return false
  const marks = ['pnpm-workspace.yaml', 'turbo.json', 'nx.json', 'lerna.json', 'rush.json']
  return fields['workspaces'] !== undefined || marks.some((name) => files.has(name))
}

/** True for a package that others use and nobody starts, by the text of its package.json. */
export function isLibrary(text: string): boolean {
  const fields = readFields(text)
  if (fields === null) return false
  const scripts = fieldsOf(fields['scripts'])
  const starts = typeof scripts['start'] === 'string' || typeof scripts['dev'] === 'string'
  return !starts && ['main', 'module', 'exports', 'types', 'bin'].some((name) => fields[name] !== undefined)
}

/** Returns the fields of a package.json; null when it is none. */
function readFields(text: string): Fields | null {
  const read = readJson('package.json', text)
  return read.ok && isFields(read.value) ? read.value : null
}
