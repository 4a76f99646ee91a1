import { posix } from 'node:path'
import satisfies from 'semver/functions/satisfies.js'
import validRange from 'semver/ranges/valid.js'
import { type PackageJson, parsePackageJson } from './package-json.ts'
import type { Command, Plan } from './runner/runner.ts'
import { staticServerName } from './runner/toolchain.ts'
import { LARGEST_FILE, SITE_FOLDERS, type SourceTree } from './source-tree.ts'

export { readSourceTree, type SourceTree } from './source-tree.ts'

export interface PlanFailure {
  readonly code:
    | 'file_unreadable'
    | 'invalid_procfile'
    | 'invalid_package_json'
    | 'unsupported_node'
    | 'no_start'
    | 'not_recognised'
  /** Tells the owner of the code what to do. */
  readonly message: string
}

export type PlanResult =
  | { readonly ok: true; readonly plan: Plan }
  | { readonly ok: false; readonly failure: PlanFailure }

/** What the server brings to a plan. */
export interface PlanOptions {
  /** The version of the Node that apps run on, as in `process.versions.node`. */
  readonly nodeVersion: string
}

type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: PlanFailure }

/** For builds: neither an audit nor an advertisement, each of which asks the registry. */
const NPM_ENV = { npm_config_audit: 'false', npm_config_fund: 'false', npm_config_update_notifier: 'false' }

const RECOGNISED = [
  'a Procfile with a "web:" line',
  'a package.json with a "start" script, a "main" file or a server.js',
  'an index.html at the top, in public/ or in dist/',
]

/** Decides how a source tree is built and started. Pure; never throws. */
export function planRelease(files: SourceTree, options: PlanOptions): PlanResult {
  const node = files.has('package.json') ? readPackage(files, options) : null
  if (node?.ok === false) return node
  const build = node === null ? [] : planBuild(files, node.value)

  if (files.has('Procfile')) {
    const web = readProcfile(files)
    if (!web.ok) return web
    // The line is the app's own shell command: the format says so, and "$PORT" and "&&" depend on it. It is handed on
    // as the app wrote it and runs with the app's rights; Fairlead never composes such a line from input of its own.
    return planned({ kind: 'procfile', build, start: { argv: ['/bin/sh', '-c', web.value] } })
  }
  const start = node === null ? null : planNodeStart(files, node.value)
  if (start !== null) return planned({ kind: 'node', build, start })
  // With a build script the index.html at hand is a source, not the site.
  const folder = node?.value.scripts.has('build') ? undefined : findSite(files)
  if (folder !== undefined) {
    return planned({ kind: 'static', build: [], start: { argv: [staticServerName, folder] } })
  }
  if (node !== null) {
    return failed(
      'no_start',
      'package.json does not say how the app starts: add a "start" script such as "node server.js", or a "main" file, or a server.js.',
    )
  }
  return failed('not_recognised', `Nothing here can be started. Fairlead recognises: ${RECOGNISED.join('; ')}.`)
}

/** The command of the `web` process; the last one where there are several. Lines of no known form are skipped. */
export function parseProcfile(text: string): string | undefined {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return lines.map((line) => /^\s*web\s*:\s*(\S.*?)\s*$/.exec(line)?.[1]).findLast((command) => command !== undefined)
}

function readProcfile(files: SourceTree): Result<string> {
  const text = files.read('Procfile')
  if (text === undefined) return unreadable('Procfile')
  const web = parseProcfile(text)
  if (web === undefined) {
    return failed('invalid_procfile', 'The Procfile has no "web" process: add a line such as "web: node server.js".')
  }
  return { ok: true, value: web }
}

function readPackage(files: SourceTree, options: PlanOptions): Result<PackageJson> {
  const text = files.read('package.json')
  if (text === undefined) return unreadable('package.json')
  const parsed = parsePackageJson(text)
  if (!parsed.ok) return failed('invalid_package_json', parsed.message)
  const range = parsed.value.nodeRange
  if (range === undefined) return parsed
  if (validRange(range) === null) {
    return failed('unsupported_node', `"engines.node" in package.json is not a range of versions: ${quote(range)}.`)
  }
  if (!satisfies(options.nodeVersion, range)) {
    const message = `package.json asks for Node ${quote(range)} in "engines.node", but apps here run on Node ${options.nodeVersion}.`
    return failed('unsupported_node', message)
  }
  return parsed
}

