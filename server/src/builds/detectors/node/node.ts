import type { Command } from '../../../platform/command.ts'
import type { ToolRequest } from '../../../platform/toolchain.ts'
import { fieldsOf, isFields, readJson } from '../../json.ts'
import { type PackageJson, parsePackageJson, readPackageJson } from '../../package-json.ts'
import { failed, quote, type Result, unreadable } from '../../result.ts'
import type { SourceTree } from '../../tree.ts'
import type { Detector, DetectorSource } from '../detector.ts'
import { findDevelopmentServer } from '../development-servers.ts'
import { programsOf } from '../shell-lines.ts'
import { askedManager, askedRuntime, calledRuntimes, chooseManager } from './package-managers.ts'
import {
  chooseStart,
  installsWithDevelopmentPackages,
  type NodeApp,
  needsDevelopmentPackages,
  planProgram,
} from './start.ts'
import { askedNode, type VersionSource, versionFiles } from './versions.ts'

const memberFiles = ['*/package.json', '*/*/package.json'] as const

const mostMembers = 50

/**
 * Returns the commands that build the workspace members that the app uses, in dependency order. npm and Yarn do not
 * know this order.
 *
 * @param repository all files
 */
function planMembers(repository: SourceTree, { package: app, installing }: NodeApp): readonly Command[] {
  const { manager, folder } = installing
  if (folder !== '.' || (manager.name !== 'npm' && manager.name !== 'yarn')) return []
  const members = readMembers(repository)
  const ordered: string[] = []
  const seen = new Set<string>([app.name ?? ''])
  const visit = (node: PackageJson): void => {
    for (const name of [...node.dependencies, ...node.devDependencies]) {
      const member = members.get(name)
      if (member === undefined || seen.has(name) || seen.size > mostMembers) continue
      seen.add(name)
      visit(member)
      if (member.scripts.has('build')) ordered.push(name)
    }
  }
  visit(app)
  return ordered.map((name) => ({
    argv:
      manager.name === 'npm'
        ? ['npm', 'run', 'build', `--workspace=${name}`]
        : ['yarn', 'workspace', name, 'run', 'build'],
    env: manager.env,
  }))
}

/** Returns the members of the top-level workspace by package name, at most two folders deep. */
function readMembers(repository: SourceTree): ReadonlyMap<string, PackageJson> {
  const patterns = workspacesOf(repository.read('package.json') ?? '')
  const members = new Map<string, PackageJson>()
  if (patterns.length === 0) return members
  const folders = repository.list('.').flatMap((top) => [top, ...repository.list(top).map((name) => `${top}/${name}`)])
  for (const folder of folders) {
    const text = repository.read(`${folder}/package.json`)
    if (text === undefined || !patterns.some((pattern) => isAt(pattern, folder))) continue
    const parsed = parsePackageJson(text)
    const name = parsed.ok ? parsed.value.name : undefined
    if (parsed.ok && name !== undefined && /^[@\w][\w@/.-]*$/.test(name)) members.set(name, parsed.value)
  }
  return members
}

function workspacesOf(text: string): readonly string[] {
  const read = readJson('package.json', text)
  const field: unknown = read.ok && isFields(read.value) ? read.value['workspaces'] : undefined
  const list: unknown = Array.isArray(field) ? field : fieldsOf(field)['packages']
  return Array.isArray(list) ? list.filter((each): each is string => typeof each === 'string' && each.length < 200) : []
}

