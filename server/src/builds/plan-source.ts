import { readdir } from 'node:fs/promises'
import { join, posix } from 'node:path'
import type { PlanRequest } from './build-plan.ts'
import { detectors } from './detectors/index.ts'
import { type Program, programsOf } from './detectors/shell-lines.ts'
import { readSettings } from './fairlead-json.ts'
import { type Fields, fieldsOf, isFields, readJson } from './json.ts'
import { installed, versionsOf } from './machine-tools.ts'
import { parsePackageJson } from './package-json.ts'
import { planBuild, recognising } from './plan.ts'
import { readSourceTree } from './read-tree.ts'
import type { PlanFailure, PlanResult } from './result.ts'
import { variableFiles } from './sample-variables.ts'
import { type SourceTree, within } from './tree.ts'

/**
 * Decides how a source tree is built and started. When the app's folder does not show it, the failure describes the
 * folder and suggests subfolders with an app.
 *
 * @param request.root a folder in it
 */
export async function planSource(directory: string, request: PlanRequest): Promise<PlanResult> {
  const { root: givenRoot, images } = request
  const planned = await planDirectory(directory, request)
  const isSite = planned.ok && planned.plan.kind === 'static'
  if (planned.ok ? !isSite : !['no_start', 'not_recognised'].includes(planned.failure.code)) return planned
  const files = await readSourceTree(directory, ['package.json'], givenRoot)
  const settings = readSettings(files, givenRoot)
  if (!settings.ok) return planned
  const { root, build } = settings.value
  // A workspace may have a build, but its output is not a site at the top.
  const misses = isSite && root === '.' && build === undefined && isWorkspace(files) && !files.has('index.html')
  if (planned.ok && !misses) return planned
  const found = await findApps(directory, root, (folder) => planDirectory(directory, { ...request, root: folder }))
  const apps = await withoutLibraries(directory, found)
  if (planned.ok && apps.length === 0) return planned
  const failure = planned.ok ? workspaceFailure : planned.failure
  return { ok: false, failure: advise(failure, describeSeen(await namesIn(directory, root), images), apps) }
}

const workspaceFailure: PlanFailure = {
  code: 'no_start',
  message: 'The top of this repository is a workspace of several packages, and nothing there says how it starts.',
}

function advise({ code, message }: PlanFailure, seen: string, apps: readonly FoundApp[]): PlanFailure {
  if (apps.length === 0) {
    const next = code === 'not_recognised' ? ' A Procfile or a fairlead.json can say how anything else starts.' : ''
    return { code, message: `${message} ${seen}${next}` }
  }
  const named = apps.map(({ root, kind }) => `${root} (${kind})`).join(', ')
  const advice = `Set root to ${apps.length === 1 ? '' : 'one of '}${named}: in the request, with --root of fairlead deploy, or in fairlead.json.`
  return { code, message: `${message} ${seen} ${advice}`, suggestions: apps }
}

/** Libraries go unless there is nothing else. Programs come before sites. */
async function withoutLibraries(directory: string, apps: readonly FoundApp[]): Promise<FoundApp[]> {
  const marked = await Promise.all(
    apps.map(async (app) => ({ app, isLibrary: await isLibraryIn(directory, app.root) })),
  )
  const started = marked.filter(({ isLibrary }) => !isLibrary)
  const kept = (started.length === 0 ? marked : started).map(({ app }) => app)
  return kept.toSorted((a, b) => Number(a.kind === 'static') - Number(b.kind === 'static'))
}

async function isLibraryIn(directory: string, root: string): Promise<boolean> {
  return isLibrary(within(await readSourceTree(directory, libraryFiles, root), root))
}

async function planDirectory(directory: string, request: PlanRequest): Promise<PlanResult> {
  const { root } = request
  const names = [...variableFiles, ...detectors.flatMap(({ files }) => files)]
  const tools = detectors.flatMap((detector) => detector.tools.map(({ program }) => program))
  const [tree, programs] = await Promise.all([readSourceTree(directory, names, root), installed(tools)])
  const used = recognising(tree, detectors, { programs, root }).flatMap((detector) => detector.tools)
  const versions = await versionsOf(used.filter(({ program }) => programs.has(program)))
  return planBuild(tree, detectors, { ...request, programs, versions, isWhole: true })
}

