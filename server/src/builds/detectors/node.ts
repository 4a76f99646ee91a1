import { posix } from 'node:path'
import satisfies from 'semver/functions/satisfies.js'
import validRange from 'semver/ranges/valid.js'
import type { Command } from '../../platform/command.ts'
import { type PackageJson, parsePackageJson } from '../source/package-json.ts'
import { failed, quote, type Result, unreadable } from '../source/result.ts'
import type { SourceTree } from '../source/tree.ts'
import type { Detector, DetectorSource } from './detector.ts'
import { chooseManager, type Installing } from './package-managers.ts'

/** An app with a package.json. */
export const node: Detector = {
  name: 'node',
  recognises: 'a package.json with a "start" or "build" script, a "main" file or a server.js',
  files: ['package.json', '.npmrc', 'pnpm-workspace.yaml', 'yarn.lock'],
  tools: [],
  // The package managers of the toolchain find the cache by themselves.
  caches: {},
  detect(source) {
    if (!source.app.has('package.json')) return null
    const read = readNodeApp(source)
    if (!read.ok) return read
    const app = read.value
    const { env } = app.installing.manager
    const hasBuild = app.package.scripts.has('build')
    return {
      ok: true,
      value: {
        start: planStart(source.app, app),
        advice:
          'package.json does not say how the app starts: add a "start" script such as "node server.js", or a "main" file, or a server.js.',
        uses: ['node'],
        env,
        build: hasBuild ? [{ argv: [app.installing.manager.name, 'run', 'build'], env }] : [],
        install: (options) => ({ ok: true, value: planInstall(app, options) }),
      },
    }
  },
}

interface NodeApp {
  readonly package: PackageJson
  readonly installing: Installing
}

function readNodeApp({ repository, app, settings, nodeVersion }: DetectorSource): Result<NodeApp> {
  const text = app.read('package.json')
  if (text === undefined) return unreadable('package.json')
  const parsed = parsePackageJson(text)
  if (!parsed.ok) return failed('invalid_package_json', parsed.message)
  const range = parsed.value.nodeRange
  if (range !== undefined && validRange(range) === null) {
    return failed('unsupported_node', `"engines.node" in package.json is not a range of versions: ${quote(range)}.`)
  }
  if (range !== undefined && !satisfies(nodeVersion, range)) {
    const message = `package.json asks for Node ${quote(range)} in "engines.node", but apps here run on Node ${nodeVersion}.`
    return failed('unsupported_node', message)
  }
  const installing = chooseManager(repository, settings.root, parsed.value)
  return { ok: true, value: { package: parsed.value, installing } }
}

/** Returns the command that installs, in the folder of the lock file; nothing when there is nothing to install. */
function planInstall({ package: app, installing }: NodeApp, { builds }: { readonly builds: boolean }) {
  const { manager, locked, folder } = installing
  if (!locked && !app.installs) return []
  return [{ command: { argv: manager.install({ locked, dev: builds }), env: manager.env }, folder }]
}

/** Returns the command by which the app says that it starts; null when it does not. */
function planStart(app: SourceTree, node: NodeApp): Command | null {
  const script = node.package.scripts.get('start')
  if (script !== undefined) return planStartScript(app, node, script)
  const file = findMain(app, node.package)
  if (file === undefined) return null
  const { manager } = node.installing
  return manager.plainNode ? { argv: ['node', file] } : { argv: [manager.name, 'node', file], env: manager.env }
}

function findMain(app: SourceTree, node: PackageJson): string | undefined {
  const main = node.main === undefined ? undefined : mainWithin(node.main)
  // Node completes "lib" and "lib/app" by itself, and only the names at the top of the tree are known.
  const [top = ''] = main?.split('/') ?? []
  const exists = [top, `${top}.js`, `${top}.mjs`, `${top}.cjs`].some((name) => app.has(name))
  // A build script may be what makes the file.
  if (main !== undefined && (exists || node.scripts.has('build'))) return main
  return app.has('server.js') ? 'server.js' : undefined
}

/**
 * `npm start` costs a quarter of a second and a second process, so a script that npm would only hand to `node` runs
 * directly. A script goes through npm when npm would do more: other scripts around it, settings that reach scripts as
 * variables, a Node of the app's own among its dependencies, npm settings that change how scripts run.
 */
function planStartScript(app: SourceTree, { package: node, installing }: NodeApp, script: string): Command {
  const { manager } = installing
  const direct =
    /^node(?:[ \t]+[\w@%+=:,./-]+)+$/.test(script.trim()) &&
    manager.plainNode &&
    !node.scripts.has('prestart') &&
    !node.scripts.has('poststart') &&
    !node.hasConfig &&
    !node.dependencies.has('node') &&
    !settingsChangeScripts(app)
  if (!direct) return { argv: [manager.name, 'start'], env: manager.env }
  const [, ...words] = script.trim().split(/[ \t]+/)
  return {
    argv: ['node', ...words],
    // The variables of npm that apps read most.
    env: {
      npm_lifecycle_event: 'start',
      ...(node.name === undefined ? {} : { npm_package_name: node.name }),
      ...(node.version === undefined ? {} : { npm_package_version: node.version }),
    },
  }
}

/** True when settings change how scripts run. pnpm has such settings in its own file, too. */
function settingsChangeScripts(app: SourceTree): boolean {
  return ['.npmrc', 'pnpm-workspace.yaml'].some((name) => {
    if (!app.has(name)) return false
    const settings = app.read(name)
    return settings === undefined || /^\s*(node-options|script-shell|nodeOptions|scriptShell)\b/m.test(settings)
  })
}

/** Returns `main` as a path inside the tree that Node does not take for an option. */
function mainWithin(main: string): string | undefined {
  const path = posix.normalize(main)
  if (path.includes('\0') || path.startsWith('/') || path.startsWith('-') || path.split('/')[0] === '..')
    return undefined
  return path
}
