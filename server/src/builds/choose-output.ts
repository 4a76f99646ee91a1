import { lstat, readdir, readFile, realpath } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { Command } from '../platform/command.ts'
import { folderRunnerName, staticFallbackFlag, staticServerName } from '../platform/toolchain.ts'
import type { BuildPlan, StartOutput } from './build-plan.ts'
import { resolveWithin } from './read-tree.ts'
import { failed, quote, type Result } from './result.ts'

/**
 * Returns the plan with the start that fits the build's output. Files that the build wrote precede files of the
 * repository: first in the usual place, then where a configuration has moved the output. Only the files show a move,
 * because a configuration is a program, which is not read here. A link may lead to an output, but not out of the
 * sources.
 *
 * @param directory the sources, after the build
 * @param since when the build began, in milliseconds of Unix time
 */
export async function chooseOutput(directory: string, plan: BuildPlan, since: number): Promise<Result<BuildPlan>> {
  const root = await realpath(directory)
  const { outputs, ...rest } = plan
  if (outputs === undefined) return (await isStartMissing(root, plan)) ? misses(root, plan, since) : ok(plan)
  const states = await Promise.all(outputs.map((output) => stateOf(root, output, since)))
  let listed: Promise<readonly string[]> | undefined
  const moved = async (output: StartOutput): Promise<BuildPlan | null> => {
    listed ??= filesIn(root)
    const [folder, ...more] = await placesOf(root, output, await listed, since)
    // Only the owner knows which of several outputs is the app.
    return folder === undefined || more.length > 0 ? null : { ...rest, start: startIn(folder, output) }
  }
  for (const [at, output] of outputs.entries()) {
    if (states[at] === 'written') return ok({ ...rest, start: output.start })
    if (output.moves?.beside === undefined) continue
    const found = await moved(output)
    if (found !== null) return ok(found)
  }
  const kept = outputs[states.indexOf('kept')]
  for (const output of outputs) {
    const found = output.moves === undefined || output.moves.beside !== undefined ? null : await moved(output)
    if (found === null) continue
    // A build may add files to a site of the repository, which stays the output.
    const isSite = found.start.argv.includes(staticServerName)
    const isAdded = isSite && kept !== undefined && (await isAddedTo(root, kept, await filesIn(root), since))
    return ok(isAdded ? { ...rest, start: kept.start } : found)
  }
  return kept === undefined ? misses(root, plan, since) : ok({ ...rest, start: kept.start })
}

const ok = (value: BuildPlan): Result<BuildPlan> => ({ ok: true, value })

/**
 * Returns whether an output in its usual place was written by the build or kept; null without the output. A program
 * cannot fake the change time of a file.
 */
async function stateOf(root: string, { paths }: StartOutput, since: number): Promise<'written' | 'kept' | null> {
  let state: 'kept' | null = null
  for (const path of paths) {
    const target = await resolveWithin(root, path)
    if (target === null) continue
    if (await isWritten(target, since)) return 'written'
    state = 'kept'
  }
  return state
}

async function isAddedTo(
  root: string,
  { paths: [path = ''] }: StartOutput,
  files: readonly string[],
  since: number,
): Promise<boolean> {
  const folder = posix.dirname(path)
  if (folder === '.') return false
  const inside = files.filter((file) => isIn(file, folder))
  return (await written(root, inside, since)).length > 0
}

const isWritten = async (path: string, since: number): Promise<boolean> =>
  ((await lstat(path).catch(() => null))?.ctimeMs ?? 0) >= since

async function written(root: string, files: readonly string[], since: number): Promise<string[]> {
  const marked = await Promise.all(
    files.map(async (file) => ((await isWritten(join(root, file), since)) ? [file] : [])),
  )
  return marked.flat()
}

/** Packages, caches and reports. */
const skipped =
  /^(?:node_modules|bower_components|jspm_packages|vendor|venv|__pycache__|target|deps|_build|coverage|(?:test|playwright)-(?:results|report)|-.*|.*[\p{C}\\].*)$/u
/** These folders with a leading dot may contain a built site or server. */
const hidden = /^\.(?:vitepress|vuepress|output|dist|build|out|site|www|public)$/
const deepest = 8
const mostNames = 50_000