interface FoundApp {
  readonly root: string
  readonly kind: string
}

/** Folders without separate apps: packages, output, tests, documents. */
const skipped =
  /^(\..*|_.*|node_modules|bower_components|vendor|venv|env|dist|build|out|target|coverage|tmp|temp|logs?|tests?|__tests__|spec|e2e|cypress|fixtures|mocks?|docs?|static|assets|public|styles|images?|img|css|js|migrations|locales?)$/i
const deepest = 3
const mostFolders = 150
const mostTried = 40
/**
 * A limit on CPU time, so that a failing deployment does not delay others. It is not wall time, because the machine may
 * be busy.
 */
const mostCpuMs = 5_000
const mostMs = 30_000
const mostApps = 20

/**
 * Finds a bounded number of apps in subfolders, breadth first, without following links. Folders inside an app belong to
 * it.
 *
 * @param directory the absolute path of the repository
 * @param below a folder of it, `.` for its top
 * @param plan plans the app in a folder
 */
async function findApps(
  directory: string,
  below: string,
  plan: (root: string) => Promise<PlanResult>,
): Promise<FoundApp[]> {
  const apps: FoundApp[] = []
  const isLate = createDeadline()
  let level = await foldersIn(directory, below)
  let [seen, tried] = [0, 0]
  for (let depth = 1; depth <= deepest && level.length > 0; depth += 1) {
    const next: string[] = []
    for (const root of level) {
      seen += 1
      const isEnough = seen > mostFolders || tried >= mostTried || apps.length >= mostApps
      if (isEnough || isLate()) return apps
      const { files } = await namesIn(directory, root)
      if (files.length > 0) tried += 1
      const planned = files.length === 0 ? null : await plan(root)
      if (planned?.ok === true) apps.push({ root, kind: planned.plan.kind })
      else for (const folder of await foldersIn(directory, root)) next.push(folder)
    }
    level = next
  }
  return apps
}

function createDeadline(): () => boolean {
  const begun = performance.now()
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000 > mostCpuMs || performance.now() - begun > mostMs
  }
}

async function foldersIn(directory: string, folder: string): Promise<string[]> {
  const { folders } = await namesIn(directory, folder)
  const kept = folders.filter((name) => !skipped.test(name) && name.length <= 100 && !/[\p{C}\\]/u.test(name))
  return kept.map((name) => (folder === '.' ? name : `${folder}/${name}`))
}

/** Returns the sorted names in a folder of the repository; none for an unreadable folder. */
async function namesIn(directory: string, folder: string): Promise<Names> {
  const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(() => [])
  const named = (only: typeof entries) => only.map(({ name }) => name).sort()
  return {
    files: named(entries.filter((entry) => !entry.isDirectory())),
    folders: named(entries.filter((entry) => entry.isDirectory() && entry.name !== '.git')),
  }
}

/**
 * True when the top of a repository is not an app but a workspace: it contains packages in folders and has no start
 * script. If it has a build script, the script builds all packages.
 */
function isWorkspace(files: Pick<SourceTree, 'has' | 'read'>): boolean {
  const fields = readFields(files.read('package.json') ?? '')
  if (fields === null || typeof fieldsOf(fields['scripts'])['start'] === 'string') return false
  const marks = ['pnpm-workspace.yaml', 'turbo.json', 'nx.json', 'lerna.json', 'rush.json']
  return fields['workspaces'] !== undefined || marks.some((name) => files.has(name))
}

/** Configurations that show whether a package is a library or an app. */
const viteConfigs = ['vite.config.ts', 'vite.config.js', 'vite.config.mts', 'vite.config.mjs'] as const
const libraryFiles = ['package.json', ...viteConfigs] as const

/**
 * True for a package that other packages use and that does not start: its start scripts only build, watch, test or show
 * examples.
 *
 * @param files the folder of the package, with the texts of `libraryFiles`
 */
