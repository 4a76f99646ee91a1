import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { pullRequest, pullRequestEnvironment } from '../../harness/action/payloads.ts'
import { KEY, PROJECT, refusal, scriptedServer } from '../../harness/action/support.ts'
import { runAction } from '../../harness/run-action.ts'

/** Starts a server that deletes only deployments that are canceled or stopped. */
async function deploymentServer(deployments: Record<string, { name: string; status: string }>) {
  const server = createServer((request, response) => {
    const [, id = '', verb] = /\/deployments\/(\w+)(?:\/(\w+))?$/.exec(request.url ?? '') ?? []
    const found = deployments[id]
    const give = (status: number, body?: unknown, headers = {}) =>
      response.writeHead(status, headers).end(body === undefined ? '' : JSON.stringify(body))
    if (id === '') {
      const { searchParams } = new URL(request.url ?? '', 'http://x')
      const all = Object.entries(deployments).map(([key, rest]) => ({ id: key, ...rest }))
      const half = Math.ceil(all.length / 2)
      return searchParams.has('cursor')
        ? give(200, { deployments: all.slice(half) })
        : give(200, { deployments: all.slice(0, half) }, { link: `<${request.url}?cursor=x>; rel="next"` })
    }
    if (found === undefined) return give(404, { error: { code: 'not_found', message: 'x', details: {} } })
    const required = { cancel: 'building', stop: 'running' }[verb ?? '']
    if (verb === undefined ? ['building', 'running'].includes(found.status) : found.status !== required) {
      return give(400, { error: { code: 'invalid_request', message: found.status, details: {} } })
    }
    if (verb !== undefined) {
      found.status = 'stopped'
      return give(200, { id, ...found })
    }
    delete deployments[id]
    return give(204)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

const close = (url: string) =>
  runAction({
    inputs: { 'api-url': url, 'api-key': KEY, 'project-id': PROJECT, name: 'web' },
    env: pullRequestEnvironment,
    payload: pullRequest('closed'),
  })

test('closing a pull request removes its app in any state, and no other app', async () => {
  const deployments = {
    dep_1: { name: 'web-pr-12', status: 'building' },
    dep_2: { name: 'web', status: 'running' },
    dep_3: { name: 'web-pr-12', status: 'running' },
    dep_4: { name: 'web-pr-120', status: 'running' },
    dep_5: { name: 'web-pr-12', status: 'superseded' },
  }
  await using server = await deploymentServer(deployments)
  const result = await close(server.url)
  expect(result).toMatchObject({ code: 0, outputs: { status: 'removed' } })
  expect(result.stdout).toContain('web-pr-12 was removed with its 3 deployments.')
  expect(Object.keys(deployments)).toEqual(['dep_2', 'dep_4'])
})

test('a missing app is not a failure', async () => {
  await using server = await deploymentServer({})
  const result = await close(server.url)
  expect(result).toMatchObject({ code: 0, outputs: { status: 'removed' } })
  expect(result.stdout).toContain('There is no app web-pr-12.')
})

test('a refused removal fails the run', async () => {
  await using server = await scriptedServer({ create: 'hang', polls: refusal(403, 'forbidden', 'It lacks a scope.') })
  const result = await close(server.url)
  expect(result).toMatchObject({ code: 1, outputs: { status: 'failed' } })
  expect(result.stdout).toMatch(/^::error title=Fairlead::`api-key`: .*It lacks a scope/m)
})
