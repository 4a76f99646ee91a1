import { failed, quote } from '../result.ts'
import type { Program } from './shell-lines.ts'

export interface DevelopmentServer {
  readonly tool: string
  readonly program: Program
  /** These words replace it in production, if they are certain. */
  readonly instead: readonly string[] | null
}

/** True for arguments that make a program a development server. */
type Rule = (args: readonly string[]) => boolean

const is =
  (...verbs: readonly string[]): Rule =>
  ([verb = '']) =>
    verbs.includes(verb)
const except =
  (...verbs: readonly string[]): Rule =>
  ([verb = '']) =>
    !verbs.includes(verb)
const has =
  (pattern: RegExp): Rule =>
  (args) =>
    args.some((arg) => pattern.test(arg))
const always: Rule = () => true
const either =
  (a: Rule, b: Rule): Rule =>
  (args) =>
    a(args) || b(args)

const informs = ['--version', '-v', '--help', '-h']

/** Development and preview servers. They serve sources, or are only for a short look. */
const servers: Readonly<Record<string, Rule>> = {
  'react-scripts': is('start'),
  'react-app-rewired': is('start'),
  craco: is('start'),
  vite: except('build', 'optimize', ...informs),
  'rolldown-vite': except('build', 'optimize', ...informs),
  'vite-node': has(/^(?:-w|--watch)$/),
  astro: is('dev', 'preview'),
  next: except('build', 'start', 'export', 'lint', 'info', 'telemetry', 'typegen', ...informs),
  ng: is('serve', 's', 'dev'),
  nx: is('serve', 'dev'),
  turbo: either(is('dev', 'watch'), (args) => is('run')(args) && is('dev')(args.slice(1))),
  'vue-cli-service': except('build', 'lint', 'inspect', 'test:unit', 'test:e2e', ...informs),
  gatsby: is('develop', 'serve', ''),
  parcel: except('build', 'watch', ...informs),
  webpack: either(is('serve', 's', 'server', 'watch', 'w'), has(/^(?:--watch|-w)$/)),
  'webpack-dev-server': always,
  'webpack-cli': is('serve', 's', 'server', 'watch'),
  rspack: is('serve', 'server', 's', 'dev', 'preview', 'p'),
  rsbuild: is('dev', 'preview', ''),
  farm: is('start', 'dev', 'preview', ''),
  rollup: has(/^(?:-w|--watch)$/),
  nuxt: is('dev', 'preview', ''),
  nuxi: is('dev', 'preview', ''),
  nitro: is('dev', 'preview', ''),
  nitropack: is('dev', 'preview', ''),
  'svelte-kit': is('dev', 'preview'),
  remix: is('dev', 'watch', 'vite:dev', ''),
  'react-router': is('dev', ''),
  'solid-start': is('dev', ''),
  vinxi: is('dev', ''),
  waku: is('dev', ''),
  vike: is('dev', 'preview', ''),
  qwik: is('dev'),
  docusaurus: is('start', 'serve'),
  vitepress: is('dev', 'preview', 'serve', ''),
  vuepress: is('dev'),
  eleventy: has(/^--(?:serve|watch|incremental)$/),
  hexo: is('server', 's'),
  ember: is('serve', 'server', 's'),
  quasar: is('dev', 'serve'),
  ionic: is('serve'),
  expo: is('start', ''),
  slidev: except('build', 'export', 'format', ...informs),
  storybook: is('dev'),
  'start-storybook': always,
  stencil: has(/^--(?:dev|serve|watch)$/),
  preact: is('watch', 'serve'),
  umi: is('dev', 'preview'),
  max: is('dev', 'preview'),
  strapi: is('dev', 'develop', 'watch-admin'),
  keystone: is('dev', ''),
  wrangler: has(/^dev$/),
  netlify: is('dev'),
  vercel: is('dev', ''),
  firebase: is('serve', 'emulators:start'),
  meteor: is('run', ''),
  snowpack: is('dev'),
  wmr: except('build'),
  budo: always,
  'live-server': always,
  'lite-server': always,
  'browser-sync': is('start'),
  nest: is('start'),
  adonis: is('serve'),
  flask: has(/^run$/),
  quart: is('run'),
  django: is('runserver'),
  'manage.py': is('runserver', 'runserver_plus'),
  'django-admin': is('runserver'),
  fastapi: is('dev'),
  uvicorn: has(/^--(?:reload|debug)$/),
  hypercorn: has(/^--(?:reload|debug)$/),
  gunicorn: has(/^--reload$/),
  granian: has(/^--reload$/),
  sanic: has(/^(?:--dev|-d|--debug|--auto-reload|-r)$/),
  litestar: has(/^(?:--debug|--reload|-d|-r)$/),
  air: always,
  gow: always,
  watchexec: always,
  guard: always,
  rerun: always,
}

/** These programs restart another program when a file changes. */
const watchers: ReadonlySet<string> = new Set([
  'nodemon',
  'node-dev',
  'ts-node-dev',
  'tsnd',
  'supervisor',
  'pm2-dev',
  'tsc-watch',
])

