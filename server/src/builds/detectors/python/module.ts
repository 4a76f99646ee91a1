/** The names of a Python module, as far as its text tells of them without being run. */
export interface Module {
  /** The text without comments; texts in triple quotes, such as documentation, are empty. */
  readonly code: string
  /** Imported names: `app` → `shop.main.app`, `np` → `numpy`. A relative import keeps its dots: `.main.app`. */
  readonly imports: ReadonlyMap<string, string>
  /** Modules whose every name is imported: `from flask import *`. */
  readonly stars: readonly string[]
  /** Names that are set at the top level by a call, with the names of all functions that were called: `app` → `['Flask']`. */
  readonly calls: ReadonlyMap<string, readonly string[]>
  /** Names that are set at the top level to another name: `server` → `app.server`. */
  readonly aliases: ReadonlyMap<string, string>
  readonly functions: ReadonlyMap<string, PythonFunction>
}

export interface PythonFunction {
  readonly isAsync: boolean
  readonly parameters: readonly string[]
  readonly body: string
}

/** Longer texts are no modules that people write; the expressions below take time in proportion to the text. */
const longest = 256 * 1024

/** Each name of a module may come from any of them. */
const mostStars = 10

/** Reads the text of a module. Never throws; a text that is no Python gives few names or none. */
export function readModule(text: string): Module {
  const code = codeOf(text.slice(0, longest))
  return { code, ...importsOf(code), ...assignmentsOf(code), functions: functionsOf(code) }
}

/** Returns the text without comments and without the content of texts in triple quotes. */
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

/** Returns the lines up to the first that begins a statement at the top level. */
function untilDedent(text: string): string {
  const end = /\n(?=[A-Za-z_@])/.exec(text)?.index
  return end === undefined ? text : text.slice(0, end)
}

/** Resolves a dotted name by the imports: `web.Application` → `aiohttp.web.Application`. Several with star imports. */
export function qualify(module: Module, dotted: string): readonly string[] {
  const [first = '', ...rest] = dotted.split('.')
  const imported = module.imports.get(first)
  if (imported !== undefined) return [[imported, ...rest].join('.')]
  return module.stars.map((star) => `${star}.${dotted}`)
}
