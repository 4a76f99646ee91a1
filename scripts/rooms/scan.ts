import { posix } from 'node:path'

/** One import of a file: a statement, a re-export, `import()` for a value or a type, or a load through `require`. */
export interface Import {
  /** As it is written: `../jobs.ts`, `node:fs`, `zod`. */
  readonly specifier: string
  /** The file that a relative specifier means, from the top of the repository; undefined for a package. */
  readonly path: string | undefined
  readonly line: number
  /** The text between `import` or `export` and `from`; undefined for an import that is a call. */
  readonly clause: string | undefined
  /** The function that loads it; undefined for a statement. */
  readonly call: string | undefined
}

export interface SourceFile {
  /** From the top of the repository, with `/`. */
  readonly path: string
  /** The text with blank comments and strings. */
  readonly code: string
  readonly imports: readonly Import[]
  /** The comments, strings and parts of templates, in their order. Consecutive `//` comments are one text. */
  readonly texts: readonly Text[]
}

/** A text for readers, or a string that programs read. */
export interface Text {
  /** With its marks, such as `//` and quotation marks. */
  readonly text: string
  readonly offset: number
}

/**
 * After a name, a number or a bracket that closes, `/` divides; elsewhere it begins a regular expression. Each pattern
 * begins with a letter or sign, and looks back only then.
 */
const expression = /\/(?<=(?:^|[(,=:[!&|?{};>]|\breturn)\s*\/)(?![*/>])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^\\/[\n])+\//
const token = new RegExp(
  [
    /\/\/[^\n]*/,
    /\/\*[\s\S]*?\*\//,
    /'(?:\\[\s\S]|[^'\\\n])*'/,
    /"(?:\\[\s\S]|[^"\\\n])*"/,
    /[`{}]/,
    expression,
    /(?:im|ex)port(?<![.$\w].{6})(?![$\w])/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)
/** The rest of a template, up to its end or to an expression in it. */
const template = /(?:\\[\s\S]|\$(?!\{)|[^`\\$])*(`|\$\{)/y

/** The last piece of code before an import; a blank after a comment. */
const mayImport = /(?:from|import|\(|^)\s*$/
const afterFrom = /(?:^|[^.$\w])from\s*$/
const afterCall = /(?<![$\w])(import|require|getBuiltinModule|createRequire\([^()]*\))\s*\(\s*$/

/**
 * Finds the imports of a file. It knows only comments, strings, templates and regular expressions, because a full
 * parser would take longer than all of the rules.
 */
export function scan(path: string, text: string): SourceFile {
  const imports: Import[] = []
  const code: string[] = []
  const texts: { text: string; readonly offset: number }[] = []
  let done = 0
  /** The position in `code` at which the clause of the last `import` or `export` begins. */
  let clauseStart: number | undefined
  let line = 1
  let counted = 0
  /** For each template around this place: how many braces are open in its expression. */
  const braces: number[] = []

  const append = (until: number, replacement?: string) => {
    if (replacement !== undefined || until > done) code.push(replacement ?? text.slice(done, until))
    done = until
  }
  const addText = (offset: number, end: number) => {
    const added = text.slice(offset, end)
    const last = texts.at(-1)
    const gap = last === undefined ? '' : text.slice(last.offset + last.text.length, offset)
    if (last?.text.startsWith('//') && added.startsWith('//') && /^\n[ \t]*$/.test(gap)) last.text += gap + added
    else texts.push({ text: added, offset })
  }
  const lineAt = (offset: number): number => {
    for (let at = text.indexOf('\n', counted); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) {
      line += 1
      counted = at + 1
    }
    return line
  }
  const addString = (specifier: string, offset: number) => {
    if (!mayImport.test(code.at(-1) ?? '')) return
    const tail = code.slice(-8).join('')
    const call = afterCall.exec(tail)?.[1]
    const clause = clauseStart === undefined ? undefined : code.slice(clauseStart).join('').trim()
    const isStatement = clause !== undefined && (clause === '' || afterFrom.test(tail))
    if (call === undefined && !isStatement) return
    const target = /^\.\.?(?:\/|$)/.test(specifier) ? posix.join(posix.dirname(path), specifier) : undefined
    const kind = call === undefined ? { clause, call } : { clause: undefined, call: callOf(tail, call) }
    imports.push({ specifier, path: target, line: lineAt(offset), ...kind })
    clauseStart = undefined
  }
  /** Reads a template from `at`, and returns where its text ends. */
  const readTemplate = (at: number): number => {
    template.lastIndex = at
    const found = template.exec(text)
    if (found === null) throw new Error(`${path}:${lineAt(at)} has a template without an end: close it.`)
    if (found[1] === '${') braces.push(0)
    return template.lastIndex
  }

  token.lastIndex = 0
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    const [all] = found
    const end = found.index + all.length
    const open = braces.at(-1)
    append(found.index)
    if (all.startsWith('//') || all.startsWith('/*')) {
      addText(found.index, end)
      append(end, ' ')
    } else if (all === 'import' || all === 'export') {
      append(end)
      clauseStart = code.length
    } else if (all === '`' || (all === '}' && open === 0)) {
      if (all === '}') braces.pop()
      const next = readTemplate(end)
      if (all === '`' && text[next - 1] === '`') addString(text.slice(end, next - 1), found.index)
      addText(found.index, next)
      append(next, '``')
      token.lastIndex = next
    } else if (all === '{' || all === '}') {
      if (open !== undefined) braces[braces.length - 1] = open + (all === '{' ? 1 : -1)
      append(end)
    } else if (all.startsWith('/')) append(end, '/ /')
    else {
      addString(all.slice(1, -1), found.index)
      addText(found.index, end)
      append(end, "''")
    }
  }
  append(text.length)
  if (braces.length > 0) throw new Error(`${path} has a template without an end: close it.`)
  return { path, code: code.join(''), imports, texts }
}

/** `typeof import()` loads nothing, so it counts as a type. */
const callOf = (before: string, call: string): string =>
  call === 'import' && /\btypeof\s+import\s*\(\s*$/.test(before) ? 'typeof import' : call
