import { posix } from 'node:path'
import { unreadable } from '../result.ts'
import { toolVersion, versionIn } from '../version-files.ts'
import type { Detector, DetectorSource } from './detector.ts'
import { ownersProgram } from './procfile.ts'
import { debianTool, noteVersion, noteVersionFiles, refuseVersion } from './tools.ts'

interface Main {
  /** The path in the form for `go build`. */
  readonly path: string
  readonly name: string
}

const env = {
  // Another user owns the git repository, so Go cannot read its version.
  GOFLAGS: '-buildvcs=false -modcacherw',
  GOTOOLCHAIN: 'local',
  GIN_MODE: 'release',
}

/** Usual names of the server among several programs. */
const SERVERS = ['server', 'web', 'api', 'app', 'main', 'http']

/** Programs are built into `bin/`, or to the path in a Procfile. */
export const go: Detector = {
  name: 'go',
  recognises: 'a go.mod with a main package at the top or in cmd/',
  files: ['go.mod', 'main.go', '*.go', 'cmd/main.go', 'cmd/*/main.go', '*/main.go', '.tool-versions', '.go-version'],
  tools: [debianTool('Go', 'go', 'golang', { args: ['version'], pattern: /go(\d+\.\d+(?:\.\d+)?)/ })],
  caches: { GOCACHE: 'go-build', GOMODCACHE: 'go-mod' },
  detect(source) {
    const { app } = source
    if (!app.has('go.mod')) return null
    const text = app.read('go.mod')
    if (text === undefined) return unreadable('go.mod')
    const mains = findMains(source, text)
    const main = chooseMain(mains, moduleName(text))
    const target = main === undefined ? undefined : targetOf(main)
    return {
      ok: true,
      value: {
        start: target === undefined ? null : { argv: [target], env },
        advice: adviceOf(mains),
        uses: ['node', 'go'],
        env,
        notes: notesOf(source, main),
        install: () => refuseGo(source, text) ?? { ok: true, value: [] },
        build: planBuild(source, mains, main).map((words) => ({ argv: ['go', 'build', '-o', ...words], env })),
      },
    }
  },
}

const targetOf = ({ name }: Main): string => `bin/${name}`

/** Plans all programs for an owner's command, which may run any of them; otherwise only one program. */
function planBuild(source: DetectorSource, mains: readonly Main[], main: Main | undefined): string[][] {
  const word = ownersProgram(source)
  if (word === undefined) return main === undefined ? [] : [[targetOf(main), main.path]]
  const named = posix.normalize(word)
  const name = posix.basename(named)
  const only = mains.length === 1 ? mains[0] : undefined
  const meant = mains.find((each) => each.name === name) ?? only
  const isPath = meant !== undefined && word.includes('/') && /^\w[\w./-]*$/.test(named) && !source.app.has(named)
  const others = mains.filter((each) => !(isPath && each === meant)).map((each) => [targetOf(each), each.path])
  return isPath ? [[named, meant.path], ...others] : others
}

function findMains({ app, versions }: DetectorSource, goMod: string): Main[] {
  const minor = /^1\.(\d+)/.exec(versions.get('go') ?? '')?.[1]
  const isMain = (path: string) =>
    builtPackage(path, app.read(path) ?? '', minor === undefined ? undefined : Number(minor)) === 'main'
  const top = app.list('.').filter((name) => name.endsWith('.go'))
  const module = moduleName(goMod)
  const commands = app.list('cmd').filter((name) => isMain(`cmd/${name}/main.go`))
  const found = [
    ...(top.some(isMain) ? [{ path: '.', name: module }] : []),
    ...(isMain('cmd/main.go') ? [{ path: './cmd', name: module }] : []),
    ...commands.filter(isName).map((name) => ({ path: `./cmd/${name}`, name })),
  ]
  if (found.length > 0) return found
  const folders = app.list('.').filter((name) => isName(name) && isMain(`${name}/main.go`))
  return folders.map((name) => ({ path: `./${name}`, name }))
}

function chooseMain(mains: readonly Main[], module: string): Main | undefined {
  if (mains.length <= 1 || mains[0]?.path === '.') return mains[0]
  const wanted = [module, ...SERVERS]
  return wanted.map((name) => mains.find((each) => each.name === name)).find((each) => each !== undefined)
}

