import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../../harness/deployments.ts'
import { changeImage, importBaseImage, noDocker, startDockerd, type TestDockerd } from '../../../harness/docker.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { type OwnServerWithProject, ownServerWithProject } from '../../../harness/project.ts'
import { noRegistry, startRegistry, type TestRegistry } from '../../../harness/registry.ts'

const why = (await noDocker()) ?? (await noRegistry())
if (why !== null) skipped('images with a HEALTHCHECK', why)

/** Becomes ready two seconds after its start. */
const app = `const { createServer } = require('node:http')
createServer((request, response) => response.end('hello')).listen(process.env.PORT)
setTimeout(() => require('node:fs').writeFileSync('/tmp/ready', ''), 2000)
process.on('SIGTERM', () => process.exit(0))`

describe.skipIf(why !== null)('an image whose HEALTHCHECK has a long interval', () => {
  const stack = new AsyncDisposableStack()
  let dockerd: TestDockerd
  let registry: TestRegistry
  let given: OwnServerWithProject

  const deploy = async (name: string, check: string) => {
    const changes = ['CMD ["node", "app.js"]', `HEALTHCHECK --interval=5m --retries=1 ${check}`]
    await changeImage(dockerd.engine, `fairlead-test/${name}:1`, changes)
    await registry.push(dockerd.engine, `fairlead-test/${name}:1`, `${name}:1`)
    const body = { name, image: `${registry.host}/${name}:1`, env_vars: { SECRET: 'secret-of-the-app' } }
    return deployAndSettle(given.client, given.projectId, body)
  }

  beforeAll(async () => {
    dockerd = stack.use(await startDockerd())
    registry = stack.use(await startRegistry())
    await importBaseImage(dockerd.engine, { 'app.js': app })
    given = stack.use(await ownServerWithProject({ DOCKER_HOST: dockerd.host, FAIRLEAD_START_TIMEOUT: '15' }))
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  it('gets the address when the check succeeds, and not only after the interval; a new server adopts it', async () => {
    const made = await deploy('shop', 'CMD ls /tmp/ready')
    expect(made).toMatchObject({ status: 'running', failure: null })
    const { started_at: begun, finished_at: ended } = made.steps.find(({ name }) => name === 'check') ?? {}
    expect(Date.parse(ended ?? '') - Date.parse(begun ?? '')).toBeGreaterThan(1_500)
    await given.server.restart()
    await expect.poll(async () => (await fetch(made.url)).text(), { timeout: 30_000 }).toBe('hello')
  }, 120_000)

  it('fails with the check’s output', async () => {
    const { failure } = await deploy('sick', 'CMD ls "/none/$SECRET"')
    expect(failure).toMatchObject({ code: 'unhealthy' })
    expect(failure?.message).toContain('the HEALTHCHECK of its image fails with code')
    expect(failure?.message).toContain("cannot access '/none/")
    expect(failure?.message).not.toContain('of-the-app')
  }, 120_000)

  it('fails with the name of its missing program', async () => {
    const { failure } = await deploy('bare', 'CMD ["curl", "http://localhost"]')
    expect(failure?.message).toMatch(/the HEALTHCHECK of its image fails.*"?curl"?: executable file not found/s)
  }, 120_000)
})
