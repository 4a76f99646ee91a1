import { posix } from 'node:path'
import type { Command } from '../../../platform/command.ts'
import type { PackageJson } from '../../source/package-json.ts'
import type { SourceTree } from '../../source/tree.ts'
import type { Installing } from './package-managers.ts'

export interface NodeApp {
  readonly package: PackageJson
  /** The package.json at the top of the repository, where packages are installed there. */
  readonly top: PackageJson | undefined
  readonly installing: Installing
}

/** Returns the command that runs a file. */
export function planFile({ installing: { manager } }: NodeApp, file: string, args: readonly string[] = []): Command {
  const words = ['node', file, ...args] as const
  return manager.plainNode ? { argv: words } : { argv: [manager.name, ...words], env: manager.env }
}

/** Returns the command that runs a program of a package. */
export function planProgram({ installing: { manager } }: NodeApp, words: readonly [string, ...string[]]): Command {
  return manager.plainNode ? { argv: words } : { argv: [manager.name, ...words], env: manager.env }
}

/** Returns the file that the app starts with by convention; undefined when the tree has none, as far as it is known. */
export function findMain(app: SourceTree, node: PackageJson): string | undefined {
  const main = mainOf(node)
  // Node completes "lib" and "lib/app" by itself, and only the names at the top of the tree are known.
  const [top = ''] = main?.split('/') ?? []
  const exists = [top, `${top}.js`, `${top}.mjs`, `${top}.cjs`].some((name) => app.has(name))
  if (main !== undefined && exists) return main
  return app.has('server.js') ? 'server.js' : undefined
}

/** Returns `main` as a path inside the tree that Node does not take for an option. */
export function mainOf({ main }: PackageJson): string | undefined {
  if (main === undefined) return undefined
  const path = posix.normalize(main)
  if (path.includes('\0') || path.startsWith('/') || path.startsWith('-') || path.split('/')[0] === '..')
    return undefined
  return path
}

/**
 * `npm start` costs a quarter of a second and a second process, so a script that npm would only hand to `node` runs
 * directly. A script goes through npm when npm would do more: other scripts around it, settings that reach scripts as
 * variables, a Node of the app's own among its dependencies, npm settings that change how scripts run.
 *
 * @param name of the script
 */
export function planScript(app: SourceTree, { package: node, installing }: NodeApp, name: string): Command {
  const { manager } = installing
  const script = node.scripts.get(name) ?? ''
  const direct =
    /^node(?:[ \t]+[\w@%+=:,./-]+)+$/.test(script.trim()) &&
    manager.plainNode &&
    !node.scripts.has(`pre${name}`) &&
    !node.scripts.has(`post${name}`) &&
    !node.hasConfig &&
    !node.dependencies.has('node') &&
    !settingsChangeScripts(app)
  if (!direct) return { argv: [manager.name, ...(name === 'start' ? [] : ['run']), name], env: manager.env }
  const [, ...words] = script.trim().split(/[ \t]+/)
  return {
    argv: ['node', ...words],
    // The variables of npm that apps read most.
    env: {
      npm_lifecycle_event: name,
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
    return settings === undefined || /^[ \t]*(node-options|script-shell|nodeOptions|scriptShell)\b/m.test(settings)
  })
}
