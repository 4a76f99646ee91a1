/* The build constraints of Go: https://pkg.go.dev/cmd/go#hdr-Build_constraints, and `go/build` for the names of files. */

/** Returns the package of a file that `go build` compiles on this machine; null for other files. `minor` is the minor version of Go 1. */
export function builtPackage(path: string, text: string, minor = Number.POSITIVE_INFINITY): string | null {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (!name.endsWith('.go') || name.endsWith('_test.go') || /^[._]/.test(name)) return null
  const holds = tagsOf(minor)
  if (!fitsName(name.slice(0, name.indexOf('.')), holds)) return null
  const { header, clause } = headOf(text)
  return clause !== null && fitsHeader(header, holds) ? clause : null
}

/** Returns a function that tells whether a tag holds where the server builds. */
function tagsOf(minor: number): (tag: string) => boolean {
  const fixed = new Set(['linux', 'unix', 'gc', 'cgo', architectures[process.arch] ?? process.arch])
  return (tag) => {
    const release = /^go1\.(\d{1,9})$/.exec(tag)?.[1]
    return release === undefined ? fixed.has(tag) : Number(release) <= minor
  }
}

/** Go's names of architectures, by Node's. */
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386', ppc64: 'ppc64le' }

const systems = new Set(
  'aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos'.split(
    ' ',
  ),
)
const processors = new Set(
  (
    '386 amd64 amd64p32 arm armbe arm64 arm64be loong64 mips mipsle mips64 mips64le mips64p32 mips64p32le ppc ppc64 ppc64le ' +
    'riscv riscv64 s390 s390x sparc sparc64 wasm'
  ).split(' '),
)

/** Reads `name_windows`, `name_arm64` and `name_linux_amd64`; what comes before the first `_` counts for nothing. */
function fitsName(name: string, holds: (tag: string) => boolean): boolean {
  const [system = '', processor = ''] = name.split('_').slice(1).slice(-2)
  if (systems.has(system) && processors.has(processor)) return holds(system) && holds(processor)
  const last = name.split('_').slice(1).at(-1) ?? ''
  return systems.has(last) || processors.has(last) ? holds(last) : true
}

/** Returns the lines before the package clause, without comments of several lines, and the name in it. */
function headOf(text: string): { readonly header: readonly string[]; readonly clause: string | null } {
  const header: string[] = []
  let isComment = false
  for (const line of text.split('\n')) {
    let rest = line.trim()
    if (!isComment && rest.startsWith('//')) {
      header.push(rest)
      continue
    }
    while (isComment || rest.startsWith('/*')) {
      const end = rest.indexOf('*/', isComment ? 0 : 2)
      isComment = end === -1
      if (isComment) break
      rest = rest.slice(end + 2).trim()
    }
    if (isComment) continue
    if (rest === '' || rest.startsWith('//')) header.push('')
    else return { header, clause: /^package\s+([\p{L}_][\p{L}\p{N}_]*)/u.exec(rest)?.[1] ?? null }
  }
  return { header, clause: null }
}

/** One `//go:build` decides; without one, all lines of `// +build` count that a blank line follows. */
function fitsHeader(header: readonly string[], holds: (tag: string) => boolean): boolean {
  const expression = header.map((line) => /^\/\/go:build\s+(.*)$/.exec(line)?.[1]).find((found) => found !== undefined)
  if (expression !== undefined) return evaluate(expression, holds)
  return header
    .slice(0, header.lastIndexOf('') + 1)
    .flatMap((line) => /^\/\/\s*\+build\s+(.*)$/.exec(line)?.[1] ?? [])
    .every((alternatives) =>
      alternatives
        .trim()
        .split(/\s+/)
        .some((terms) => terms.split(',').every(fitsTerm)),
    )
  function fitsTerm(term: string): boolean {
    return term.startsWith('!') ? !holds(term.slice(1)) : holds(term)
  }
}

/** No file needs a longer one, and a parser that goes into each parenthesis does not run out of stack. */
const longestExpression = 2_000

/** Evaluates `linux && (amd64 || !cgo)`. One that cannot be read holds: Go says what is wrong with it. */
function evaluate(expression: string, holds: (tag: string) => boolean): boolean {
  const code = expression.replace(/\s\/\/.*$/, '')
  if (code.length > longestExpression) return true
  const tokens = code.match(/&&|\|\||[!()]|[\p{L}\p{N}_.]+|\S/gu) ?? []
  let at = 0
  let isRead = true
  const either = (): boolean => {
    let value = both()
    while (tokens[at] === '||') {
      at += 1
      value = both() || value
    }
    return value
  }
  const both = (): boolean => {
    let value = one()
    while (tokens[at] === '&&') {
      at += 1
      value = one() && value
    }
    return value
  }
  const one = (): boolean => {
    const token = tokens[at++] ?? ''
    if (token === '!') return !one()
    if (token === '(') {
      const value = either()
      isRead &&= tokens[at++] === ')'
      return value
    }
    isRead &&= /^[\p{L}\p{N}_.]+$/u.test(token)
    return holds(token)
  }
  const value = either()
  return !isRead || at !== tokens.length || value
}