/** Returns the name that `go build` gives to the program: the last part of the module path, except a version. */
function moduleName(goMod: string): string {
  const [, path = ''] = /^[ \t]*module[ \t]+"?([^\s"]+)/m.exec(goMod) ?? []
  const name =
    path
      .replace(/\/v\d+$/, '')
      .split('/')
      .at(-1) ?? ''
  return isName(name) ? name : 'app'
}

const isName = (name: string): boolean => /^[A-Za-z0-9_][\w.-]*$/.test(name)

function adviceOf(mains: readonly Main[]): string {
  if (mains.length === 0)
    return 'go.mod is there, but no "package main" at the top or in cmd/: name the program in fairlead.json.'
  const names = mains.slice(0, 10).map(({ name }) => name)
  return `There are several programs (${names.join(', ')}): add a Procfile with a line such as "web: bin/${names[0]}".`
}

const askedIn = (goMod: string): string | undefined => /^[ \t]*go[ \t]+(\d+\.\d+(?:\.\d+)?)/m.exec(goMod)?.[1]

/** From 1.21 on, Go refuses a `go` line newer than itself; earlier versions refuse three numbers. */
function refuseGo({ versions }: DetectorSource, goMod: string) {
  const text = askedIn(goMod)
  const there = versions.get('go')
  if (text === undefined || there === undefined) return null
  const isOld = Number(there.split('.')[1]) < 21 && there.startsWith('1.')
  if (isOld && text.split('.').length < 3) return null
  return refuseVersion({ language: 'Go', program: 'go', from: 'go.mod', text, range: `>=${text}` }, versions)
}

function notesOf({ app, versions }: DetectorSource, main: Main | undefined): string[] {
  const asked = askedIn(app.read('go.mod') ?? '')
  const others = [
    { from: '.tool-versions', text: toolVersion(app, 'golang', 'go') },
    { from: '.go-version', text: versionIn(app, '.go-version') },
  ]
  const common = { language: 'Go', program: 'go' }
  return [
    ...(main === undefined ? [] : [`Go: the package ${main.path} becomes ${targetOf(main)}.`]),
    ...(asked === undefined
      ? []
      : noteVersion({ ...common, from: 'go.mod', text: asked, range: `>=${asked}` }, versions)),
    ...noteVersionFiles(common, others, versions),
  ]
}

/* The build constraints of Go: https://pkg.go.dev/cmd/go#hdr-Build_constraints, and `go/build` for the names of files. */

/**
 * Returns the package of a file that `go build` compiles here; null for other files.
 *
 * @param minor the minor version of Go 1
 */
function builtPackage(path: string, text: string, minor = Number.POSITIVE_INFINITY): string | null {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (!name.endsWith('.go') || name.endsWith('_test.go') || /^[._]/.test(name)) return null
  const holds = tagsOf(minor)
  if (!fitsName(name.slice(0, name.indexOf('.')), holds)) return null
  const { header, clause } = headOf(text)
  return clause !== null && fitsHeader(header, holds) ? clause : null
}

function tagsOf(minor: number): (tag: string) => boolean {
  const fixed = new Set(['linux', 'unix', 'gc', 'cgo', architectures[process.arch] ?? process.arch])
  return (tag) => {
    const release = /^go1\.(\d{1,9})$/.exec(tag)?.[1]
    return release === undefined ? fixed.has(tag) : Number(release) <= minor
  }
}

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

/**
 * Checks file names such as `name_windows`, `name_arm64` and `name_linux_amd64`. The part before the first `_` does not
 * count.
 */
function fitsName(name: string, holds: (tag: string) => boolean): boolean {
  const [system = '', processor = ''] = name.split('_').slice(1).slice(-2)
  if (systems.has(system) && processors.has(processor)) return holds(system) && holds(processor)
  const last = name.split('_').slice(1).at(-1) ?? ''
  return systems.has(last) || processors.has(last) ? holds(last) : true
}

/** Returns the lines before the package clause, without comments of several lines, and its name. */
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

/** A `//go:build` line decides; without it, all `// +build` lines with a blank line after them count. */
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

/** No file needs more. The limit protects the recursive parser from a stack overflow. */
const longestExpression = 2_000

/**
 * Evaluates an expression such as `linux && (amd64 || !cgo)`. An invalid expression counts as true: Go reports the
 * error.
 */
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
