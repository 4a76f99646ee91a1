import { folderRunnerName, staticServerName } from '../runtimes/toolchain.ts'
import type { Command, Plan } from '../runtimes/runtime.ts'
import { type AppSettings, readSettings } from './detectors/fairlead-json.ts'
import { type NodeApp, planInstall, planNodeStart, planScript, readNodeApp } from './detectors/node.ts'
import { type Procfile, readProcfile } from './detectors/procfile.ts'
import { isPython, planPythonBuild, planPythonStart, pythonEnvironment, pythonMain } from './detectors/python.ts'
import { failed, type PlanResult, type Result } from './detectors/result.ts'
import { SITE_FOLDERS, type SourceTree } from './detectors/tree.ts'

/** What the server brings to a plan. */
export interface PlanOptions {
  /** The version of the Node that apps run on, as in `process.versions.node`. */
  readonly nodeVersion: string
  /** Whether the machine has a `python3`. */
  readonly hasPython: boolean
}

/** Where tools put a site that they have built, the most telling name first. */
const BUILT_SITE_FOLDERS = ['dist', 'build', 'out', 'public']

const RECOGNISED = [
  'a fairlead.json with a "start" command',
  'a Procfile with a "web:" line',
  'a package.json with a "start" or "build" script, a "main" file or a server.js',
  'a main.py or app.py',
  'an index.html at the top, in public/ or in dist/',
]

/** What the files say, before anything is decided. */
interface Found {
  readonly settings: AppSettings
  /** The files from the app's folder on. */
  readonly app: SourceTree
  readonly procfile: Procfile | null
  readonly node: NodeApp | null
  readonly builds: boolean
}

interface Start {
  readonly kind: Plan['kind']
  readonly command: Command
  /** Whether it needs what the package managers install and the build makes. */
  readonly needs: { readonly node: boolean; readonly python: boolean }
}

/** Decides how a source tree is built and started. Pure; never throws. */
export function planRelease(files: SourceTree, options: PlanOptions): PlanResult {
  const read = readAll(files, options)
  if (!read.ok) return read
  const found = read.value
  const started = chooseStart(found)
  if (!started.ok) return started
  const { kind, command, needs } = started.value
  if (needs.python && !options.hasPython) {
    return failed('python_missing', 'This app needs Python, but the server has no python3: ask its operator for it.')
  }
  const python = needs.python ? planPythonBuild(found.app) : { ok: true as const, value: [] }
  if (!python.ok) return python

  const { root, health } = found.settings
  const here = inFolder(root)
  const install = needs.node && found.node !== null ? planInstall(found.node, found.builds) : undefined
  const release = found.procfile?.release
  const plan: Plan = {
    kind,
    build: [
      ...(install === undefined ? [] : [inFolder(found.node?.installing.folder ?? root)(install)]),
      ...python.value.map(here),
      ...planBuild(found, needs).map(here),
    ],
    ...(release === undefined ? {} : { release: here(shellLine(release, command.env)) }),
    start: here(command),
    ...(health === undefined ? {} : { health }),
  }
  return { ok: true, plan }
}

function readAll(files: SourceTree, options: PlanOptions): Result<Found> {
  const read = readSettings(files)
  if (!read.ok) return read
  const settings = read.value
  const { root } = settings
  if (root !== '.' && !files.has(root)) {
    return failed('invalid_fairlead_json', `In fairlead.json: "root" is no folder of this repository.`)
  }
  const app = within(files, root)
  const node = app.has('package.json') ? readNodeApp(files, app, root, options) : null
  if (node?.ok === false) return node
  const procfile = settings.start === undefined && app.has('Procfile') ? readProcfile(app) : null
  if (procfile?.ok === false) return procfile
  const builds = settings.build !== undefined || node?.value.package.scripts.has('build') === true
  return {
    ok: true,
    value: { settings, app, procfile: procfile?.value ?? null, node: node?.value ?? null, builds },
  }
}

function chooseStart({ settings, app, procfile, node, builds }: Found): Result<Start> {
  const python = isPython(app)
  // Who names the command may need both languages for it.
  const everything = { node: true, python }
  const env = { ...node?.installing.manager.env, ...(python ? pythonEnvironment : {}) }
  if (settings.start !== undefined) {
    return chosen({ kind: 'command', command: { argv: settings.start, env }, needs: everything })
  }
  if (procfile !== null) return chosen({ kind: 'procfile', command: shellLine(procfile.web, env), needs: everything })

  const start = node === null ? null : planNodeStart(app, node)
  if (start !== null) return chosen({ kind: 'node', command: start, needs: { node: true, python: false } })
  const main = pythonMain(app)
  if (main !== undefined) return chosen({ kind: 'python', command: planPythonStart(main), needs: everything })

  // With a build the index.html at hand is a source, not the site.
  const folders = builds ? BUILT_SITE_FOLDERS : findSite(app)
  if (folders !== undefined) {
    const command: Command = { argv: [staticServerName, ...folders] }
    return chosen({ kind: 'static', command, needs: { node: builds, python: false } })
  }
  if (node !== null) {
    return failed(
      'no_start',
      'package.json does not say how the app starts: add a "start" script such as "node server.js", or a "main" file, or a server.js.',
    )
  }
  if (python) {
    const message = 'Nothing says how the app starts: add a main.py, or a Procfile with a "web:" line.'
    return failed('no_start', message)
  }
  return failed('not_recognised', `Nothing here can be started. Fairlead recognises: ${RECOGNISED.join('; ')}.`)
}

function planBuild({ settings, node }: Found, needs: Start['needs']): Command[] {
  if (settings.build !== undefined) return [{ argv: settings.build, env: node?.installing.manager.env ?? {} }]
  return needs.node && node?.package.scripts.has('build') ? [planScript(node, 'build')] : []
}

/**
 * The line is the app's own shell command: the format says so, and "$PORT" and "&&" depend on it. It is handed on as
 * the app wrote it and runs with the app's rights; Fairlead never composes such a line from input of its own.
 */
const shellLine = (line: string, env: Command['env'] = {}): Command => ({ argv: ['/bin/sh', '-c', line], env })

/** Has a command run in a folder of the repository. */
const inFolder =
  (folder: string) =>
  (command: Command): Command =>
    folder === '.' ? command : { ...command, argv: [folderRunnerName, folder, ...command.argv] }

function within(files: SourceTree, root: string): SourceTree {
  if (root === '.') return files
  return { has: (path) => files.has(`${root}/${path}`), read: (path) => files.read(`${root}/${path}`) }
}

function findSite(app: SourceTree): string[] | undefined {
  if (app.has('index.html')) return ['.']
  const folder = SITE_FOLDERS.find((name) => app.has(`${name}/index.html`))
  return folder === undefined ? undefined : [folder]
}

const chosen = (start: Start): Result<Start> => ({ ok: true, value: start })