function isLibrary(files: Pick<SourceTree, 'read'>): boolean {
  const text = files.read('package.json') ?? ''
  const fields = readFields(text)
  const parsed = parsePackageJson(text)
  if (fields === null || !parsed.ok) return false
  const { scripts } = parsed.value
  const run = (name: string) => programsOf(scripts.get(name) ?? '', scripts)
  // A library's development server shows its examples.
  const isViteLibrary = viteConfigs.some((name) => /\blib\s*:\s*\{/.test(files.read(name) ?? ''))
  const servesNobody = (program: Program) => isBuilder(program, scripts) || (isViteLibrary && program.name === 'vite')
  if (![...run('start'), ...run('dev')].every(servesNobody)) return false
  const build = run('build')
  const compiles =
    build.some(({ name }) => compilers.has(name)) && build.every(({ name }) => compilers.has(name) || helpers.has(name))
  return compiles || ['main', 'module', 'exports', 'types', 'bin'].some((name) => fields[name] !== undefined)
}

const compilers: ReadonlySet<string> = new Set([
  ...['tsc', 'vue-tsc', 'tspc', 'ttsc', 'tsc-watch', 'tsgo', 'tsc-alias', 'swc', 'babel', 'tsup', 'tsdown', 'tsdx'],
  ...['unbuild', 'obuild', 'zshy', 'dts', 'microbundle', 'microbundle-crl', 'bunchee', 'pkgroll', 'father', 'rslib'],
  ...['tshy', 'preconstruct', 'ng-packagr', 'svelte-package', 'bob', 'api-extractor', 'resolve-tspaths'],
])

/** Further programs that build, generate or test, or that show components of a library. */
const builders: ReadonlySet<string> = new Set([
  ...['rollup', 'rolldown', 'esbuild', 'sass', 'postcss', 'tailwindcss', 'lessc', 'stylus', 'graphql-codegen'],
  ...['prisma', 'panda', 'style-dictionary', 'typedoc', 'vitest', 'jest', 'mocha', 'ava', 'eslint', 'biome'],
  ...['prettier', 'storybook', 'start-storybook', 'build-storybook', 'ladle', 'histoire'],
])
const helpers: ReadonlySet<string> = new Set([
  ...['rimraf', 'del', 'del-cli', 'shx', 'rm', 'mkdir', 'mkdirp', 'cp', 'cpx', 'cpy', 'copyfiles', 'mv', 'echo'],
  ...['true', 'chmod', 'wait', 'wait-on', 'sleep', 'cd'],
])

/** Programs that rerun a command when a file changes. The command is one of their words, or follows `--exec`. */
const repeaters: ReadonlySet<string> = new Set(['nodemon', 'chokidar', 'onchange', 'watch', 'watchexec', 'node-watch'])

/** Matches a script that builds, such as `scripts/build.mjs` and `esbuild.config.js`. */
const buildFile = /(?:^|[./_-])(?:(?:es)?build|bundle|rollup|compile|watch)(?:[./_-]|$)/

/** True for a program that never answers requests. */
function isBuilder({ name, args }: Program, scripts: ReadonlyMap<string, string>): boolean {
  // This option starts the built program.
  if (args.some((arg) => /^--on-?success\b/i.test(arg))) return false
  if (compilers.has(name) || builders.has(name)) return !args.some((arg) => /^--serve\b/.test(arg))
  if (helpers.has(name)) return true
  if (repeaters.has(name)) {
    const lines = args.map((_, at) => args.slice(at).join(' '))
    return lines.some((line) => {
      const programs = programsOf(line, scripts)
      return programs.length > 0 && programs.every((each) => isBuilder(each, scripts))
    })
  }
  const [verb = ''] = args
  switch (name) {
    case 'vite':
    case 'rolldown-vite':
    case 'bun':
    case 'nx':
    case 'stencil':
      return verb === 'build' && !args.includes('--serve')
    case 'parcel':
      return verb === 'watch' || verb === 'build'
    case 'webpack':
    case 'rspack':
      return !/^(?:s|serve|server|dev|preview|p)$/.test(verb)
    case 'node':
    case 'tsx':
      return buildFile.test(posix.basename(args.find((arg) => /^[^-].*\./.test(arg)) ?? ''))
    default:
      return false
  }
}

/** Returns the fields of a package.json; null for invalid JSON or another type. */
function readFields(text: string): Fields | null {
  const read = readJson('package.json', text)
  return read.ok && isFields(read.value) ? read.value : null
}

const telling: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/^(docker-)?compose(\..+)?\.ya?ml$/, '"fairlead import compose" reads it'],
  [/^go\.(mod|work)$/, 'Go'],
  [/^(Gemfile|config\.ru)$/, 'Ruby'],
  [/^composer\.json$/, 'PHP'],
  [/^Cargo\.toml$/, 'Rust'],
  [/^(pom\.xml|build\.gradle(\.kts)?|mvnw|gradlew)$/, 'Java'],
  [/^build\.sbt$/, 'Scala'],
  [/^(project\.clj|deps\.edn)$/, 'Clojure'],
  [/^mix\.exs$/, 'Elixir'],
  [/^rebar\.config$/, 'Erlang'],
  [/^gleam\.toml$/, 'Gleam'],
  [/\.(cs|fs|vb)proj$|\.slnx?$/, '.NET'],
  [/^deno\.jsonc?$/, 'Deno'],
  [/^(bun\.lockb?|bunfig\.toml)$/, 'Bun'],
  [/^shard\.yml$/, 'Crystal'],
  [/^(stack\.yaml|cabal\.project)$|\.cabal$/, 'Haskell'],
  [/^dune-project$/, 'OCaml'],
  [/^Package\.swift$/, 'Swift'],
  [/^pubspec\.yaml$/, 'Dart'],
  [/^build\.zig$/, 'Zig'],
  [/\.nimble$/, 'Nim'],
  [/^CMakeLists\.txt$/, 'C or C++'],
  [/^(requirements.*\.txt|pyproject\.toml|Pipfile|setup\.py|environment\.yml|manage\.py)$/, 'Python'],
  [/^package\.json$/, 'Node'],
  [/^_config\.yml$/, 'Jekyll'],
  [/^hugo\.(toml|ya?ml|json)$/, 'Hugo'],
  [/^mkdocs\.ya?ml$/, 'MkDocs'],
  [/^wrangler\.(toml|jsonc?)$/, 'a worker of Cloudflare'],
  [/^(vercel|netlify|fly|render|railway|app|serverless)\.(json|toml|ya?ml)$/, 'settings of another platform'],
  [/\.ipynb$/, 'a notebook'],
  [/\.tf$/, 'Terraform'],
  [/\.php$/, 'PHP'],
]

