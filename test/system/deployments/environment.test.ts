import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ServerWithProject, serverWithProject } from '../../harness/project.ts'
import { repository } from '../../harness/repository.ts'

let given: ServerWithProject
beforeAll(async () => {
  given = await serverWithProject()
})
afterAll(() => given?.[Symbol.asyncDispose]())

it('an app has its variables unchanged, even by the line of a Procfile, and nothing of the server’s environment', async () => {
  await using source = await repository({
    Procfile: 'web: node app.js "$PORT"\n',
    'app.js':
      'require("node:http").createServer((q, r) => r.end(JSON.stringify(process.env))).listen(Number(process.argv[2]))',
  })
  const GREETING = 'from a variable, with "quotes", $PATH and\nlines'
  const params = { project_id: given.projectId }
  const body = { name: 'procfile', git_url: source.url, env_vars: { GREETING } }
  const deployment = await given.end((await given.client.deployments.create({ params, body })).id)
  const environment = (await (await fetch(deployment.url)).json()) as Record<string, string>
  expect(environment).toMatchObject({ GREETING, FAIRLEAD_DEPLOYMENT_ID: deployment.id })
  // The server finds the processes by these marks, which name this release.
  for (const mark of ['FAIRLEAD_PROCESS_MARK', 'FAIRLEAD_INSTANCE_MARK']) {
    expect(environment[mark]).toMatch(new RegExp(`^${deployment.id}\\.[\\w-]{43}$`))
  }
  const own = /^FAIRLEAD_(DEPLOYMENT_ID|PROCESS_MARK|INSTANCE_MARK)$/
  const foreign = Object.keys(environment).filter((name) => /DATABASE|SECRET|FAIRLEAD_/.test(name) && !own.test(name))
  expect(foreign).toEqual([])
})