async function filesIn(root: string): Promise<readonly string[]> {
  const found: string[] = []
  let level = ['.']
  let left = mostNames
  for (let depth = 0; depth <= deepest && level.length > 0; depth += 1) {
    const next: string[] = []
    for (const folder of level) {
      const entries = await readdir(join(root, folder), { withFileTypes: true }).catch(() => [])
      left -= entries.length
      if (left < 0) return found
      for (const entry of entries) {
        const { name } = entry
        if (skipped.test(name) || (name.startsWith('.') && !hidden.test(name))) continue
        if (entry.isDirectory()) next.push(posix.join(folder, name))
        else if (entry.isFile()) found.push(posix.join(folder, name))
      }
    }
    level = next
  }
  return found
}

/**
 * Returns the outermost folders with an output that the build wrote elsewhere, in the app's folder if there are any.
 */
async function placesOf(
  root: string,
  { paths, moves }: StartOutput,
  files: readonly string[],
  since: number,
): Promise<readonly string[]> {
  if (moves === undefined) return []
  const entries = paths.map((path) => path.slice(moves.folder.length))
  const candidates = files.filter((file) => entries.some((entry) => `/${file}`.endsWith(entry)))
  const fresh = await written(root, candidates, since)
  const folders = fresh.map((file) => {
    const entry = entries.find((each) => `/${file}`.endsWith(each)) ?? ''
    return file.slice(0, -entry.length) || '.'
  })
  const { beside } = moves
  const known = await Promise.all(
    folders.map(async (folder) =>
      beside === undefined || (await resolveWithin(root, posix.join(folder, beside))) !== null ? [folder] : [],
    ),
  )
  // A folder that contains the whole app cannot be an output.
  const places = known.flat().filter((folder) => !isIn(moves.root, folder))
  const own = places.filter((folder) => isIn(folder, moves.root))
  return outermost(own.length === 0 ? places : own)
}

const isIn = (path: string, folder: string): boolean =>
  folder === '.' || path === folder || path.startsWith(`${folder}/`)

const above = (path: string): string[] =>
  path === '.' ? [] : ['.', ...path.split('/').map((_, at, names) => names.slice(0, at).join('/'))].filter(Boolean)

function outermost(folders: readonly string[]): string[] {
  const all = new Set(folders)
  return [...all].filter((folder) => !above(folder).some((each) => all.has(each)))
}

/** Returns the start of an output with its actual folder instead of the usual folder. */
function startIn(place: string, { start, moves }: StartOutput): Command {
  if (moves === undefined) return start
  const [before, after] = [moves.folder, place].map((folder) => posix.relative(moves.root, folder))
  const [program, ...words] = start.argv
  const replace = (word: string): string => {
    const [, dot = '', path = ''] = /^(\.\/)?(.*)$/s.exec(word) ?? []
    return path === before || path.startsWith(`${before}/`) ? `${dot}${after}${path.slice(before?.length)}` : word
  }
  return { ...start, argv: [program, ...words.map(replace)] }
}

function pathsOf({ start: { argv } }: BuildPlan): readonly string[] {
  const root = rootOf({ start: { argv } })
  const [program, ...words] = argv[0] === folderRunnerName ? argv.slice(2) : argv
  const paths = program === staticServerName ? words.filter((word) => word !== staticFallbackFlag) : words.slice(0, 1)
  const isKnown = (program === staticServerName || program === 'node') && paths.every((path) => /^[^-/]/.test(path))
  return isKnown ? paths.map((path) => posix.join(root, path)) : []
}

const rootOf = ({ start: { argv } }: Pick<BuildPlan, 'start'>): string =>
  argv[0] === folderRunnerName ? (argv[1] ?? '.') : '.'

/** Node tries these endings. */
const endings = ['', '.js', '.cjs', '.json', '.node']

/** True when the files of a known start do not exist after the build. */
async function isStartMissing(root: string, plan: BuildPlan): Promise<boolean> {
  const paths = plan.build.length === 0 || plan.release !== undefined ? [] : pathsOf(plan)
  const tried = paths.flatMap((path) => endings.map((ending) => `${path.replace(/\/$/, '')}${ending}`))
  const found = await Promise.all(tried.map((path) => (path === '.' ? root : resolveWithin(root, path))))
  return paths.length > 0 && found.every((target) => target === null)
}

