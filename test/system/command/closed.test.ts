import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, expect, it } from 'vitest'
import { command } from '../../harness/process.ts'
import { type Repository, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/*
 * The server is in the memory of the test: the tests check what a process does at a signal, and at the end of a pipe.
 */

const opened: { close(): unknown }[] = []
afterEach(() => {
  for (const each of opened.splice(0)) each.close()
})

const created = { id: 'dep_1', name: 'web', status: 'building', url: 'http://web.example', failure: null, steps: [] }

/**
 * Starts `fairlead deploy` of a repository on a server with these answers, in addition to the answers that every
 * deployment needs.
 */
async function deploying(
  source: Repository,
  answers: Readonly<Record<string, (response: ServerResponse, request: Parameters<RequestListener>[0]) => unknown>>,
) {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').replace(/\?.*/, '').replace('/v1/projects', '')
    const answer = answers[`${request.method} ${path}`]
    if (answer !== undefined) return void answer(response, request)
    if (path === '') return void response.end(JSON.stringify({ projects: [{ id: 'proj_1', name: 'p' }] }))
    request.resume().once('end', () => {
      if (path === '/proj_1/sources') return response.end('{"id":"src_1"}')
      return response.end(JSON.stringify(request.method === 'POST' ? created : { deployments: [] }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const temporary = await temporaryDirectory()
  const child = spawn(process.execPath, [command, 'deploy', source.path, '--project', 'p', '--name', 'web'], {
    env: {
      PATH: process.env['PATH'],
      HOME: temporary.path,
      TMPDIR: temporary.path,
      FAIRLEAD_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      FAIRLEAD_API_KEY: 'fl_1',
    },
  })
  opened.push({
    close() {
      child.kill('SIGKILL')
      server.close()
      server.closeAllConnections()
      return temporary[Symbol.asyncDispose]()
    },
  })
  return { child, temporary: temporary.path }
}

const signals = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const
it.each(Object.keys(signals) as (keyof typeof signals)[])(
  'an upload that %s ends leaves no source behind',
  async (signal) => {
    await using source = await repository({ 'large.bin': randomBytes(1_000_000).toString('hex') })
    const uploading = Promise.withResolvers<void>()
    const { child, temporary } = await deploying(source, {
      // The server accepts the upload and never answers.
      'POST /proj_1/sources': (_, request) => request.resume().once('end', uploading.resolve),
    })
    await uploading.promise
    expect(await readdir(temporary)).toHaveLength(1)
    child.kill(signal)
    expect(await once(child, 'exit')).toEqual([signals[signal], null])
    expect(await readdir(temporary)).toEqual([])
  },
)

it.each([
  ['running', 0],
  ['failed', 1],
])('a deployment without a reader of its log is followed until it is %s', async (status, code) => {
  await using source = await repository({ 'index.html': 'here' })
  const logs = Promise.withResolvers<ServerResponse>()
  const { child } = await deploying(source, {
    'GET /proj_1/deployments/dep_1/logs': (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('id: 1\ndata: {"text":"first"}\n\n')
      logs.resolve(response)
    },
    'GET /proj_1/deployments/dep_1': (response) => response.end(JSON.stringify({ ...created, status })),
  })
  const output = text(child.stdout)
  const exited = once(child, 'exit')
  const response = await logs.promise
  await once(child.stderr, 'data')
  child.stderr.destroy()
  for (let line = 2; line < 100; line++) response.write(`id: ${line}\ndata: {"text":"line"}\n\n`)
  response.end('event: end\ndata: {}\n\n')
  expect(await exited).toEqual([code, null])
  expect(await output).toBe(code === 0 ? 'http://web.example\n' : '')
})