function developmentServerOf(program: Program): DevelopmentServer | null {
  const { name, args } = program
  const tool = [name, ...args.slice(0, 1)].join(' ').slice(0, 60)
  if (watchers.has(name)) return { tool: name, program, instead: watched(program) }
  if (interpreters.has(name)) return interpreted(program, tool)
  if (/^python[\d.]*$/.test(name)) {
    const [script = '', ...rest] = args
    const isServer = script.split('/').at(-1) === 'manage.py' && servers['manage.py']?.(rest) === true
    return isServer ? { tool: `manage.py ${rest[0]}`, program, instead: null } : null
  }
  const rule = Object.hasOwn(servers, name) ? servers[name] : undefined
  if (rule?.(args) !== true) return null
  const reloads = pythonServers.has(name) && args.find((arg) => /^--(?:reload|debug)$/.test(arg))
  if (!reloads) return { tool, program, instead: null }
  return {
    tool: `${name} ${reloads}`,
    program,
    instead: [name, ...without(program, /^--(?:reload|debug)$/, reloadValue)],
  }
}

const pythonServers = new Set(['uvicorn', 'hypercorn', 'gunicorn', 'granian'])
const reloadValue = /^--reload-(?:dir|include|exclude|delay|extra-file|engine)$/

function without({ args, written }: Program, flag: RegExp, valued: RegExp): string[] {
  return written.filter((_, at) => {
    const [arg = '', before = ''] = [args[at], args[at - 1]]
    return !(flag.test(arg) || valued.test(arg.replace(/=.*$/s, '')) || (valued.test(before) && !before.includes('=')))
  })
}

const interpreters = new Set(['node', 'nodejs', 'bun', 'deno', 'tsx', 'ts-node'])
const watchFlag = /^--(?:watch(?:-path)?(?:=.*)?|hot|watch-preserve-output)$/
const inspectFlag = /^--inspect(?:-brk|-wait|-port|-publish-uid)?(?:=.*)?$/
const takesValue = new Set(['-r', '--require', '--import', '--loader', '--experimental-loader', '-C', '--conditions'])

function interpreted(program: Program, tool: string): DevelopmentServer | null {
  const { name, args, written } = program
  const isVerb = (arg: string) => arg === 'run' || arg === 'watch'
  const file = args.findIndex((arg, at) => !arg.startsWith('-') && !isVerb(arg) && !takesValue.has(args[at - 1] ?? ''))
  const count = file === -1 ? args.length : file
  const own = args.slice(0, count)
  const isWatch = (arg: string) => watchFlag.test(arg) || (name === 'tsx' && arg === 'watch')
  const isWatched = own.some(isWatch)
  if (!isWatched && !own.some((arg) => inspectFlag.test(arg))) return null
  const kept = written.filter((_, at) => at >= count || !(isWatch(args[at] ?? '') || inspectFlag.test(args[at] ?? '')))
  return { tool: isWatched ? tool : `${name} --inspect`, program, instead: [name, ...kept] }
}

const valued = new Set([
  '-w',
  '--watch',
  '-e',
  '--ext',
  '-i',
  '--ignore',
  '-d',
  '--delay',
  '-s',
  '--signal',
  '--config',
])

/** Returns the program that a watcher starts, if its words are certain. */
function watched({ name, args, written }: Program): readonly string[] | null {
  if (name === 'tsc-watch' || name === 'pm2-dev') return null
  // Supervisor's options differ from nodemon's.
  if (name === 'supervisor' && args[0]?.startsWith('-') === true) return null
  let at = 0
  let given: string | undefined
  for (; at < args.length; at++) {
    const arg = args[at] ?? ''
    const [isExec, value] = /^(?:--exec|-x)(?:=(.*))?$/s.exec(arg) ?? []
    if (isExec !== undefined) given = value ?? args[++at]
    else if (valued.has(arg)) at++
    else if (/^(?:-r|--require)$/.test(arg)) return null
    else if (!arg.startsWith('-')) break
  }
  const [file] = args.slice(at)
  const rest = written.slice(at)
  if (given !== undefined) return [given, ...rest]
  if (file === undefined) return null
  return [name === 'ts-node-dev' || name === 'tsnd' || /\.[cm]?tsx?$/.test(file) ? 'ts-node' : 'node', ...rest]
}

export function findDevelopmentServer(programs: readonly Program[]): DevelopmentServer | undefined {
  for (const program of programs) {
    const found = developmentServerOf(program)
    if (found !== null) return found
  }
  return undefined
}

/**
 * Returns the line with the production program instead of the development program; `null` if this is not certain.
 *
 * @param has true for programs that the app brings
 */
export function lineInstead({ program, instead }: DevelopmentServer, has: (name: string) => boolean): string | null {
  if (instead === null || !program.isOnly) return null
  const name = instead[0]?.split(' ')[0] ?? ''
  if (!interpreters.has(name) && !pythonServers.has(name) && !has(name)) return null
  if (name === 'ts-node' && !has(name)) return null
  return `${program.line.slice(0, program.from)}${instead.join(' ')}${program.line.slice(program.to)}`.trim()
}

export function refuseLine(where: string, { tool, instead }: DevelopmentServer): ReturnType<typeof failed> {
  const advice =
    instead === null
      ? 'Name the command for production, or remove it: then Fairlead looks for one itself.'
      : `Write ${quote(instead.join(' '))} instead.`
  return failed(
    'development_server',
    `${where} runs ${quote(tool)}, which is for development and not for the public. ${advice}`,
  )
}
