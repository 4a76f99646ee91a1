import { EventSourceParserStream } from 'eventsource-parser/stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectNotFound } from '../../harness/conformance.ts'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { type Repository, repository } from '../../harness/repository.ts'

const secret = 'a secret value'

let given: ServerWithProject
let source: Repository
beforeAll(async () => {
  given = await serverWithProject()
  source = await repository({
    'package.json': JSON.stringify({ scripts: { start: 'node server.js' } }),
    'server.js': `console.log('started with ' + process.env.SECRET)
require('node:http').createServer((request, response) => {
  console.log('asked for ' + request.url)
  response.end()
}).listen(process.env.PORT)`,
  })
})
afterAll(async () => {
  await given?.[Symbol.asyncDispose]()
  await source?.[Symbol.asyncDispose]()
})

const deploy = async (name: string, other: { readonly branch?: string; readonly git_url?: string } = {}) => {
  const body = { name, git_url: source.url, env_vars: { SECRET: secret }, ...other }
  return given.end((await given.client.deployments.create({ params: { project_id: given.projectId }, body })).id)
}

interface Line {
  readonly id: string
  readonly deployment: string
  readonly text: string
}

/** Follows the log of an app. `until` resolves to all lines so far once one of them has the text. */
async function follow(appId: string, lastEventId?: string) {
  const gone = new AbortController()
  const response = await given.client.logs.read({
    params: { project_id: given.projectId, app_id: appId },
    headers: { accept: 'text/event-stream', ...(lastEventId && { 'last-event-id': lastEventId }) },
    signal: gone.signal,
  })
  const reader = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader()
  const lines: Line[] = []
  const until = async (text: string): Promise<readonly Line[]> => {
    while (!lines.some((line) => line.text === text)) {
      const { value } = (await reader?.read()) ?? {}
      if (value === undefined) throw new Error('the stream has ended')
      const data = JSON.parse(value.data) as { deployment_id: string; text: string; status?: string }
      lines.push({ id: value.id ?? '', deployment: data.deployment_id, text: data.status ?? data.text })
    }
    return lines
  }
  return { until, close: () => gone.abort() }
}

describe('GET /projects/:project_id/apps/:app_id/logs', () => {
  it('answers with the lines of all releases, each after a line with its id, with the values of variables masked', async () => {
    const first = await deploy('text')
    // It has no lines.
    await deploy('text', { branch: 'nowhere' })
    const second = await deploy('text')
    const { id } = await given.appNamed('text')
    const params = { project_id: given.projectId, app_id: id }
    const read = async (query: object) => (await (await given.client.logs.read({ params, query })).text()).split('\n')
    const text = await read({ stream: 'runtime' })
    const heads = text.filter((line) => line.startsWith('--- '))
    expect(heads.map((line) => line.split(' ')[1])).toEqual([first.id, second.id])
    expect(heads[0]).toContain(`commit ${first.commit?.slice(0, 12)}`)
    expect(text.filter((line) => line === 'started with ***')).toHaveLength(2)
    expect(text.join()).not.toContain(secret)
    expect((await read({})).indexOf('started with ***')).toBeGreaterThan(0)
    expect((await read({ tail: '1' })).filter((line) => line.startsWith('--- '))).toHaveLength(1)
  })

  it('follows the releases one after another, and new releases, and resumes at its last position', async () => {
    const first = await deploy('followed')
    const { id } = await given.appNamed('followed')
    const stream = await follow(id)
    expect((await stream.until('started with ***')).every(({ deployment }) => deployment === first.id)).toBe(true)
    const second = await deploy('followed')
    await fetch(`${second.url}/new`)
    const lines = await stream.until('asked for /new')
    const last = lines.at(-1)
    expect(last?.deployment).toBe(second.id)
    expect(lines.filter(({ text }) => text === 'started with ***').map(({ deployment }) => deployment)).toEqual([
      first.id,
      second.id,
    ])
    stream.close()

    await fetch(`${second.url}/later`)
    const rest = await follow(id, last?.id)
    expect((await rest.until('asked for /later')).map(({ text }) => text)).toEqual(['asked for /later'])

    // After a rollback, the target release is the newest.
    await given.client.deployments.rollback({ params: { project_id: given.projectId, id: first.id } })
    await given.end(first.id)
    await fetch(`${first.url}/back`)
    expect((await rest.until('asked for /back')).at(-1)?.deployment).toBe(first.id)
    rest.close()
    const whole = await follow(id)
    expect((await whole.until('asked for /back')).at(-1)?.deployment).toBe(first.id)
    await given.client.apps.delete({ params: { project_id: given.projectId, id } })
    await whole.until('deleted')
  })

  it('has the lines of the running release, however many releases have failed since', async () => {
    const serving = await deploy('old')
    for (let count = 0; count < 10; count += 1) await deploy('old', { branch: 'nowhere' })
    const { id } = await given.appNamed('old')
    const text = await (await given.client.logs.read({ params: { project_id: given.projectId, app_id: id } })).text()
    expect(text).toContain('started with ***')
    await fetch(`${serving.url}/`)
    const stream = await follow(id)
    expect((await stream.until('asked for /')).at(-1)?.deployment).toBe(serving.id)
    stream.close()
  })

  it('has an error for an app that does not exist, and ignores another log’s id', async () => {
    const { id } = await deploy('other')
    const app = await given.appNamed('other')
    await expectNotFound(given.server, 'logs.read', { project_id: given.projectId, app_id: app.id })
    const stream = await follow(app.id, '1-2')
    expect((await stream.until('started with ***'))[0]?.deployment).toBe(id)
    stream.close()
  })
})
