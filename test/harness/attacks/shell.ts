import { expect } from 'vitest'
import { deployAndSettle } from '../deployments.ts'
import { repository } from '../repository.ts'
import type { HostileServer, Tenant } from './server.ts'

/** The outcome of a command in an app; `code` is null after a signal. */
export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** An app of a tenant that runs every command it receives. */
export interface Shell {
  readonly id: string
  readonly url: string
  /** Runs a command in the app. Rejects when the app does not answer. */
  run(...argv: readonly string[]): Promise<Ran>
  /** Runs a Python 3 program and returns its output, parsed as JSON. */
  python(program: string): Promise<unknown>
  /** Runs JavaScript as the body of a function and returns its result. */
  node(program: string): Promise<unknown>
}

const files = {
  'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
  'server.js': `const { spawn } = require('node:child_process')
require('node:http').createServer(async (request, response) => {
  const parts = []
  for await (const part of request) parts.push(part)
  if (parts.length === 0) return response.end('ready')
  const [command, ...args] = JSON.parse(Buffer.concat(parts))
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const got = { code: 127, stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].setEncoding('utf8').on('data', (text) => { got[name] += text })
  child.on('error', (error) => response.end(JSON.stringify({ ...got, stderr: error.message })))
  child.on('close', (code) => response.end(JSON.stringify({ ...got, code })))
}).listen(process.env.PORT)`,
}

/** Deploys a shell app. */
export async function shell(
  { client, project }: Tenant,
  name: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<Shell> {
  await using source = await repository(files)
  const made = await deployAndSettle(client, project, { name, git_url: source.url, env_vars: variables })
  expect(made.failure).toBeNull()
  const run: Shell['run'] = async (...argv) => {
    const response = await fetch(made.url, { method: 'POST', body: JSON.stringify(argv) })
    if (!response.ok) throw new Error(`the app answers ${response.status}`)
    return (await response.json()) as Ran
  }
  const told = async (...argv: readonly string[]): Promise<unknown> => {
    const { stdout, stderr } = await run(...argv)
    if (stdout === '') throw new Error(`nothing was printed: ${stderr}`)
    return JSON.parse(stdout)
  }
  return {
    id: made.id,
    url: made.url,
    run,
    python: (program) => told('python3', '-c', `import json\n${program}`),
    node: (program) => told('node', '-e', `console.log(JSON.stringify((() => { ${program} })()))`),
  }
}

const shells = new WeakMap<HostileServer, Promise<Shell>>()

/** Returns the attacker's app on this server. */
export function attackersShell(server: HostileServer): Promise<Shell> {
  const made = shells.get(server) ?? shell(server.attacker, 'shell')
  shells.set(server, made)
  return made
}
