import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { baseImage, importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../../harness/docker.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { ownServerWithProject, type ServerWithProject } from '../../../harness/project.ts'
import { repository } from '../../../harness/repository.ts'
import { noDockerfiles } from '../../../harness/runtimes/docker/dockerfiles.ts'

const why = (await noDocker()) ?? (await noDockerfiles())
if (why !== null) skipped('apps that a Dockerfile builds', why)

/** Answers with its build's output, with whether it may write to a folder, and with a variable. */
const server = `const { readFileSync, writeFileSync } = require('node:fs')
const mayWrite = (path) => { try { writeFileSync(path + '/x', ''); return true } catch { return false } }
const answer = () => JSON.stringify({
  made: readFileSync('/app/made.txt', 'utf8').trim(),
  writes: mayWrite('/app'), tmp: mayWrite('/tmp'), greeting: process.env.GREETING,
})
require('node:http').createServer((request, response) => response.end(answer())).listen(process.env.PORT)`

const dockerfile = `FROM ${baseImage} AS web
WORKDIR /app
COPY server.js made.sh ./
RUN sh made.sh > made.txt
CMD ["node", "server.js"]
`

describe.skipIf(why !== null)('an app with a Dockerfile, on an engine', { timeout: 240_000 }, () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let given: ServerWithProject

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd())
    await importBaseImage(dockerd.engine)
    given = stack.use(await ownServerWithProject({ DOCKER_HOST: dockerd.host, FAIRLEAD_BASE_IMAGES: baseImage }))
  }, 180_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const answer = async (url: string) => (await fetch(url)).json()

  it('is built in its folder, runs with read-only files, and is rolled back to without a build', async () => {
    const folder = (made: string, settings: object) => ({
      'fairlead.json': JSON.stringify({ root: 'web', read_only: true, ...settings }),
      'web/Dockerfile': dockerfile,
      'web/server.js': server,
      'web/made.sh': `echo ${made}`,
      'package.json': JSON.stringify({ scripts: { start: 'node none.js' } }),
    })
    await using source = await repository(folder('first', { dockerfile: { target: 'web' } }))
    const create = { name: 'shop', git_url: source.url, env_vars: { GREETING: 'hello' } }
    const params = { project_id: given.projectId }
    const { id } = await given.client.deployments.create({ params, body: create })
    const first = await given.end(id)
    expect(first).toMatchObject({ status: 'running', failure: null, image: null })
    expect(await answer(first.url)).toEqual({ made: 'first', writes: false, tmp: true, greeting: 'hello' })

    await source.commit(folder('second', { read_only: false }))
    const second = await given.deploy('shop', source.url)
    expect(second).toMatchObject({ status: 'running', failure: null })
    expect(await answer(second.url)).toEqual({ made: 'second', writes: true, tmp: true })

    await given.client.deployments.rollback(given.paramsOf(id))
    const again = await given.end(id)
    expect(again.steps.map(({ name }) => name)).toEqual(['queued', 'start', 'check', 'switch'])
    expect(await answer(first.url)).toMatchObject({ made: 'first', writes: false, greeting: 'hello' })
  })

  it('that cannot be built fails with the end of the output, and leaves no image', async () => {
    await using source = await repository({ Dockerfile: `FROM ${baseImage}\nRUN echo this is why; exit 3\n` })
    const failed = await given.deploy('broken', source.url)
    expect(failed).toMatchObject({ status: 'failed', kept: false, failure: { stage: 'build', code: 'build_failed' } })
    expect(failed.failure?.message).toContain('this is why')
    const named = await dockerd.engine.call<{ RepoTags: string[] | null }[]>({
      method: 'GET',
      path: ['images', 'json'],
    })
    const tags = named.flatMap(({ RepoTags }) => RepoTags ?? [])
    expect(tags.filter((tag) => tag.includes(failed.id))).toEqual([])
  })
})