/**
 * Returns the failure for a missing output. It names another output of the build that may be the app, and how to set
 * it.
 */
async function misses(root: string, plan: BuildPlan, since: number): Promise<Result<BuildPlan>> {
  const { outputs = [] } = plan
  const looked = outputs.length === 0 ? pathsOf(plan) : outputs.flatMap(({ paths }) => paths.slice(0, 1))
  const advice = [...new Set(outputs.flatMap((output) => output.advice ?? []))]
  const next = await nextStep(root, plan, await filesIn(root), since)
  return failed(
    'no_build_output',
    [
      `The build made nothing that can go live: there is none of ${[...new Set(looked)].join(', ')}.`,
      ...(next === null ? [...advice, nothingFound] : [next]),
    ].join(' '),
  )
}

const nothingFound =
  'Fairlead found neither an index.html nor a server that the build wrote. Let the build write one, or name the command that starts the app as "start" in fairlead.json, such as ["node", "server.js"].'

const mostNamed = 5
const serverNames = /^(?:server|main|index|app|entry)\.[cm]?js$/

/** Returns advice on a folder with a page, or a file that may be a server; null when the build wrote neither. */
async function nextStep(
  root: string,
  plan: BuildPlan,
  files: readonly string[],
  since: number,
): Promise<string | null> {
  const app = rootOf(plan)
  const starts = [plan.start, ...(plan.outputs ?? []).map((output) => output.start)]
  const flags = starts.some(({ argv }) => argv.includes(staticFallbackFlag)) ? [staticFallbackFlag] : []
  const name = (path: string) => posix.relative(app, path) || '.'
  const start = (...words: readonly string[]) => `"start": [${words.map(quote).join(', ')}] in fairlead.json`
  const serve = (folder: string) => start(staticServerName, ...flags, name(folder))
  const fresh = await written(root, files, since)

  const sites = await sitesIn(root, files, fresh)
  const [site] = sites
  if (site !== undefined) {
    return `There is an index.html in ${listed(sites.map(name))}. To serve it, write ${serve(site)}.`
  }
  const servers = fresh.filter((file) => serverNames.test(posix.basename(file)))
  const [server] = servers
  if (server !== undefined) {
    return `The build wrote ${listed(servers.map(name))}. If that is the server, write ${start('node', name(server))}.`
  }
  const page = fresh.find((file) => file.endsWith('.html'))
  if (page === undefined) return null
  return `The build wrote ${quote(name(page))}, but no index.html, with which a site begins. Name it so, or write ${serve(posix.dirname(page))}.`
}

/** Pages and files to compare, and bytes of a page. */
const mostCompared = 200
const mostOfPage = 64 * 1024

/** Returns folders whose page the build wrote, otherwise folders whose page loads a file that the build wrote there. */
async function sitesIn(root: string, files: readonly string[], fresh: readonly string[]): Promise<string[]> {
  const pages = files.filter((file) => posix.basename(file) === 'index.html')
  const all = new Set(fresh)
  const own = pages.filter((file) => all.has(file)).map((file) => posix.dirname(file))
  if (own.length > 0) return outermost(own)
  const found: string[] = []
  for (const page of pages.slice(0, mostCompared)) {
    const folder = posix.dirname(page)
    const loaded = fresh.filter((file) => isIn(file, folder)).slice(0, mostCompared)
    const path = loaded.length === 0 ? null : await resolveWithin(root, page)
    const size = path === null ? 0 : (await lstat(path)).size
    const text = path === null || size > mostOfPage ? '' : await readFile(path, 'utf8')
    if (loaded.some((file) => text.includes(posix.basename(file)))) found.push(folder)
  }
  return outermost(found)
}

const listed = (names: readonly string[]): string => {
  const shown = names.slice(0, mostNamed).map(quote).join(', ')
  return names.length > mostNamed ? `${shown} and ${names.length - mostNamed} more` : shown
}