function isAt(pattern: string, folder: string): boolean {
  const parts = pattern.replace(/^\.\//, '').replace(/\/$/, '').split('/')
  const names = folder.split('/')
  if (parts.at(-1) === '**') return parts.slice(0, -1).every((part, at) => isNamed(part, names[at] ?? ''))
  return parts.length === names.length && parts.every((part, at) => isNamed(part, names[at] ?? ''))
}

/** Compares a name with one part of a pattern, in which one `*` matches any characters. */
function isNamed(part: string, name: string): boolean {
  const [before = '', after, ...more] = part.split('*')
  if (after === undefined) return part === name
  return (
    more.length === 0 && name.length >= before.length + after.length && name.startsWith(before) && name.endsWith(after)
  )
}

/** Framework configurations, which define the output folder of a build. */
const configurations = [
  'angular.json',
  'svelte.config.js',
  'svelte.config.ts',
  'vite.config.js',
  'vite.config.ts',
  'vite.config.mjs',
  'vite.config.mts',
  'react-router.config.js',
  'react-router.config.ts',
  'vue.config.js',
  'webpack.config.js',
  'webpack.config.cjs',
  'webpack.config.mjs',
  'webpack.config.ts',
  '.eleventy.js',
  'eleventy.config.js',
  'eleventy.config.mjs',
  'eleventy.config.cjs',
] as const

export const node: Detector = {
  name: 'node',
  recognises: 'a package.json with a "start" or "build" script, a "main" file or a server.js',
  files: [
    ...['package.json', 'pnpm-workspace.yaml', 'pnpm-lock.yaml', 'yarn.lock', 'Procfile'],
    ...versionFiles,
    ...configurations,
    ...memberFiles,
  ],
  tools: [],
  // The package managers find the cache themselves.
  caches: {},
  makesSites: true,
  detect(source) {
    if (!source.app.has('package.json')) return null
    const read = readNodeApp(source)
    if (!read.ok) return read
    const app = read.value
    const { env } = app.installing.manager
    const refused = refuseBuild(app)
    if (refused !== null) return refused
    const chosen = chooseStart(source.app, app, source.settings.build !== undefined)
    const asked = askedTools(source, app, chosen.start)
    const own = planBuildScript(source, app)
    const builds = app.package.scripts.has('build') ? [own] : chosen.build === undefined ? [] : [chosen.build]
    const start = (chosen.outputs === undefined ? planBunStart(source.app, app) : null) ?? chosen.start
    // Turborepo builds the app's dependencies itself.
    const isPlain = !own.argv.includes('turbo') && (builds.length > 0 || start !== null)
    const members = isPlain ? planMembers(source.repository, app) : []
    return {
      ok: true,
      value: {
        start,
        ...(chosen.outputs === undefined ? {} : { outputs: chosen.outputs }),
        ...(chosen.refused === undefined ? {} : { refused: chosen.refused }),
        advice:
          'package.json does not say how the app starts: add a "start" script such as "node server.js", or a "main" file, or a server.js.',
        uses: ['node'],
        toolchain: asked.toolchain,
        notes: [...asked.notes, ...(chosen.notes ?? [])],
        env,
        build: [...members, ...builds].map((command) => ({ ...command, env: { ...command.env, ...chosen.buildEnv } })),
        install: (options) => ({ ok: true, value: planInstall(app, start, options) }),
      },
    }
  },
}

/** Refuses a build that watches files: it never ends, and the app would never go live. */
function refuseBuild({ package: { scripts } }: NodeApp): ReturnType<typeof failed> | null {
  const found = findDevelopmentServer(programsOf(scripts.get('build') ?? '', scripts))
  if (found === undefined || found.instead !== null) return null
  return failed(
    'development_server',
    `The "build" script runs ${quote(found.tool)}, which is for development and never ends. Let it build once.`,
  )
}

function readNodeApp({ repository, app, settings }: DetectorSource): Result<NodeApp> {
  const text = app.read('package.json')
  if (text === undefined) return unreadable('package.json')
  const parsed = parsePackageJson(text)
  if (!parsed.ok) return failed('invalid_package_json', parsed.message)
  const top = readPackageJson(repository)
  const { packageManager = top?.packageManager, devDependencies } = parsed.value
  const installing = chooseManager(repository, settings.root, { packageManager, devDependencies })
  return { ok: true, value: { package: parsed.value, top: installing.folder === '.' ? top : undefined, installing } }
}

/** Cypress would download 200 MB for browser tests, which no build or app needs. */
const withoutTestPrograms = { CYPRESS_INSTALL_BINARY: '0' }

function planInstall(
  { package: app, top, installing }: NodeApp,
  start: Command | null,
  { builds }: { readonly builds: boolean },
) {
  const { manager, locked, folder } = installing
  if (!locked && !app.installs) return []
  const runsAlone = [app, top].some((each) => each !== undefined && installsWithDevelopmentPackages(each))
  const dev = builds || runsAlone || needsDevelopmentPackages(app, start)
  const unlocked = locked ? { unlocked: manager.install({ locked: false, dev }) } : {}
  const env = { ...manager.env, ...withoutTestPrograms }
  const settings = manager.settings === undefined ? {} : { settings: manager.settings }
  return [{ command: { argv: manager.install({ locked, dev }), env, ...settings, ...unlocked }, folder }]
}

/**
 * Versions of Node and the package manager, and other runtimes that the repository calls.
 *
 * @param start the command that starts the app, which may not be a script
 */
function askedTools(
  { repository, app, settings }: DetectorSource,
  { package: manifest, installing }: NodeApp,
  start: Command | null,
): { readonly toolchain: readonly ToolRequest[]; readonly notes: readonly string[] } {
  const top = { files: repository, manifest: readPackageJson(repository) }
  const sources: VersionSource[] = [{ files: app, manifest }, ...(settings.root === '.' ? [] : [top])]
  const { request, notes } = askedNode(sources)
  const manager = askedManager(sources, installing, repository)
  const commands = [settings.build, settings.start, start?.argv].flatMap((words) =>
    words === undefined ? [] : [words.join(' ')],
  )
  const called = calledRuntimes(manifest.scripts, [...commands, app.read('Procfile') ?? ''])
  const runtimes = called.map((tool) => askedRuntime(sources, tool, 'the commands that run'))
  const requests = [request, manager, ...runtimes].filter((each) => each !== null)
  // The first request for a tool counts.
  const toolchain = requests.filter(({ tool }, at) => requests.findIndex((each) => each.tool === tool) === at)
  return { toolchain, notes }
}

/**
 * Runs the `build` script. A workspace member may need other members' output, so their builds run first if the
 * workspace tool knows the order: Turborepo or pnpm.
 */
function planBuildScript(
  { repository, settings }: Pick<DetectorSource, 'repository' | 'settings'>,
  app: NodeApp,
): Command {
  const { manager, folder } = app.installing
  const { name } = app.package
  const isMember = folder === '.' && settings.root !== '.' && name !== undefined && /^[@\w][\w@/.-]*$/.test(name)
  if (isMember && repository.has('turbo.json') && /"turbo"\s*:/.test(repository.read('package.json') ?? '')) {
    const command = planProgram(app, ['turbo', 'run', 'build', `--filter=${name}`])
    return { ...command, env: { ...manager.env, TURBO_TELEMETRY_DISABLED: '1', ...command.env } }
  }
  if (isMember && manager.name === 'pnpm') {
    return { argv: ['pnpm', `--filter=${name}...`, 'run', 'build'], env: manager.env }
  }
  return { argv: [manager.name, 'run', 'build'], env: manager.env }
}

const mains = ['index.ts', 'index.tsx', 'index.js', 'server.ts']

/** Returns the start of a Bun app without a "start" script: Bun runs TypeScript and `module`. Null for other apps. */
function planBunStart(app: SourceTree, { package: manifest, installing }: NodeApp): Command | null {
  if (installing.manager.name !== 'bun' || manifest.scripts.has('start')) return null
  const named = [manifest.module, manifest.main].find((file) => file !== undefined && mayExist(app, file))
  const file = named ?? mains.find((name) => app.has(name))
  return file === undefined ? null : { argv: ['bun', 'run', file] }
}

/** True unless the first part of the path is certainly missing: only the names at the top of the tree are known. */
function mayExist(app: SourceTree, path: string): boolean {
  const [top = ''] = path.replace(/^\.\//, '').split('/')
  return !['', '.', '..'].includes(top) && !top.startsWith('-') && !path.includes('\0') && app.has(top)
}
