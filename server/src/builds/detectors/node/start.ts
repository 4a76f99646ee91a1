import { posix } from 'node:path'
import type { Command } from '../../../platform/command.ts'
import { staticFallbackFlag, staticServerName } from '../../../platform/toolchain.ts'
import type { StartOutput } from '../../build-plan.ts'
import type { PackageJson } from '../../package-json.ts'
import { type PlanFailure, quote } from '../../result.ts'
import type { SourceTree } from '../../tree.ts'
import { shellLine } from '../detector.ts'
import { type DevelopmentServer, findDevelopmentServer, lineInstead } from '../development-servers.ts'
import { type Program, programsOf } from '../shell-lines.ts'
import {
  type Framework,
  type FrameworkApp,
  frameworkOf,
  insideOf,
  isForBrowsers,
  nodeServer,
  type Output,
} from './frameworks.ts'
import type { Installing } from './package-managers.ts'

/** How an app with a package.json starts, and what its build needs for that. */
export interface NodeStart {
  readonly start: Command | null
  /** The first whose files exist after the build replaces `start`. */
  readonly outputs?: readonly StartOutput[]
  readonly build?: Command
  readonly buildEnv?: Readonly<Record<string, string>>
  readonly notes?: readonly string[]
  /** Set when only a start for development is known. */
  readonly refused?: PlanFailure
}

interface Choice {
  readonly tree: SourceTree
  readonly node: NodeApp
  readonly framework: Framework | undefined
  readonly app: FrameworkApp
  /** True when a script of package.json or a command of fairlead.json builds. */
  readonly builds: boolean
}

/**
 * Decides how the app starts. A `start` script for production stays as it is. For a development server, the order of
 * replacements is: the owner's script for production, the program that a watcher starts, the output of the build.
 *
 * @param builds true when fairlead.json has a build
 */
export function chooseStart(tree: SourceTree, node: NodeApp, builds: boolean): NodeStart {
  const { scripts, dependencies, devDependencies } = node.package
  const app: FrameworkApp = {
    uses: (name) => dependencies.has(name) || devDependencies.has(name),
    read: (name) => tree.read(name),
    builds: programsOf('npm run build', scripts),
  }
  const framework = frameworkOf(app)
  const choice: Choice = { tree, node, framework, app, builds: builds || scripts.has('build') }
  const script = scripts.get('start')
  if (script === undefined) return withoutScript(choice)
  const development = findDevelopmentServer(programsOf(script, scripts))
  if (development !== undefined) return insteadOf(choice, development)
  const { start, notes } = withoutEnvFile(script, scripts, tree) === null ? plain(choice) : planLine(choice, script)
  const own = withEnv(start, framework?.env)
  const outputs = framework === undefined ? [] : exportsOf(choice, framework, script)
  return {
    start: own,
    ...(outputs.length === 0 ? {} : { outputs: [{ paths: ['package.json'], start: own }, ...outputs] }),
    ...buildEnvOf(choice),
    ...(notes.length === 0 ? {} : { notes }),
  }
}

/**
 * Returns the sites that the build may export when the script starts the server of the framework, as in templates:
 * `next start` refuses an exported site.
 */
function exportsOf(choice: Choice, framework: Framework, script: string): StartOutput[] {
  const [only, ...more] = programsOf(script, choice.node.package.scripts)
  if (!choice.builds || only === undefined || more.length > 0) return []
  const outputs = framework.outputs(choice.app)
  const isOwn = outputs.some((output) => 'file' in output && output.start.join(' ') === `${only.name} ${only.args[0]}`)
  const exported = outputs.filter((output) => !('file' in output) && output.beside !== undefined)
  return isOwn ? exported.map((output) => planOutput(choice, framework, output)) : []
}

const plain = ({ tree, node }: Choice): Line => ({ start: planScript(tree, node, 'start'), notes: [] })