const dockerfile = /^(Dockerfile|Containerfile)(\..+)?$/
/**
 * The advice for a Dockerfile. A server with containers misses only a Dockerfile with another name; other servers have
 * no containers.
 */
const forDockerfile = {
  images: 'name it by "dockerfile" in fairlead.json',
  none: 'which needs Docker: the operator of the server turns it on with FAIRLEAD_RUNTIME=process,docker',
}

const mostNamed = 6

interface Names {
  readonly files: readonly string[]
  readonly folders: readonly string[]
}

/**
 * Returns a sentence with the files and folders of a folder, the most informative first; at most six of each. Leaves
 * out unprintable names, because names come from the repository.
 *
 * @param images true when the server runs container images
 */
function describeSeen({ files, folders }: Names, images: boolean): string {
  const known = (name: string) =>
    dockerfile.test(name)
      ? forDockerfile[images ? 'images' : 'none']
      : telling.find(([pattern]) => pattern.test(name))?.[1]
  const shown = files.filter(isPlain)
  const first = shown.flatMap((name) => {
    const what = known(name)
    return what === undefined ? [] : [`${name} (${what})`]
  })
  const others = shown.filter((name) => known(name) === undefined && !name.startsWith('.'))
  const named = [...first, ...(first.length === 0 ? others : [])]
  const parts = [...listed(named), ...listed(folders.filter(isPlain).map((name) => `${name}/`))]
  return parts.length === 0 ? 'Fairlead saw no files.' : `Fairlead saw ${parts.join(', ')}.`
}

const listed = (names: readonly string[]): string[] => [
  ...names.slice(0, mostNamed),
  ...(names.length > mostNamed ? [`${names.length - mostNamed} more`] : []),
]

const isPlain = (name: string): boolean => name.length <= 60 && /^[^\p{C}]+$/u.test(name)
