import type { Command } from '../../../platform/command.ts'
import { parsePackageJson, readPackageJson } from '../../source/package-json.ts'
import { failed, quote, type Result, unreadable } from '../../source/result.ts'
import type { Detector, DetectorSource } from '../detector.ts'
import { findDevelopmentServer } from '../lines/development.ts'
import { programsOf } from '../lines/programs.ts'
import { askedTools } from './asked.ts'
import { planBuildScript } from './build-script.ts'
import { planBunStart } from './bun.ts'
import { chooseStart } from './choose.ts'
import { memberFiles, planMembers } from './members.ts'
import { installsWithDevelopmentPackages, needsDevelopmentPackages } from './needs.ts'
import { chooseManager } from './package-managers.ts'
import type { NodeApp } from './start.ts'
import { versionFiles } from './versions.ts'

/** Configurations of frameworks, which say where a build puts its output. */
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

/** An app with a package.json. */
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
  // The package managers of the toolchain find the cache by themselves.
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
    // Turborepo builds what an app uses by itself.
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

/** A build that watches never ends, and nothing would go live. */
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

/** Cypress tests in browsers, and its package downloads a program of 200 MB for that, which no build and no app needs. */
const withoutTestPrograms = { CYPRESS_INSTALL_BINARY: '0' }

/** Returns the command that installs, in the folder of the lock file; nothing when there is nothing to install. */
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