function withoutScript(choice: Choice): NodeStart {
  const { tree, node, framework, builds } = choice
  const why = 'package.json has no "start" script.'
  const own = productionScript(choice)
  if (own !== undefined) return fromScript(choice, own, why)
  const file = findMain(tree, node.package)
  if (file !== undefined && (framework === undefined || isForBrowsers(framework)))
    return { start: planFile(node, file) }
  const main = mainOf(node.package)
  if (framework !== undefined && builds) {
    const fallbacks = main === undefined ? [] : [nodeServer(main)]
    return fromBuild(
      choice,
      framework,
      `package.json has no "start" script, and the app is made with ${framework.name}.`,
      fallbacks,
    )
  }
  if (main !== undefined && builds) return { start: planFile(node, main) }
  const line = builds ? undefined : developers(choice)
  if (line === undefined) return { start: null }
  const { start, notes } = planLine(choice, line)
  return { start, notes: [`${why} ${quote(line)} runs instead. ${override}`, ...notes] }
}

/** Returns the production form of the developers' start script, if it is certain. */
function developers(choice: Choice): string | undefined {
  const { scripts } = choice.node.package
  for (const name of ['serve', 'server', 'dev', 'start:dev', 'develop', 'watch']) {
    const programs = programsOf(scripts.get(name) ?? '', scripts)
    const [only] = programs
    if (only === undefined || programs.length > 1) continue
    const development = findDevelopmentServer(programs)
    const runs = only.isOnly && only.name === 'node' && only.args.length > 0
    const line = development === undefined ? (runs ? only.line : null) : lineInstead(development, brings(choice))
    if (line !== null) return line
  }
  return undefined
}

/** Replaces a `start` script for development. */
function insteadOf(choice: Choice, development: DevelopmentServer): NodeStart {
  const { tree, node, framework, builds } = choice
  const why = `The "start" script runs ${quote(development.tool)}, which is for development and not for the public.`
  const own = productionScript(choice)
  if (own !== undefined) return fromScript(choice, own, why)
  const watched = lineInstead(development, brings(choice))
  if (watched !== null) {
    const { start, notes } = planLine(choice, watched)
    return { start, notes: [`${why} ${quote(watched)} runs instead. ${override}`, ...notes] }
  }
  if (framework !== undefined && (builds || framework.build !== undefined)) return fromBuild(choice, framework, why, [])
  const site = servedBeside(node.package.scripts)
  if (site !== undefined) return { start: planSite(site), notes: [`${why} ${servesItself(site.folder)}`] }
  const file = findMain(tree, node.package)
  if (file !== undefined)
    return { start: planFile(node, file), notes: [`${why} "node ${file}" runs instead. ${override}`] }
  const folder = servedFolder(development, tree)
  if (folder !== undefined) {
    return {
      start: planSite({ folder, isRouted: false }),
      notes: [`${why} ${servesItself(folder)}`],
    }
  }
  if (builds) return { start: null, notes: [`${why} Fairlead serves what the build makes. ${override}`] }
  return { start: null, refused: refusal(why) }
}

const override = 'A "start" in fairlead.json says otherwise.'

const servesItself = (folder: string): string => `Fairlead serves ${folder}/ itself. ${override}`

function refusal(why: string): PlanFailure {
  const advice =
    'Add a "build" script and let "start" run what it makes, or name the command for production in fairlead.json.'
  return { code: 'development_server', message: `${why} Nothing says how the app runs in production. ${advice}` }
}

const productionScript = ({ node: { package: manifest } }: Choice): string | undefined =>
  [...manifest.scripts.keys()].find((name) => isForProduction(name, manifest.scripts))

function fromScript(choice: Choice, name: string, why: string): NodeStart {
  const { tree, node, framework } = choice
  const start = withEnv(planScript(tree, node, name), framework?.env)
  return { start, ...buildEnvOf(choice), notes: [`${why} The script "${name}" runs instead. ${override}`] }
}

function isForProduction(name: string, scripts: ReadonlyMap<string, string>): boolean {
  if (!/^(?:start[:_-]?prod(?:uction)?|serve[:_-]prod(?:uction)?)$/i.test(name)) return false
  const programs = programsOf(scripts.get(name) ?? '', scripts)
  return programs.length > 0 && findDevelopmentServer(programs) === undefined
}

