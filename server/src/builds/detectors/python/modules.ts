import type { SourceTree } from '../../tree.ts'

/** The names of a module, as its text shows them without running it. */
export interface Module {
  /** The text without comments; strings in triple quotes are empty. */
  readonly code: string
  /** Imported names: `app` → `shop.main.app`, `np` → `numpy`. A relative import keeps its dots: `.main.app`. */
  readonly imports: ReadonlyMap<string, string>
  /** Modules whose every name is imported, as in `from flask import *`. */
  readonly stars: readonly string[]
  /** Top-level names set by a call, with all called functions: `app` → `['Flask']`. */
  readonly calls: ReadonlyMap<string, readonly string[]>
  /** Top-level names set to another name: `server` → `app.server`. */
  readonly aliases: ReadonlyMap<string, string>
  readonly functions: ReadonlyMap<string, PythonFunction>
}

export interface PythonFunction {
  readonly isAsync: boolean
  readonly parameters: readonly string[]
  readonly body: string
}

/** Longer than modules that people write. The time of the expressions below grows with the text. */
const longest = 256 * 1024

/** A limit on star imports, because each name of a module may come from any of them. */
const mostStars = 10

/** Reads the text of a module. Never throws; a text other than Python gives few or no names. */
function readModule(text: string): Module {
  const code = codeOf(text.slice(0, longest))
  return { code, ...importsOf(code), ...assignmentsOf(code), functions: functionsOf(code) }
}

/** Returns the text without comments and without the content of triple-quoted strings. */
export function codeOf(text: string): string {
  return text
    .replace(/^\uFEFF/, '')
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(
      /("""|''')(?:\\[\s\S]?|(?!\1)[^\\])*(?:\1|$)|"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?|#[^\n]*/g,
      (part, triple) => (triple !== undefined ? "''" : part.startsWith('#') ? '' : part),
    )
}

function importsOf(code: string): Pick<Module, 'imports' | 'stars'> {
  const imports = new Map<string, string>()
  const stars: string[] = []
  for (const [, from, plain = '', listed = plain] of code.matchAll(
    /^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+)?import[ \t]+(?:\(([^()]{0,4000})\)|([^\n;]*))/gm,
  )) {
    for (const item of (listed === '' ? plain : listed).split(',')) {
      const [, name, alias] = /^\s*([\w.]+|\*)(?:\s+as\s+(\w+))?\s*$/.exec(item) ?? []
      if (name === undefined) continue
      if (from === undefined) {
        const [top = ''] = name.split('.')
        imports.set(alias ?? top, alias === undefined ? top : name)
      } else if (name === '*') {
        if (stars.length < mostStars) stars.push(from)
      } else imports.set(alias ?? name, `${from}${from.endsWith('.') ? '' : '.'}${name}`)
    }
  }
  return { imports, stars }
}

function assignmentsOf(code: string): Pick<Module, 'calls' | 'aliases'> {
  const calls = new Map<string, string[]>()
  const aliases = new Map<string, string>()
  for (const [, name = '', value = '', opening] of code.matchAll(
    /^([A-Za-z_]\w*)[ \t]*(?::[^=\n]*)?=[ \t]*([A-Za-z_][\w.]*)[ \t]*(\(|$)/gm,
  )) {
    if (opening === '(') {
      const known = calls.get(name)
      if (known === undefined) calls.set(name, [value])
      else if (known.length < 10) known.push(value)
    } else aliases.set(name, value)
  }
  return { calls, aliases }
}

function functionsOf(code: string): Module['functions'] {
  const functions = new Map<string, PythonFunction>()
  const starts = [...code.matchAll(/^(async[ \t]+)?def[ \t]+(\w+)[ \t]*\(([^()]{0,4000})/gm)]
  for (const [index, { 0: head, 1: isAsync, 2: name = '', 3: parameters = '', index: at }] of starts.entries()) {
    const body = code.slice(at + head.length, starts[index + 1]?.index)
    functions.set(name, {
      isAsync: isAsync !== undefined,
      parameters: parameters.split(',').flatMap((parameter) => parameter.trim() || []),
      body: untilDedent(body),
    })
  }
  return functions
}

function untilDedent(text: string): string {
  const end = /\n(?=[A-Za-z_@])/.exec(text)?.index
  return end === undefined ? text : text.slice(0, end)
}

/**
 * Resolves a dotted name by the imports: `web.Application` → `aiohttp.web.Application`. Star imports give several
 * results.
 */
export function qualify(module: Module, dotted: string): readonly string[] {
  const [first = '', ...rest] = dotted.split('.')
  const imported = module.imports.get(first)
  if (imported !== undefined) return [[imported, ...rest].join('.')]
  return module.stars.map((star) => `${star}.${dotted}`)
}

export interface Modules {
  /** The paths of all readable modules, relative to the app's folder. */
  readonly paths: readonly string[]
  at(path: string): Module | undefined
  /**
   * Finds the source of a qualified name: `shop.main.app` → the file of `shop.main` and `app`.
   *
   * @param from the importing file, which relative imports start from
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

/** Returns the folder of a file with a trailing slash; empty for the top. */
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
 * Returns the name by which a server imports a file, and the folder that must be on the module path. A file in a folder
 * is a module of a package if the folder is a package, or if its imports start above the folder.
 */
export function importNameOf(modules: Modules, file: string): { readonly module: string; readonly folder: string } {
  const steps = file.replace(/(?:\/__init__)?\.py$/, '').split('/')
  if (file === '__init__.py') return { module: '__init__', folder: '' }
  const packages = packageDepth(modules, file)
  const folders = steps.length - 1 - packages
  return { module: steps.slice(folders).join('.'), folder: steps.slice(0, folders).join('/') }
}

/** Counts the parent folders that are part of the module's name. */
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
