import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'vite'

/*
 * Reads the sources of this repository as syntax trees (ESTree, by the parser that Vite brings), so that the tests of
 * the architecture measure code and not text.
 */

export const root = fileURLToPath(new URL('../../..', import.meta.url))

/** A node of the tree: `start` and `end` are offsets in the text. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [property: string]: unknown
}

export interface SourceFile {
  /** Below the top of the repository, with `/`. */
  readonly path: string
  readonly text: string
  /** Lines of text. */
  readonly lines: number
  readonly program: Node
  /** The files of the repository that it imports, for their values or for their types. */
  readonly imports: readonly string[]
}

/** Reads all TypeScript files of these folders. */
export function readSources(folders: readonly string[]): SourceFile[] {
  return sourcePaths(folders).map((path) => readSource(path, readFileSync(join(root, path), 'utf8')))
}

/** Lists all TypeScript files of these folders. */
export function sourcePaths(folders: readonly string[]): string[] {
  return folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
    .sort()
}

export function readSource(path: string, text: string): SourceFile {
  const { program, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path} cannot be parsed: ${errors[0]?.message}`)
  const tree = program as unknown as Node
  return { path, text, lines: text.split('\n').length - 1, program: tree, imports: importsOf(path, tree) }
}

function importsOf(path: string, program: Node): string[] {
  const imported = new Set<string>()
  for (const node of walk(program)) {
    const source = node['source'] as { readonly value?: unknown } | null | undefined
    const specifier = importing.has(node.type) ? source?.value : undefined
    if (typeof specifier === 'string' && specifier.startsWith('.')) imported.add(join(dirname(path), specifier))
  }
  return [...imported]
}

const importing = new Set([
  'ImportDeclaration',
  'ImportExpression',
  'TSImportType',
  'ExportNamedDeclaration',
  'ExportAllDeclaration',
])

/** Yields a node and all nodes within it, the outer ones first. */
export function* walk(node: Node): Generator<Node> {
  yield node
  for (const child of Object.values(node)) {
    for (const each of Array.isArray(child) ? child : [child]) if (isNode(each)) yield* walk(each)
  }
}

export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
