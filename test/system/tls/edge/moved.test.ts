import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { deployAndSettle } from '../../../harness/deployments.ts'
import { noCaddy, visit } from '../../../harness/edge.ts'
import { certified, domain, edgeSettings, uploadCertificate } from '../../../harness/edge-server.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { freePort } from '../../../harness/ports.ts'
import { fairlead, type ServerProcess, serverProcess } from '../../../harness/process.ts'
import { nodeApp, repository } from '../../../harness/repository.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const why = await noCaddy()
if (why !== null) skipped('apps of a server that gets a domain', why)

it.skipIf(why !== null)(
  'existing apps are reached below a new domain of their server, and at ports again without it',
  async () => {
    await using cleanup = new AsyncDisposableStack()
    const data = join(cleanup.use(await temporaryDirectory()).path, 'data')
    const plain = {
      FAIRLEAD_PORT: String(await freePort()),
      FAIRLEAD_ON_STOP: 'server',
      FAIRLEAD_FILE_SOURCES: tmpdir(),
    }
    const edge = await edgeSettings()
    let server: ServerProcess = await serverProcess(data, plain)
    cleanup.defer(async () => {
      await server.kill()
      await fairlead(['stop', '--timeout', '5', '--data-dir', data])
    })
    const key = (await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])).stdout.trim()
    const { id: project_id } = await server.clientFor(key).projects.create({ body: { name: 'shop' } })
    const source = cleanup.use(await repository(nodeApp('here')))
    const deploy = () => deployAndSettle(server.clientFor(key), project_id, { name: 'web', git_url: source.url })
    const first = await deploy()
    expect(await (await fetch(first.url)).text()).toBe('here')
    const urlNow = async () => (await server.clientFor(key).apps.list({ params: { project_id } })).apps[0]?.url ?? ''

    await server.stop()
    server = await serverProcess(data, { ...plain, ...edge.environment })
    await uploadCertificate(server.clientFor(key), `*.${domain}`)
    const host = new URL(await urlNow()).hostname
    expect(host).toMatch(/^web-[^.]+\.example\.test$/)
    await certified(host, edge.httpsPort)
    const at = { host, port: edge.httpsPort }
    await expect.poll(() => visit(at).catch(String)).toMatchObject({ status: 200, text: 'here' })
    expect(await deploy()).toMatchObject({ status: 'running', url: await urlNow() })
    expect(await visit(at)).toMatchObject({ status: 200, text: 'here' })

    await server.stop()
    server = await serverProcess(data, plain)
    await expect.poll(async () => (await fetch(await urlNow())).text().catch(String)).toBe('here')
  },
)
