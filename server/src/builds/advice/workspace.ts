import { posix } from 'node:path'
import { type Program, programsOf } from '../detectors/lines/programs.ts'
import { type Fields, fieldsOf, isFields, readJson } from '../source/json.ts'
import { parsePackageJson } from '../source/package-json.ts'
import type { SourceTree } from '../source/tree.ts'

/**
 * True when the top of a repository is no app but a workspace: its packages are in folders, and it names no start itself.
 * Its build script, if it has one, builds them all.
 */
export function isWorkspace(files: Pick<SourceTree, 'has' | 'read'>): boolean {
  const fields = readFields(files.read('package.json') ?? '')
  if (fields === null || typeof fieldsOf(fields['scripts'])['start'] === 'string') return false
  const marks = ['pnpm-workspace.yaml', 'turbo.json', 'nx.json', 'lerna.json', 'rush.json']
  return fields['workspaces'] !== undefined || marks.some((name) => files.has(name))
}

/** Configurations that tell a library from an app. */
const viteConfigs = ['vite.config.ts', 'vite.config.js', 'vite.config.mts', 'vite.config.mjs'] as const
export const libraryFiles = ['package.json', ...viteConfigs] as const

/**
 * True for a package that others use and nobody starts: its scripts for that only build it, or watch, test and show what it
 * has.
 *
 * @param files the folder of the package, with the texts of `libraryFiles`
 */
export function isLibrary(files: Pick<SourceTree, 'read'>): boolean {
  const text = files.read('package.json') ?? ''
  const fields = readFields(text)
  const parsed = parsePackageJson(text)
  if (fields === null || !parsed.ok) return false
  const { scripts } = parsed.value
  const run = (name: string) => programsOf(scripts.get(name) ?? '', scripts)
  // The development server of a library shows its examples.
  const isViteLibrary = viteConfigs.some((name) => /\blib\s*:\s*\{/.test(files.read(name) ?? ''))
  const servesNobody = (program: Program) => isBuilder(program, scripts) || (isViteLibrary && program.name === 'vite')
  if (![...run('start'), ...run('dev')].every(servesNobody)) return false
  const build = run('build')
  const compiles =
    build.some(({ name }) => compilers.has(name)) && build.every(({ name }) => compilers.has(name) || helpers.has(name))
  return compiles || ['main', 'module', 'exports', 'types', 'bin'].some((name) => fields[name] !== undefined)
}

/** Programs that make a package of sources, and no site. */
const compilers: ReadonlySet<string> = new Set([
  ...['tsc', 'vue-tsc', 'tspc', 'ttsc', 'tsc-watch', 'tsgo', 'tsc-alias', 'swc', 'babel', 'tsup', 'tsdown', 'tsdx'],
  ...['unbuild', 'obuild', 'zshy', 'dts', 'microbundle', 'microbundle-crl', 'bunchee', 'pkgroll', 'father', 'rslib'],
  ...['tshy', 'preconstruct', 'ng-packagr', 'svelte-package', 'bob', 'api-extractor', 'resolve-tspaths'],
])

/** Programs that build, generate and test beside them, or that show the parts of a library. */
const builders: ReadonlySet<string> = new Set([
  ...['rollup', 'rolldown', 'esbuild', 'sass', 'postcss', 'tailwindcss', 'lessc', 'stylus', 'graphql-codegen'],
  ...['prisma', 'panda', 'style-dictionary', 'typedoc', 'vitest', 'jest', 'mocha', 'ava', 'eslint', 'biome'],
  ...['prettier', 'storybook', 'start-storybook', 'build-storybook', 'ladle', 'histoire'],
])
const helpers: ReadonlySet<string> = new Set([
  ...['rimraf', 'del', 'del-cli', 'shx', 'rm', 'mkdir', 'mkdirp', 'cp', 'cpx', 'cpy', 'copyfiles', 'mv', 'echo'],
  ...['true', 'chmod', 'wait', 'wait-on', 'sleep', 'cd'],
])

/** Programs that run others again whenever a file changes; the line for that is one of their words, or follows `--exec`. */
const repeaters: ReadonlySet<string> = new Set(['nodemon', 'chokidar', 'onchange', 'watch', 'watchexec', 'node-watch'])

/** Matches a script that builds, such as `scripts/build.mjs` and `esbuild.config.js`. */
const buildFile = /(?:^|[./_-])(?:(?:es)?build|bundle|rollup|compile|watch)(?:[./_-]|$)/

/** True for a program after which nothing answers requests, however long it runs. */
function isBuilder({ name, args }: Program, scripts: ReadonlyMap<string, string>): boolean {
  // It starts what was built.
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

/** Returns the fields of a package.json; null when it is none. */
function readFields(text: string): Fields | null {
  const read = readJson('package.json', text)
  return read.ok && isFields(read.value) ? read.value : null
}
