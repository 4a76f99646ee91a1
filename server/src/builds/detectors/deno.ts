import type { Command } from '../../platform/command.ts'
import { fieldsOf, readJson } from '../json.ts'
import { failed, type PlanFailure, type Result, unreadable } from '../result.ts'
import { SITE_FOLDERS, type SourceTree } from '../tree.ts'
import type { Detector } from './detector.ts'
import { askedRuntime } from './node/package-managers.ts'
import { versionFiles } from './node/versions.ts'

const configFiles = ['deno.json', 'deno.jsonc'] as const

const mains = ['main.ts', 'main.tsx', 'main.js', 'server.ts', 'server.js', 'mod.ts', 'index.ts']

const soleMains = [...mains, ...mains.map((name) => `src/${name}`)]

/** Code that only Deno runs: the Deno API, and packages of its registry. */
const isForDeno = (code: string): boolean =>
  /\bDeno\.(?:serve|listen|env|args|readTextFile)\b|\bfrom\s+["']jsr:/.test(code)

/** Browsers support imports by URL, too. */
const importsAddresses = (code: string): boolean => /\bfrom\s+["']https:\/\/(?:deno\.land|jsr\.io|esm\.sh)\//.test(code)

/** The tasks that start an app in production, in order of precedence. */
const startTasks = ['start', 'serve', 'preview']

/** Packages are stored in the release, so that it can restart without the registry. */
const env = { DENO_DIR: '.deno', DENO_NO_UPDATE_CHECK: '1' }

/** A file without a task runs with all Deno permissions, because Fairlead provides the sandbox. */
export const deno: Detector = {
  name: 'deno',
  recognises: 'a deno.json with a "start" task, or beside a main.ts',
  files: [...configFiles, ...versionFiles, ...soleMains],
  tools: [],
  caches: {},
  detect({ app, settings }) {
    const config = configFiles.find((name) => app.has(name))
    const isOwners = settings.start?.[0] === 'deno'
    const sole = config === undefined && !app.has('package.json') ? findSole(app) : undefined
    if (config === undefined && !app.has('deno.lock') && sole === undefined && !isOwners) return null
    // A Deno configuration for tools does not make a Node app a Deno app.
    const read = config === undefined ? noTasks : readTasks(app, config)
    if (!read.ok) return read
    const tasks = read.value
    const start = planStart(app, tasks, sole)
    const development = startTasks.find((name) => tasks.has(name))
    if (app.has('package.json') && start === null && !isOwners) return null
    return {
      ok: true,
      value: {
        start,
        ...(development === undefined
          ? { advice: `Nothing says how the app starts: add to deno.json ${example}, or a main.ts.` }
          : {}),
        ...(start === null && development !== undefined ? { refused: refusal(development) } : {}),
        uses: ['deno'],
        env,
        toolchain: [askedRuntime([{ files: app, manifest: undefined }], 'deno', config ?? sole ?? 'deno.lock')],
        install: () => ({ ok: true, value: [{ command: planInstall(app, tasks, sole) }] }),
        build: tasks.has('build') ? [{ argv: ['deno', 'task', 'build'], env }] : [],
      },
    }
  },
}

type Tasks = ReadonlyMap<string, string>

const noTasks: Result<Tasks> = { ok: true, value: new Map() }

/** A watcher is for development, and a debugger gives access to everybody who reaches it. */
const isForDevelopment = (task: string): boolean =>
  /(?:^|\s)(?:--watch|--watch-hmr|--inspect)/.test(task) || /(?:^|[\s/])dev\.tsx?(?:\s|$)/.test(task)

/** Returns the start file of an app without a configuration; undefined if its code is not certainly for Deno. */
function findSole(app: SourceTree): string | undefined {
  const isSite = ['index.html', ...SITE_FOLDERS.map((folder) => `${folder}/index.html`)].some(app.has)
  return soleMains.find((name) => {
    const code = app.read(name) ?? ''
    return isForDeno(code) || (!isSite && importsAddresses(code))
  })
}

function planStart(app: SourceTree, tasks: Tasks, sole: string | undefined): Command | null {
  const task = startTasks.find((name) => tasks.has(name) && !isForDevelopment(tasks.get(name) ?? ''))
  if (task !== undefined) return { argv: ['deno', 'task', task], env }
  const main = app.has('package.json') ? undefined : (sole ?? mains.find((name) => app.has(name)))
  return main === undefined ? null : { argv: ['deno', 'run', '--allow-all', main], env }
}

function planInstall(app: SourceTree, tasks: Tasks, sole: string | undefined): Command {
  const words = startTasks.flatMap((name) => tasks.get(name)?.split(/\s+/) ?? [])
  const named = words.find((word) => /^[\w@][\w@./-]*\.[cm]?[jt]sx?$/.test(word) && app.has(word.split('/')[0] ?? ''))
  const main = tasks.has('build') ? undefined : (named ?? sole ?? mains.find((name) => app.has(name)))
  const frozen = app.has('deno.lock') ? ['--frozen'] : []
  return { argv: ['deno', 'install', ...frozen, ...(main === undefined ? [] : ['--entrypoint', main])], env }
}

const example = '"tasks": { "start": "deno run --allow-net --allow-env main.ts" }'

const refusal = (task: string): PlanFailure => ({
  code: 'development_server',
  message: `The task "${task}" is for development. Add a task "start" to deno.json without a watcher or debugger, such as ${example}.`,
})

function readTasks(app: SourceTree, name: string): Result<Tasks> {
  const text = app.read(name)
  if (text === undefined) return unreadable(name)
  const read = readJson(name, withoutComments(text))
  if (!read.ok) return failed('invalid_deno_json', read.message)
  const tasks = fieldsOf(fieldsOf(read.value)['tasks'])
  const commands = Object.entries(tasks).flatMap(([task, value]) => {
    const command = typeof value === 'string' ? value : fieldsOf(value)['command']
    return typeof command === 'string' ? [[task, command] as const] : []
  })
  return { ok: true, value: new Map(commands) }
}

/** Deno allows comments and trailing commas in both files. All other positions stay the same. */
function withoutComments(text: string): string {
  const blank = (part: string) => part.replace(/[^\n]/g, ' ')
  return text
    .replace(/"(?:[^"\\\n]|\\.)*"?|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g, (part) =>
      part.startsWith('"') ? part : blank(part),
    )
    .replace(/"(?:[^"\\\n]|\\.)*"?|,(?=\s*[}\]])/g, (part) => (part === ',' ? ' ' : part))
}