const brings =
  ({ app: { uses } }: Choice) =>
  (name: string): boolean =>
    bringsProgram(name, uses)

interface Line {
  readonly start: Command
  readonly notes: readonly string[]
}

/** Runs a line as the "start" script would, without missing env files. */
function planLine({ tree, node }: Choice, given: string): Line {
  const without = withoutEnvFile(given, node.package.scripts, tree)
  const line = without?.line ?? given
  const notes = without === null ? [] : [missesEnvFile(without)]
  const isPlain = /^node(?:[ \t]+[\w@%+=:,./-]+)+$/.test(line) && node.installing.manager.plainNode
  if (!isPlain) return { start: shellLine(line), notes }
  const scripts = new Map([['start', line]])
  return { start: planScript(tree, { ...node, package: { ...node.package, scripts } }, 'start'), notes }
}

const missesEnvFile = ({ line, files }: WithoutEnvFile): string =>
  `The repository does not have ${files.map(quote).join(', ')}, which --env-file names, so that ${quote(line)} runs: the app's variables come from Fairlead.`

/** Returns the site that a "start" script serves next to a development tool, as in `serve -s public & rollup -w`. */
function servedBeside(scripts: NodeApp['package']['scripts']): Site | undefined {
  const programs = programsOf(scripts.get('start') ?? '', scripts)
  const server = programs.find(({ name }) => ['serve', 'sirv', 'http-server'].includes(name))
  // A number is a port, not a folder.
  const folder = insideOf(server?.args.find((arg) => !/^(?:-|\d+$)/.test(arg)))
  if (server === undefined || folder === undefined) return undefined
  const isRouted = server.name !== 'http-server' && server.args.some((arg) => arg === '-s' || arg === '--single')
  return { folder, isRouted }
}

/** Returns the folder of a file server that reloads the browser. Our static server can serve this folder. */
function servedFolder({ program: { name, args } }: DevelopmentServer, tree: SourceTree): string | undefined {
  if (!['live-server', 'lite-server', 'browser-sync'].includes(name)) return undefined
  const named = name === 'live-server' ? args.find((arg) => !arg.startsWith('-')) : undefined
  const folder = insideOf(named)
  if (folder !== undefined) return folder
  return tree.has('index.html') ? '.' : ['public', 'dist'].find((each) => tree.has(`${each}/index.html`))
}

/** Starts from the output of the build, which is known only after the build. */
function fromBuild(choice: Choice, framework: Framework, why: string, more: readonly Output[]): NodeStart {
  const { node, app, builds } = choice
  const outputs = [...framework.outputs(app), ...more].map((output) => planOutput(choice, framework, output))
  const what = framework.outputs(app).map(describe).join(', or ')
  return {
    start: outputs[0]?.start ?? null,
    outputs,
    ...(builds || framework.build === undefined ? {} : { build: planProgram(node, framework.build) }),
    ...buildEnvOf(choice),
    notes: [
      `${why} After the build, the first of these that is there is used, also where the build writes it into another folder: ${what}. ${override}`,
    ],
  }
}

const describe = (output: Output): string => {
  if ('file' in output) return `"${output.start.join(' ')}" (with ${output.file})`
  return `${output.folder}/ as a static site${output.isRouted ? ' whose index.html answers for paths without a file' : ''}`
}

function planOutput({ node, app }: Choice, { env, advice }: Framework, output: Output): StartOutput {
  const sentence = advice?.(app)
  const { folder, beside } = output
  const more = {
    ...(folder === undefined ? {} : { moves: { folder, root: '.', ...(beside === undefined ? {} : { beside }) } }),
    ...(sentence === undefined ? {} : { advice: sentence }),
  }
  if (!('file' in output)) {
    // A site with browser routing may have only the fallback page.
    const names = output.isRouted ? ['index.html', '200.html'] : ['index.html']
    return { paths: names.map((name) => `${output.folder}/${name}`), start: planSite(output), ...more }
  }
  const [program, file, ...args] = output.start
  const start = program === 'node' && file !== undefined ? planFile(node, file, args) : planProgram(node, output.start)
  return { paths: [output.file], start: withEnv(start, env), ...more }
}

