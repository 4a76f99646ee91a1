import { isBuiltin } from 'node:module'
import { posix } from 'node:path'
import type { Import, SourceFile } from './scan.ts'
import { dashboardRooms, innerRooms, packages, programs, type Room, serverRooms } from './table.ts'

/*
 * The rules on imports, on what the server takes from Node and from the queue of jobs, and on how the dashboard writes.
 * Each rule returns a sentence for each violation, which says where it is and what to do instead.
 */

export const violationsOf = (files: readonly SourceFile[]): string[] => [
  ...cycles(files),
  ...missingFiles(files),
  ...unknownFolders(files),
  ...files.flatMap((file) => [
    ...forbiddenImports(file),
    ...readsOfEnvironment(file),
    ...startsOfProcesses(file),
    ...signalsToProcesses(file),
    ...importsOfHttp(file),
    ...privateTables(file),
    ...detoursInDashboard(file),
  ]),
]

/** Type imports count too: a cycle of types is one subject in several files. */
export function cycles(files: readonly SourceFile[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const isDone = new Map<string, boolean>()
  const way: string[] = []
  const found: string[] = []
  const visit = (path: string) => {
    if (isDone.get(path) === false) {
      const names = [...way.slice(way.indexOf(path)), path]
      found.push(`${names.join(' imports ')}: move what both need into one file that imports none of them.`)
    }
    const file = byPath.get(path)
    if (isDone.has(path) || file === undefined) return
    isDone.set(path, false)
    way.push(path)
    for (const { path: next } of file.imports) if (next !== undefined) visit(next)
    way.pop()
    isDone.set(path, true)
  }
  for (const { path } of files) visit(path)
  return found
}

export function missingFiles(files: readonly SourceFile[]): string[] {
  const known = new Set(files.map(({ path }) => path))
  return eachImport(files, (each, file) =>
    each.path !== undefined && /\.tsx?$/.test(each.path) && !known.has(each.path)
      ? `${where(file, each)}, which does not exist: correct the path.`
      : undefined,
  )
}

/** The table must know all folders of the server that have siblings, and no others. */
export function unknownFolders(files: readonly SourceFile[]): string[] {
  const folders = new Set(
    files.map(({ path }) => posix.dirname(path)).filter((folder) => folder.startsWith(`${server}/`)),
  )
  const known = [...serverRooms, ...innerRooms].map(({ path }) => `${server}/${path}`)
  const isAlone = (folder: string) =>
    [...folders].filter((each) => posix.dirname(each) === posix.dirname(folder)).length === 1
  const isProgram = (folder: string) => programs.some(({ paths }) => isIn(folder, paths.map(inServer)) !== undefined)
  return [
    ...[...folders]
      .filter((folder) => !known.includes(folder) && !isProgram(folder) && !isAlone(folder))
      .map((folder) => `${folder} is not in scripts/rooms/table.ts: add it with the siblings that it may import.`),
    ...known
      .filter((room) => ![...folders].some((folder) => isIn(folder, [room]) !== undefined))
      .map((room) => `${room} is in scripts/rooms/table.ts and has no files: remove it from the table.`),
  ]
}

/** The imports that the table forbids. */
export const forbiddenImports = (file: SourceFile): string[] =>
  eachImport([file], (each) => {
    const reason = forbiddenBy(file.path, each)
    return reason === undefined ? undefined : `${where(file, each)}: ${reason}.`
  })

function forbiddenBy(path: string, imported: Import): string | undefined {
  const owner = packages.find(({ folder }) => isIn(path, [folder]) !== undefined)
  if (owner === undefined) return undefined
  const { path: target } = imported
  const name = nameOf(imported)
  if (target === undefined) {
    const isOurs = name.startsWith('@fairlead/')
    const isForbidden = isOurs ? !matches(name, owner.ours) : matches(name, owner.forbiddenPackages ?? [])
    if (isForbidden) return owner.advice
  } else if (isIn(target, [owner.folder, ...owner.files]) === undefined) return owner.advice
  const house = houses.find(({ folder }) => folder === owner.folder)
  return house && (forbiddenByProgram(path, target) ?? forbiddenByRoom(path, target, name, house))
}

function forbiddenByProgram(path: string, target: string | undefined): string | undefined {
  if (target === undefined) return undefined
  for (const { paths, forbidden } of programs) {
    const program = isIn(path, paths.map(inServer))
    const reached = isIn(target, forbidden.map(inServer))
    if (program !== undefined && reached !== undefined) {
      return `${shortOf(program)} may not import ${shortOf(reached)}, so pass in what it needs or move it down`
    }
  }
  return undefined
}

/** The rooms of the server are siblings, also a feature in its folder; other rooms have the siblings of their folder. */
const floorOf = (path: string): string =>
  serverRooms.some((room) => room.path === path) ? server : posix.dirname(path)

function forbiddenByRoom(
  path: string,
  target: string | undefined,
  name: string,
  { folder, rooms }: (typeof houses)[number],
): string | undefined {
  const within = (room: Room, file: string) => isIn(file, [`${folder}/${room.path}`]) !== undefined
  /** A file in a room within a room follows the rules of both. */
  for (const room of rooms.filter((each) => within(each, path))) {
    if (target === undefined) {
      if (matches(name, room.forbiddenPackages ?? []))
        return `${room.path} may not use this package, so use it in a room above`
      continue
    }
    if (folder === server && isIn(target, aboveRooms.map(inServer)) !== undefined) {
      return 'a room knows nothing of the programs that are made of it, so let the program pass in what it needs'
    }
    const sibling = rooms.find(
      (each) => each !== room && floorOf(each.path) === floorOf(room.path) && within(each, target),
    )
    if (sibling === undefined) continue
    if (!room.imports.includes(sibling.path)) {
      const allowed = room.imports.filter((each) => floorOf(each) === floorOf(room.path))
      const some = allowed.length === 0 ? 'none of its siblings' : `only ${allowed.join(', ')}`
      return `${room.path} may import ${some}, so let the composer pass in what it needs of ${sibling.path}`
    }
    const inside = sibling.inside?.find((each) => isIn(target, [`${folder}/${sibling.path}/${each}`]) !== undefined)
    if (inside !== undefined) {
      return `${sibling.path}/${inside} is internal to ${sibling.path}, so import a file beside it`
    }
  }
  return undefined
}

/** Only the configuration reads the environment, so that each setting has one place and one check. */
export function readsOfEnvironment({ path, code, imports }: SourceFile): string[] {
  const config = [inServer('platform/config.ts'), inServer('platform/config')]
  if (isIn(path, [server]) === undefined || isIn(path, config) !== undefined) return []
  const reads =
    /\bprocess\s*(?:\?\.|\.)\s*env\b|\bprocess\s*(?:\?\.\s*)?\[|\{[^{}]*\benv\b[^{}]*\}\s*=\s*process\b(?!\s*\.)/.exec(
      code,
    )
  const imported = imports.find((each) => nameOf(each) === 'node:process')
  return reads === null && imported === undefined
    ? []
    : [`${path} reads the environment: add a setting to ${server}/platform/config and take it as a parameter.`]
}

/** Only `spawn` reports by an event that a program cannot start, and an event without a listener ends the server. */
export function startsOfProcesses(file: SourceFile): string[] {
  const starter = inServer('platform/processes/spawn.ts')
  if (isIn(file.path, [server]) === undefined || file.path === starter) return []
  return eachImport([file], (each) => {
    const isAllowed =
      nameOf(each) !== 'node:child_process' ||
      isTypeOnly(each) ||
      (each.clause !== undefined &&
        /^\{[^*]*\}/.test(each.clause) &&
        valuesOf(each.clause).every((value) => /^(?:execFile|fork|spawnSync)$/.test(value)))
    return isAllowed
      ? undefined
      : `${where(file, each)}: start the process by ${starter}, which listens for its errors.`
  })
}

/** `process.kill` throws when a process ends right before, which ended callers in the middle of their work. */
export function signalsToProcesses({ path, code }: SourceFile): string[] {
  const place = inServer('platform/processes')
  if (isIn(path, [server]) === undefined || isIn(path, [place]) !== undefined) return []
  return /\bprocess\s*(?:\?\.|\.)\s*kill\s*\(\s*[^)\s]/.test(code)
    ? [`${path} calls process.kill: send the signal by sendSignal of ${place}, which does not throw.`]
    : []
}

/** Node's own import of `node:http` loads its client for the web, which takes memory in each process. */
export function importsOfHttp(file: SourceFile): string[] {
  const place = inServer('platform/http.ts')
  if (isIn(file.path, [server]) === undefined) return []
  return eachImport([file], (each) => {
    const isHttp = /^node:https?$/.test(nameOf(each))
    const isPlace = file.path === place && each.call === 'getBuiltinModule'
    return isHttp && !isTypeOnly(each) && !isPlace
      ? `${where(file, each)}: import its values from ${place} and its types by import type.`
      : undefined
  })
}

/** A new version of graphile-worker may change its private tables. Its view and its functions stay. */
export const privateTables = ({ path, texts }: SourceFile): string[] =>
  texts.some(({ text }) => /\bgraphile_worker\._private_/.test(text))
    ? [`${path} names a private table of graphile-worker: use its view graphile_worker.jobs, or one of its functions.`]
    : []

/** Each of these has one file in the dashboard, which does not overwrite newer data. */
export function detoursInDashboard({ path, code }: SourceFile): string[] {
  if (isIn(path, [dashboard]) === undefined) return []
  return onlyWays
    .filter(({ file, passesBy }) => path !== `${dashboard}/${file}` && passesBy(code))
    .map(({ file, advice }) => `${path} ${advice} (${dashboard}/${file}).`)
}

const server = 'server/src'
const dashboard = 'server/dashboard/src'
const houses = [
  { folder: server, rooms: [...serverRooms, ...innerRooms] },
  { folder: dashboard, rooms: dashboardRooms },
]
const onlyWays: readonly {
  readonly file: string
  readonly passesBy: (code: string) => boolean
  readonly advice: string
}[] = [
  {
    file: 'data/write-query.ts',
    passesBy: (code) => /\bset(?:Query|Queries)Data\b/.test(code),
    advice: 'writes data of a query: call writeQuery, which first gives up the read under way',
  },
  {
    file: 'ui/forms/form.tsx',
    passesBy: (code) =>
      /<form\b/.test(code) || (/<Form\b/.test(code) && /\.update\(/.test(code) && !/\bsaved=/.test(code)),
    advice: 'may send what nobody has changed: use Form with `saved`, which leaves it out',
  },
]
/** The files and folders of the server's rooms. */
const aboveRooms = [...new Set(['cli.ts', ...programs.flatMap(({ paths }) => paths)])]

const inServer = (path: string): string => `${server}/${path}`
const shortOf = (path: string): string => path.slice(server.length + 1)

/** Returns the first of these files and folders that is this path or contains it. */
const isIn = (path: string, places: readonly string[]): string | undefined =>
  places.find((place) => path === place || path.startsWith(place.endsWith('/') ? place : `${place}/`))

const matches = (name: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) =>
    pattern.endsWith('*')
      ? name.startsWith(pattern.slice(0, -1))
      : name === pattern || (!pattern.startsWith('@fairlead/') && name.startsWith(`${pattern}/`)),
  )

const nameOf = ({ specifier }: Import): string =>
  isBuiltin(specifier) && !specifier.startsWith('node:') ? `node:${specifier}` : specifier

const isTypeOnly = ({ clause, call }: Import): boolean => call === 'typeof import' || /^type\s/.test(clause ?? '')

/** The names between the braces of an import that are values. */
const valuesOf = (clause: string): string[] =>
  (/\{([^{}]*)\}/.exec(clause)?.[1] ?? '')
    .split(',')
    .map((each) => each.trim().split(/\s+as\s+/)[0] ?? '')
    .filter((each) => each !== '' && !/^type\s/.test(each))

const where = ({ path }: SourceFile, { line, specifier }: Import): string => `${path}:${line} imports ${specifier}`

const eachImport = (
  files: readonly SourceFile[],
  report: (each: Import, file: SourceFile) => string | undefined,
): string[] =>
  files.flatMap((file) =>
    file.imports.map((each) => report(each, file)).filter((sentence): sentence is string => sentence !== undefined),
  )
