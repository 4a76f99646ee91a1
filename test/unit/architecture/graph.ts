import type { SourceFile } from './source.ts'

/** Maps each node to the nodes that it points to. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** The imports, file by file. */
export const fileGraph = (files: readonly SourceFile[]): Graph =>
  new Map(files.map(({ path, imports }) => [path, new Set(imports)]))

/**
 * The imports among the files and folders directly in `folder`. A folder stands for everything within it, so that a
 * file beside a folder (`jobs.ts` and `jobs/`) counts by itself.
 */
export function folderGraph(files: readonly SourceFile[], folder: string): Graph {
  const graph = new Map<string, Set<string>>()
  for (const { path, imports } of files) {
    const from = childOf(folder, path)
    if (from === undefined) continue
    const known = graph.get(from) ?? new Set()
    for (const imported of imports) {
      const to = childOf(folder, imported)
      if (to !== undefined && to !== from) known.add(to)
    }
    graph.set(from, known)
  }
  return graph
}

const childOf = (folder: string, path: string): string | undefined =>
  path.startsWith(`${folder}/`) ? path.slice(folder.length + 1).split('/')[0] : undefined

/** Returns one cycle of the graph as its nodes in order, or undefined. */
export function findCycle(graph: Graph): string[] | undefined {
  const done = new Set<string>()
  const way: string[] = []
  const visit = (node: string): string[] | undefined => {
    if (way.includes(node)) return [...way.slice(way.indexOf(node)), node]
    if (done.has(node)) return undefined
    way.push(node)
    for (const next of graph.get(node) ?? []) {
      const cycle = visit(next)
      if (cycle !== undefined) return cycle
    }
    way.pop()
    done.add(node)
    return undefined
  }
  for (const node of graph.keys()) {
    const cycle = visit(node)
    if (cycle !== undefined) return cycle
  }
  return undefined
}