interface Site {
  readonly folder: string
  readonly isRouted: boolean
}

const planSite = (output: Site): Command => ({
  argv: [staticServerName, ...(output.isRouted ? [staticFallbackFlag] : []), output.folder],
})

function buildEnvOf({ framework, app }: Choice): Pick<NodeStart, 'buildEnv'> {
  const buildEnv = framework?.buildEnv?.(app) ?? {}
  return Object.keys(buildEnv).length === 0 ? {} : { buildEnv }
}

const withEnv = (command: Command, env: Command['env']): Command =>
  env === undefined ? command : { ...command, env: { ...env, ...command.env } }

export interface NodeApp {
  readonly package: PackageJson
  /** The package.json at the top of the repository, if packages are installed there. */
  readonly top: PackageJson | undefined
  readonly installing: Installing
}

function planFile({ installing: { manager } }: NodeApp, file: string, args: readonly string[] = []): Command {
  const words = ['node', file, ...args] as const
  return manager.plainNode ? { argv: words } : { argv: [manager.name, ...words], env: manager.env }
}

export function planProgram({ installing: { manager } }: NodeApp, words: readonly [string, ...string[]]): Command {
  return manager.plainNode ? { argv: words } : { argv: [manager.name, ...words], env: manager.env }
}

/** Returns the conventional start file of the app; undefined when the known part of the tree has none. */
function findMain(app: SourceTree, node: PackageJson): string | undefined {
  const main = mainOf(node)
  // Node completes "lib" and "lib/app", but only the names at the top of the tree are known.
  const [top = ''] = main?.split('/') ?? []
  const exists = [top, `${top}.js`, `${top}.mjs`, `${top}.cjs`].some((name) => app.has(name))
  if (main !== undefined && exists) return main
  return app.has('server.js') ? 'server.js' : undefined
}

/** Returns `main` as a path inside the tree that Node cannot mistake for an option. */
function mainOf({ main }: PackageJson): string | undefined {
  if (main === undefined) return undefined
  const path = posix.normalize(main)
  if (path.includes('\0') || path.startsWith('/') || path.startsWith('-') || path.split('/')[0] === '..')
    return undefined
  return path
}

/**
 * `npm start` costs a quarter of a second and a second process, so a script that only calls `node` runs directly. A
 * script goes through npm when npm would do more: run other scripts around it, pass settings to scripts as variables,
 * use a Node from the dependencies of the app, or apply npm settings that change how scripts run.
 *
 * @param name of the script
 */
function planScript(app: SourceTree, { package: node, installing }: NodeApp, name: string): Command {
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
    // The npm variables that apps read most often.
    env: {
      npm_lifecycle_event: name,
      ...(node.name === undefined ? {} : { npm_package_name: node.name }),
      ...(node.version === undefined ? {} : { npm_package_version: node.version }),
    },
  }
}

/** True when settings change how scripts run. pnpm also has such settings in a separate file. */
function settingsChangeScripts(app: SourceTree): boolean {
  return ['.npmrc', 'pnpm-workspace.yaml'].some((name) => {
    if (!app.has(name)) return false
    const settings = app.read(name)
    return settings === undefined || /^[ \t]*(node-options|script-shell|nodeOptions|scriptShell)\b/m.test(settings)
  })
}

const packageOf: Readonly<Record<string, string>> = {
  tsc: 'typescript',
  ng: '@angular/cli',
  nest: '@nestjs/cli',
  'vue-cli-service': '@vue/cli-service',
  eleventy: '@11ty/eleventy',
  babel: '@babel/cli',
  'babel-node': '@babel/node',
  swc: '@swc/cli',
  strapi: '@strapi/strapi',
  prisma: 'prisma',
}