function planBuild(files: SourceTree, node: PackageJson): Command[] {
  const builds = node.scripts.has('build')
  const locked = files.has('package-lock.json') || files.has('npm-shrinkwrap.json')
  const commands: Command[] = []
  if (locked || node.installs) {
    // NODE_ENV=production leaves development dependencies out, but a build script usually needs them.
    commands.push({
      argv: ['npm', locked ? 'ci' : 'install', builds ? '--include=dev' : '--omit=dev'],
      env: NPM_ENV,
    })
  }
  if (builds) commands.push({ argv: ['npm', 'run', 'build'], env: NPM_ENV })
  return commands
}

function planNodeStart(files: SourceTree, node: PackageJson): Command | null {
  const script = node.scripts.get('start')
  if (script !== undefined) return planStartScript(files, node, script)
  const main = node.main === undefined ? undefined : mainWithin(node.main)
  // Node completes "lib" and "lib/app" by itself, and only the names at the top of the tree are known.
  const [top = ''] = main?.split('/') ?? []
  const exists = [top, `${top}.js`, `${top}.mjs`, `${top}.cjs`].some((name) => files.has(name))
  // A build script may be what makes the file.
  if (main !== undefined && (exists || node.scripts.has('build'))) return { argv: ['node', main] }
  return files.has('server.js') ? { argv: ['node', 'server.js'] } : null
}

/**
 * `npm start` costs a quarter of a second and a second process, so a script that npm would only hand to `node` runs
 * directly. Whatever gives npm more to do goes through npm: other scripts around it, settings that reach scripts as
 * variables, a Node of the app's own among its dependencies, npm settings that change how scripts run.
 */
function planStartScript(files: SourceTree, node: PackageJson, script: string): Command {
  const direct =
    /^node(?:[ \t]+[\w@%+=:,./-]+)+$/.test(script.trim()) &&
    !node.scripts.has('prestart') &&
    !node.scripts.has('poststart') &&
    !node.hasConfig &&
    !node.dependencies.has('node') &&
    !npmrcChangesScripts(files)
  if (!direct) return { argv: ['npm', 'start'], env: NPM_ENV }
  const [, ...words] = script.trim().split(/[ \t]+/)
  return {
    argv: ['node', ...words],
    // What apps read most of npm's own variables.
    env: {
      npm_lifecycle_event: 'start',
      ...(node.name === undefined ? {} : { npm_package_name: node.name }),
      ...(node.version === undefined ? {} : { npm_package_version: node.version }),
    },
  }
}

function npmrcChangesScripts(files: SourceTree): boolean {
  if (!files.has('.npmrc')) return false
  const settings = files.read('.npmrc')
  return settings === undefined || /^\s*(node-options|script-shell)\b/m.test(settings)
}

/** `main` as a path inside the tree that Node does not take for an option. */
function mainWithin(main: string): string | undefined {
  const path = posix.normalize(main)
  if (path.includes('\0') || path.startsWith('/') || path.startsWith('-') || path.split('/')[0] === '..')
    return undefined
  return path
}

function findSite(files: SourceTree): string | undefined {
  if (files.has('index.html')) return '.'
  return SITE_FOLDERS.find((folder) => files.has(`${folder}/index.html`))
}

const planned = (plan: Plan): PlanResult => ({ ok: true, plan })

function failed(code: PlanFailure['code'], message: string): { ok: false; failure: PlanFailure } {
  return { ok: false, failure: { code, message } }
}

const unreadable = (name: string) =>
  failed('file_unreadable', `${name} cannot be read: it must be a plain file of at most ${LARGEST_FILE / 1024} KB.`)

/** Shown to users, so of bounded length. */
const quote = (text: string): string => `"${text.length > 80 ? `${text.slice(0, 80)}…` : text}"`
