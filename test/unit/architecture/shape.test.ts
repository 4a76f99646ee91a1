import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileGraph, findCycle, folderGraph } from './graph.ts'
import { dependencyTypes, functionsOf } from './measures.ts'
import { readSource, readSources, root } from './source.ts'

const packages = ['server/src', 'receiver/src', 'action/src', 'server/dashboard/src']
const files = readSources(packages)
const inServer = files.filter(({ path }) => path.startsWith('server/src/'))

/** All folders with sources, and the folders around them up to the package's. */
const folders = [...new Set(files.flatMap(({ path }) => foldersAround(path)))].sort()

function foldersAround(path: string): string[] {
  const folder = dirname(path)
  return packages.includes(folder) ? [folder] : [folder, ...foldersAround(folder)]
}

/** One line for each thing measured, the largest first. */
const table = (measured: readonly (readonly [size: number, where: string])[]): string[] =>
  measured.toSorted(([a], [b]) => b - a).map(([size, where]) => `${String(size).padStart(5)}  ${where}`)

describe('imports', () => {
  it('all name files that exist', () => {
    const known = new Set(files.map(({ path }) => path))
    const missing = files.flatMap(({ path, imports }) =>
      imports.filter((each) => /\.tsx?$/.test(each) && !known.has(each)).map((each) => `${path} imports ${each}`),
    )
    expect(missing).toEqual([])
  })

  it('have no cycle between files', () => {
    expect(findCycle(fileGraph(files))).toBeUndefined()
  })

  it.each(folders)('have one direction within %s', (folder) => {
    expect(findCycle(folderGraph(files, folder))).toBeUndefined()
  })
})

describe('processes', () => {
  it('are started in one place, which listens for their errors', () => {
    const starters = inServer.filter(({ text }) =>
      /import \{[^}]*\bspawn\b[^}]*\} from 'node:child_process'/.test(text),
    )
    expect(starters.map(({ path }) => path)).toEqual(['server/src/platform/processes/spawn.ts'])
  })
})

describe('HTTP of Node', () => {
  it('is imported in one place, which keeps its client for the web out of memory', () => {
    const importers = inServer.filter(({ text }) => /^import (?!type )[^']*'node:https?'/m.test(text))
    expect(importers.map(({ path }) => path)).toEqual([])
  })
})

describe('files', () => {
  const lengths = files.map(({ lines, path }) => [lines, path] as const)

  it('have at most 80 lines in the median and 350 at most', () => {
    const median = lengths.map(([lines]) => lines).sort((a, b) => a - b)[Math.floor(lengths.length / 2)]
    expect(median).toBeLessThanOrEqual(80)
    expect(table(lengths.filter(([lines]) => lines > 350))).toEqual([])
  })

  it('are at most 20 in a folder', () => {
    const counts = folders.map((folder) => {
      const own = readdirSync(join(root, folder), { withFileTypes: true }).filter((entry) => entry.isFile())
      return [own.length, folder] as const
    })
    expect(table(counts.filter(([count]) => count > 20))).toEqual([])
  })
})

describe('functions', () => {
  const sizes = inServer.flatMap(functionsOf).map(({ lines, where }) => [lines, where] as const)

  it('of the server have 150 lines at most, and at most 12 of them more than 60', () => {
    const long = table(sizes.filter(([lines]) => lines > 60))
    expect(long.slice(0, Math.max(0, long.length - 12))).toEqual([])
    expect(table(sizes.filter(([lines]) => lines > 150))).toEqual([])
  })
})

describe('dependency types', () => {
  it('have at most 10 members', () => {
    const large = dependencyTypes(files).filter(({ members }) => members > 10)
    expect(table(large.map(({ members, where }) => [members, where] as const))).toEqual([])
  })
})

describe('the measures', () => {
  const source = (path: string, ...lines: string[]) => readSource(path, `${lines.join('\n')}\n`)

  it('find a cycle between files and between folders, through types too', () => {
    const a = source('a/b/one.ts', "import type { Two } from '../c/two.ts'", 'export type One = Two')
    const b = source('a/c/two.ts', "export * from './three.ts'", 'export type Two = 2')
    const c = source('a/c/three.ts', "export const one = () => import('../b/one.ts')")
    expect(findCycle(fileGraph([a, b, c]))).toEqual(['a/b/one.ts', 'a/c/two.ts', 'a/c/three.ts', 'a/b/one.ts'])
    expect(findCycle(folderGraph([a, b, c], 'a'))).toEqual(['b', 'c', 'b'])
    expect(findCycle(folderGraph([a, b], 'a'))).toBeUndefined()
  })

  it('count all lines of a function, with those of the functions within it', () => {
    const file = source('a.ts', 'export const outer = () => {', '  return {', '    inner() {', '    },', '  }', '}')
    expect(functionsOf(file)).toEqual([
      { where: 'a.ts:1 outer', lines: 6 },
      { where: 'a.ts:3 inner', lines: 2 },
    ])
  })

  it('count the members of what functions are handed, through imports', () => {
    const base = source('base.ts', 'export interface Base { a: 1; b(): void; c?: 3 }')
    const files = [
      base,
      source('one.ts', "import type { Base } from './base.ts'", 'interface OneOptions extends Base { d: 4 }'),
      source('two.ts', "import type { Base as B } from './base.ts'", "type TwoParts = Pick<B, 'a' | 'b'> & { e: 5 }"),
      source('three.ts', 'function three({ a }: { a: 1; b: 2 }) {}'),
      source('four.ts', "import type { Base } from './base.ts'", 'export const createFour = ({ a }: Base) => a'),
    ]
    expect(dependencyTypes(files).map(({ members, where }) => `${members} ${where}`)).toEqual([
      '4 one.ts:2 OneOptions',
      '3 two.ts:2 TwoParts',
      '2 three.ts:1 ({ a: 1; b: 2 }) of three',
      '3 four.ts:2 (Base) of createFour',
    ])
  })
})