function bringsProgram(name: string, uses: (name: string) => boolean): boolean {
  return uses(name) || (Object.hasOwn(packageOf, name) && uses(packageOf[name] ?? ''))
}

/** True when the start uses a development dependency, as often with `ts-node` and `tsc`. */
export function needsDevelopmentPackages(app: PackageJson, start: Command | null): boolean {
  const words = start?.argv ?? []
  return usesDevelopmentPackages(app, words[0] === '/bin/sh' ? (words[2] ?? '') : words.join(' '))
}

function usesDevelopmentPackages({ scripts, dependencies, devDependencies }: PackageJson, line: string): boolean {
  return programsOf(line, scripts)
    .flatMap(packagesOf)
    .some((name) => devDependencies.has(name) && !dependencies.has(name))
}

/** Package managers run these during an installation. */
const lifecycle = [
  'preinstall',
  'install',
  'postinstall',
  'prepublish',
  'preprepare',
  'prepare',
  'postprepare',
] as const

/** True when a lifecycle script of the installation uses a development dependency, such as `husky`. */
export const installsWithDevelopmentPackages = (app: PackageJson): boolean =>
  lifecycle.some((name) => usesDevelopmentPackages(app, app.scripts.get(name) ?? ''))

/** Packages that may provide a program, or that it loads, such as `tsx` in `node --import tsx`. */
function packagesOf({ name, args }: Program): readonly string[] {
  const own = Object.hasOwn(packageOf, name) ? packageOf[name] : undefined
  const loaded = args.map(
    (arg) => /^(?:@[\w.-]+\/)?[\w.-]+/.exec(arg.replace(/^--(?:import|require|loader)=/, ''))?.[0],
  )
  return [name, own, ...loaded].filter((each) => each !== undefined)
}

interface WithoutEnvFile {
  readonly line: string
  readonly files: readonly string[]
}

/**
 * Removes `--env-file` options whose file is not in the repository, because Node fails at them. The file would hold
 * secrets, which do not belong in a repository: the app's variables replace it. Null when there is nothing to remove.
 *
 * @param scripts of package.json; a script that names the file may create it
 */
function withoutEnvFile(line: string, scripts: ReadonlyMap<string, string>, tree: SourceTree): WithoutEnvFile | null {
  const isMissing = (file: string) => !tree.has(file.replace(/^\.\//, '')) && !isMade(file, scripts)
  const found = programsOf(line, scripts)
    .filter(({ isOnly }) => isOnly)
    .map((program) => ({ program, ...split(program, isMissing) }))
    .filter(({ files }) => files.length > 0)
  const [first] = found
  if (first === undefined) return null
  const text = found.toReversed().reduce((rest, { program, kept }) => replaced(rest, program, kept), first.program.line)
  return { line: text, files: [...new Set(found.flatMap(({ files }) => files))] }
}

const readers: ReadonlySet<string> = new Set(['node', 'nodejs', 'tsx'])

const before = ['preinstall', 'install', 'postinstall', 'prepare', 'prebuild', 'build', 'postbuild', 'prestart']

const isMade = (file: string, scripts: ReadonlyMap<string, string>): boolean =>
  before.some((name) => scripts.get(name)?.includes(file) === true)

function split(
  { name, args, written }: Program,
  isMissing: (file: string) => boolean,
): { readonly kept: readonly string[]; readonly files: readonly string[] } {
  const kept: string[] = []
  const files: string[] = []
  for (let at = 0; at < args.length; at++) {
    const [, value] = /^--env-file(?:=(.*))?$/s.exec(args[at] ?? '') ?? [undefined, null]
    const file = value === null ? undefined : (value ?? args[at + 1])
    if (readers.has(name) && file !== undefined && isMissing(file)) {
      files.push(file)
      if (value === undefined) at++
    } else kept.push(written[at] ?? '')
  }
  return { kept, files }
}

const replaced = (line: string, { name, from, to }: Program, words: readonly string[]): string =>
  `${line.slice(0, from)}${[name, ...words].join(' ')}${line.slice(to)}`.trim()
