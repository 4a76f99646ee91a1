import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const read = async (url: string): Promise<string> => (await fetch(url)).text()

const httpServer = (answer: string) =>
  `require('node:http').createServer((request, response) => { ${answer} }).listen(process.env.PORT)\n`

describe('a Procfile with a release step', () => {
  const app = (release: string) => ({
    Procfile: 'release: node release.js\nweb: node server.js\n',
    'release.js': release,
    'server.js': httpServer("response.end(require('node:fs').readFileSync('migrated'))"),
  })

  it('runs the step with the variables before the app; when it fails, the earlier release continues', async () => {
    await using source = await repository(app("require('node:fs').writeFileSync('migrated', process.env.SCHEMA)"))
    const params = { project_id: given.projectId }
    const body = { name: 'released', git_url: source.url, env_vars: { SCHEMA: 'version 7' } }
    const first = await given.end((await given.client.deployments.create({ params, body })).id)
    expect(await read(first.url)).toBe('version 7')
    await source.commit(app("console.log('no such table'); process.exit(3)"))
    const second = await given.deploy('released', source.url)
    expect(second.failure).toMatchObject({ stage: 'build', code: 'release_failed' })
    expect(second.failure?.message).toContain('no such table')
    expect(await read(first.url)).toBe('version 7')
  })
})

describe('a fairlead.json', () => {
  const deployed = async (name: string, files: Record<string, string>) => {
    await using source = await repository(files)
    const made = await given.deploy(name, source.url)
    expect(made).toMatchObject({ status: 'running', failure: null })
    return made.url
  }

  it('runs its commands without a shell', async () => {
    const url = await deployed('words', {
      'fairlead.json': JSON.stringify({
        build: ['node', '-e', "require('node:fs').writeFileSync('made', process.argv.at(-1))", '$HOME && echo'],
        start: ['node', 'server.js'],
      }),
      'server.js': httpServer("response.end(require('node:fs').readFileSync('made'))"),
    })
    expect(await read(url)).toBe('$HOME && echo')
  })

  it('names the path of the readiness check', async () => {
    await deployed('ready', {
      'fairlead.json': JSON.stringify({ health: '/ready?deep=1' }),
      'package.json': '{}',
      'server.js': httpServer(`response.statusCode = request.url === '/ready?deep=1' ? 204 : 500; response.end()`),
    })
  })
})
