import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from './temporary.ts'

/** Node's compile cache for all runs of a worker: compiling the bundle takes half of a run's CPU time. */
const compiled = await temporaryDirectory()

/** The committed bundle, which the runner executes. */
const bundle = fileURLToPath(new URL('../../action/dist/index.js', import.meta.url))

/** The variables of a run for a push to the branch `main` of acme/shop. */
export const pushEnvironment = {
  GITHUB_SERVER_URL: 'https://github.com',
  GITHUB_REPOSITORY: 'acme/shop',
  GITHUB_REF: 'refs/heads/main',
  GITHUB_REF_NAME: 'main',
  GITHUB_REF_TYPE: 'branch',
  GITHUB_EVENT_NAME: 'push',
  GITHUB_SHA: '1f'.repeat(20),
} as const

export interface ActionRun {
  readonly inputs: Readonly<Record<string, string>>
  /** The workflow's variables, which override `pushEnvironment`; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** The event's payload. */
  readonly payload?: unknown
  readonly cwd?: string
  /** Called with each line of output at once; `kill` sends a signal as the runner does on cancellation. */
  readonly onLine?: (line: string, kill: (signal: NodeJS.Signals) => void) => unknown
  /** Ends the action by SIGKILL. */
  readonly signal?: AbortSignal
}

export interface ActionResult {
  /** `null` after a signal. */
  readonly code: number | null
  /** The whole output, workflow commands included. */
  readonly stdout: string
  readonly stderr: string
  readonly outputs: Readonly<Record<string, string>>
  /** The state saved for the post step, as the runner passes it: `STATE_…`. */
  readonly state: Readonly<Record<string, string>>
  /** The job summary, in Markdown. */
  readonly summary: string
}

/** Runs the action as a runner does: in a separate process, with inputs and files in the environment. */
export async function runAction(run: ActionRun): Promise<ActionResult> {
  await using directory = await temporaryDirectory()
  const at = (name: string) => join(directory.path, name)
  const [output, summary, state, event] = [at('output'), at('summary'), at('state'), at('event')]
  await Promise.all([output, summary, state].map((path) => writeFile(path, '')))
  await writeFile(event, JSON.stringify(run.payload ?? {}))

  const inputs = Object.entries(run.inputs).map(([name, value]) => [inputVariable(name), value])
  const files = {
    GITHUB_OUTPUT: output,
    GITHUB_STEP_SUMMARY: summary,
    GITHUB_STATE: state,
    GITHUB_EVENT_PATH: event,
  }
  const env: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: compiled.path,
    ...pushEnvironment,
    ...files,
    ...run.env,
    ...Object.fromEntries(inputs),
  }
  const child = spawn(process.execPath, [bundle], {
    cwd: run.cwd ?? directory.path,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    killSignal: 'SIGKILL',
    ...(run.signal === undefined ? {} : { signal: run.signal }),
  })
  let stdout = ''
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  createInterface({ input: child.stdout }).on('line', (line) => {
    stdout += `${line}\n`
    run.onLine?.(line, (signal) => child.kill(signal))
  })
  const [code] = await once(child, 'close')
  return {
    code,
    stdout,
    stderr,
    outputs: parseOutputs(await readFile(output, 'utf8')),
    state: stateVariables(parseOutputs(await readFile(state, 'utf8'))),
    summary: await readFile(summary, 'utf8'),
  }
}

/** The runner's name: upper case, underscores for spaces, hyphens kept. */
function inputVariable(name: string): string {
  return `INPUT_${name.replaceAll(' ', '_').toUpperCase()}`
}

function stateVariables(saved: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(saved).map(([name, value]) => [`STATE_${name}`, value]))
}

/** Parses the runner's file of `name<<delimiter`, value and delimiter; the last value of a name counts. */
function parseOutputs(text: string): Record<string, string> {
  const entries = text.matchAll(/^([^\n]+?)<<([^\n]+)\n([\s\S]*?)\n\2$/gm)
  return Object.fromEntries([...entries].map(([, name = '', , value = '']) => [name, value]))
}
