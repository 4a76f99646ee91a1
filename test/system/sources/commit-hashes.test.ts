import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

let server: TestServer
let projectId: string
beforeAll(async () => {
  // Too short for a repeated fetch, so these failures must come at once.
  server = await ownServer({ FAIRLEAD_FETCH_TIMEOUT: '30' })
  projectId = (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
})
afterAll(() => server[Symbol.asyncDispose]())

const failureOf = async (body: Parameters<typeof deployAndSettle>[2]) =>
  (await deployAndSettle(server.client, projectId, body)).failure

describe('a deployment of a hash that is no commit', () => {
  it('fails at once and names the commit when it is a tag', async () => {
    await using source = await repository(nodeApp('tagged'))
    const commit = await source.git('rev-parse', 'HEAD')
    await source.git('tag', '--annotate', '--message', 'first', 'v1')
    const failure = await failureOf({ name: 'tag', git_url: source.url, commit: await source.git('rev-parse', 'v1') })
    expect(failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
    expect(failure?.message).toContain(`is a tag of the commit ${commit}`)
  })

  it.each(['HEAD^{tree}', 'HEAD:server.js'])('fails and says so when it is %s', async (object) => {
    await using source = await repository(nodeApp('files'))
    const failure = await failureOf({
      name: 'files',
      git_url: source.url,
      commit: await source.git('rev-parse', object),
    })
    expect(failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
    expect(failure?.message).toContain('is not a commit')
  })

  it('fails when a submodule is pinned to it', async () => {
    await using library = await repository({ 'a.txt': 'a' })
    await library.git('tag', '--annotate', '--message', 'first', 'v1')
    const tag = await library.git('rev-parse', 'v1')
    await using source = await repository(nodeApp('parent'))
    await source.commit({ '.gitmodules': `[submodule "lib"]\n\tpath = lib\n\turl = ${library.url}\n` })
    await source.git('update-index', '--add', '--cacheinfo', `160000,${tag},lib`)
    await source.git('commit', '--quiet', '--message', 'submodule')
    const failure = await failureOf({ name: 'submodule', git_url: source.url })
    expect(failure).toMatchObject({ stage: 'fetch', code: 'unknown_commit' })
  })
})
