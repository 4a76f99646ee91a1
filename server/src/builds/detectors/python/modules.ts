import type { SourceTree } from '../../source/tree.ts'
import { type Module, readModule } from './module.ts'

/** The Python modules of an app, read when they are asked for. */
export interface Modules {
  /** The paths of all modules that may be read, from the app's folder. */
  readonly paths: readonly string[]
  at(path: string): Module | undefined
  /**
   * Finds where a qualified name comes from: `shop.main.app` → the file of `shop.main` and `app`.
   *
   * @param from the file that imports it, which relative imports count from
   */
  locate(from: string, qualified: string): { readonly file: string; readonly name: string } | undefined
}

export function modulesOf(app: SourceTree): Modules {
  const cache = new Map<string, Module | undefined>()
  const paths = pathsBelow(app, '.', 3)
  const at = (path: string): Module | undefined => {
    if (!cache.has(path)) {
      const text = app.has(path) ? app.read(path) : undefined
      cache.set(path, text === undefined ? undefined : readModule(text))
    }
    return cache.get(path)
  }
  return { paths, at, locate: (from, qualified) => locate(app, from, qualified) }
}

/** Lists the modules in a folder and those below it. */
function pathsBelow(app: SourceTree, folder: string, levels: number): string[] {
  const names = app.list(folder).map((name) => (folder === '.' ? name : `${folder}/${name}`))
  const below = levels === 0 ? [] : names.filter((name) => !name.endsWith('.py') && !name.startsWith('.'))
  return [
    ...names.filter((name) => name.endsWith('.py')),
    ...below.flatMap((each) => pathsBelow(app, each, levels - 1)),
  ]
}

function locate(app: SourceTree, from: string, qualified: string): ReturnType<Modules['locate']> {
  const [, dots = '', dotted = ''] = /^(\.*)(.*)$/.exec(qualified) ?? []
  const parts = dotted.split('.')
  const name = parts.pop()
  if (name === undefined || name === '') return undefined
  const folder = folderOf(from)
  const roots = dots === '' ? ['', 'src/', folder] : [above(folder, dots.length - 1)]
  for (const root of roots) {
    if (root === undefined) continue
    const path = root + parts.join('/')
    const files = parts.length === 0 ? [`${root}__init__.py`] : [`${path}.py`, `${path}/__init__.py`]
    const file = files.find((each) => each !== from && app.has(each))
    if (file !== undefined) return { file, name }
  }
  return undefined
}

/** The folder of a file, with a slash at the end; empty for the top. */
export const folderOf = (file: string): string => file.slice(0, file.lastIndexOf('/') + 1)

function above(folder: string, levels: number): string | undefined {
  let at = folder
  for (let level = 0; level < levels; level += 1) {
    if (at === '') return undefined
    at = folderOf(at.slice(0, -1))
  }
  return at
}

/**
 * The name by which a server imports a file, and the folder that has to be on the module path for it. A file in a folder
 * is a module of a package where the folder is one, or where its imports count from above it.
 */
export function importNameOf(modules: Modules, file: string): { readonly module: string; readonly folder: string } {
  const steps = file.replace(/(?:\/__init__)?\.py$/, '').split('/')
  if (file === '__init__.py') return { module: '__init__', folder: '' }
  const packages = packageDepth(modules, file)
  const folders = steps.length - 1 - packages
  return { module: steps.slice(folders).join('.'), folder: steps.slice(0, folders).join('/') }
}

/** Counts the folders above a file that belong to the name of its module. */
function packageDepth(modules: Modules, file: string): number {
  const isInit = file.endsWith('/__init__.py')
  const folders = folderOf(isInit ? folderOf(file).slice(0, -1) : file)
    .split('/')
    .filter(Boolean)
  let depth = 0
  for (let index = folders.length - 1; index >= 0; index -= 1) {
    const folder = folders.slice(0, index + 1).join('/')
    const isPackage = modules.paths.includes(`${folder}/__init__.py`)
    if (!isPackage && !importsItsPackage(modules, file, folders, index)) break
    depth += 1
  }
  return depth
}

function importsItsPackage(modules: Modules, file: string, folders: readonly string[], index: number): boolean {
  const code = modules.at(file)?.code ?? ''
  const [name] = folders.slice(index)
  const relative = index === folders.length - 1 && /^[ \t]*from[ \t]+\./m.test(code)
  return relative || (name !== undefined && new RegExp(`^[ \\t]*(?:from|import)[ \\t]+${name}\\b`, 'm').test(code))
}
