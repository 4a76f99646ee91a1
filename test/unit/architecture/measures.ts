import { dirname, join } from 'node:path'
import { isNode, type Node, type SourceFile, walk } from './source.ts'

/** A function with its length in lines, from its first to its last, including the functions within it. */
export interface FunctionSize {
  readonly where: string
  readonly lines: number
}

export function functionsOf(file: SourceFile): FunctionSize[] {
  return [...walkNamed(file.program, '')]
    .filter(({ node }) => functionTypes.has(node.type) && isNode(node['body']))
    .map(({ node, name }) => ({
      where: `${file.path}:${lineAt(file, node.start)} ${name}`,
      lines: linesOf(file, node),
    }))
}

/** Yields all nodes with the name of the declaration or property around them, by which a function is known. */
function* walkNamed(node: Node, around: string): Generator<{ readonly node: Node; readonly name: string }> {
  const name = nameOf(node) ?? around
  yield { node, name }
  for (const child of childrenOf(node)) yield* walkNamed(child, name)
}

const functionTypes = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])

function nameOf(node: Node): string | undefined {
  for (const part of [node['id'], node['key']]) {
    if (isNode(part) && part.type === 'Identifier') return String(part['name'])
  }
  return undefined
}

const childrenOf = (node: Node): Node[] =>
  Object.values(node)
    .flatMap((child) => (Array.isArray(child) ? child : [child]))
    .filter(isNode)

const lineAt = ({ text }: SourceFile, offset: number): number => text.slice(0, offset).split('\n').length

const linesOf = ({ text }: SourceFile, { start, end }: Node): number => text.slice(start, end).split('\n').length

/** An object type that a function is handed, with the number of its members. */
export interface Handed {
  readonly where: string
  readonly members: number
}

/** The types that are dependencies by their name, exported or not. */
const dependencyName = /(Dependencies|Deps|Options|Parts|Context|Environment|Needs)$/

/**
 * Finds the dependency types: those named like one, the types of the first parameters of functions that make something
 * (`createX`), and object types written out in a first parameter.
 */
export function dependencyTypes(files: readonly SourceFile[]): Handed[] {
  const types = createTypes(files)
  return files.flatMap((file) => {
    const found = new Map<string, Handed>()
    const add = (name: string, node: Node, type: Node) =>
      found.set(name, {
        where: `${file.path}:${lineAt(file, node.start)} ${name}`,
        members: types.countMembers(type, file),
      })
    for (const { node, name } of walkNamed(file.program, '')) {
      if (declarations.has(node.type) && dependencyName.test(name)) add(name, node, node)
      if (!functionTypes.has(node.type)) continue
      const type = firstParameterType(node)
      if (type === undefined) continue
      if (
        type.type === 'TSTypeLiteral' ||
        type.type === 'TSIntersectionType' ||
        /^(create|make|start|open)/.test(name)
      ) {
        add(`(${file.text.slice(type.start, type.end).split('\n')[0]}) of ${name}`, type, type)
      }
    }
    return [...found.values()]
  })
}

const declarations = new Set(['TSInterfaceDeclaration', 'TSTypeAliasDeclaration'])

function firstParameterType(node: Node): Node | undefined {
  const [first] = node['params'] as readonly Node[]
  const pattern = first?.type === 'AssignmentPattern' ? (first['left'] as Node) : first
  const annotation = pattern?.['typeAnnotation']
  return isNode(annotation) ? (annotation['typeAnnotation'] as Node) : undefined
}

/** Resolves the names of types through the imports of these files. */
function createTypes(files: readonly SourceFile[]) {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const declared = new Map(files.map((file) => [file.path, declaredIn(file)]))

  /** Returns the names of the members of an object type; none for every other type. */
  function membersOf(type: Node, file: SourceFile): string[] {
    switch (type.type) {
      case 'TSInterfaceDeclaration': {
        const extended = type['extends'] as readonly Node[]
        return [
          ...memberNames((type['body'] as Node)['body'], file),
          ...extended.flatMap((each) => membersOfReference(each, each['expression'], file)),
        ]
      }
      case 'TSTypeAliasDeclaration':
        return membersOf(type['typeAnnotation'] as Node, file)
      case 'TSTypeLiteral':
        return memberNames(type['members'], file)
      case 'TSIntersectionType':
        return (type['types'] as readonly Node[]).flatMap((each) => membersOf(each, file))
      case 'TSTypeReference':
        return membersOfReference(type, type['typeName'], file)
      default:
        return []
    }
  }

  function membersOfReference(reference: Node, identifier: unknown, file: SourceFile): string[] {
    if (!isNode(identifier) || identifier.type !== 'Identifier') return []
    const name = String(identifier['name'])
    const given = reference['typeArguments']
    const [first, second] = isNode(given) ? (given['params'] as readonly Node[]) : []
    if (name === 'Pick' && second !== undefined) return literalsOf(second)
    if (first !== undefined && name === 'Omit') {
      const omitted = second === undefined ? [] : literalsOf(second)
      return membersOf(first, file).filter((each) => !omitted.includes(each))
    }
    if (first !== undefined && /^(Readonly|Partial|Required)$/.test(name)) return membersOf(first, file)
    const found = declared.get(file.path)?.get(name)
    if (found === undefined) return []
    if ('node' in found) return membersOf(found.node, file)
    const source = byPath.get(found.path)
    const node = declared.get(found.path)?.get(found.name)
    return source !== undefined && node !== undefined && 'node' in node ? membersOf(node.node, source) : []
  }

  return { countMembers: (type: Node, file: SourceFile): number => new Set(membersOf(type, file)).size }
}

const memberNames = (members: unknown, { text }: SourceFile): string[] =>
  (members as readonly Node[]).map(({ key, start, end }) =>
    isNode(key) ? text.slice(key.start, key.end) : text.slice(start, end),
  )

const literalsOf = (type: Node): string[] =>
  type.type === 'TSUnionType'
    ? (type['types'] as readonly Node[]).flatMap(literalsOf)
    : [String((type['literal'] as Node | undefined)?.['value'])]

/** Maps the names of types to their declaration, or to the file that they are imported from. */
function declaredIn(
  file: SourceFile,
): Map<string, { readonly node: Node } | { readonly path: string; readonly name: string }> {
  const found = new Map<string, { readonly node: Node } | { readonly path: string; readonly name: string }>()
  for (const node of walk(file.program)) {
    const name = nameOf(node)
    if (declarations.has(node.type) && name !== undefined) found.set(name, { node })
    if (node.type !== 'ImportDeclaration') continue
    const specifier = String((node['source'] as Node)['value'])
    for (const each of node['specifiers'] as readonly Node[]) {
      const local = String((each['local'] as Node)['name'])
      const imported = isNode(each['imported']) ? String(each['imported']['name']) : local
      if (specifier.startsWith('.')) found.set(local, { path: join(dirname(file.path), specifier), name: imported })
    }
  }
  return found
}
