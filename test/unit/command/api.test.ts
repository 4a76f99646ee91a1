import { beforeAll, describe, expect, it } from 'vitest'
import { operations } from '../../../server/src/contract/operations.ts'
import { commandHere } from '../../harness/command-here.ts'
import { takes, testEndpoint } from '../../harness/endpoint.ts'

/** The address of a stopped server: wrong arguments are found before a request. */
let origin: string
beforeAll(async () => {
  const closed = await testEndpoint(takes)
  await closed[Symbol.asyncDispose]()
  origin = new URL(closed.url).origin
})

const environment = () => ({ FAIRLEAD_URL: origin, FAIRLEAD_API_KEY: 'fl_of_nobody' })
const api = (args: readonly string[]) => commandHere(['api', ...args], environment())

describe('fairlead api', () => {
  it('lists every operation that a key may call, with its summary', async () => {
    const { code, stdout } = await api(['--help'])
    expect(code).toBe(0)
    const text = stdout.replace(/\s+/g, ' ')
    for (const { name, summary, access } of operations) {
      if (access === 'user') expect(text).not.toContain(name)
      else expect(text).toMatch(new RegExp(`${name} (\\[options\\] )?${summary.replace(/[()]/g, '\\$&')}`))
    }
  })

  it('prints the options of an operation', async () => {
    const { stdout } = await api(['deployments.logs', '--help'])
    for (const flag of ['--project-id', '--id', '--tail', '--since', '--stream']) expect(stdout).toContain(flag)
    expect(stdout).not.toContain('--data')
  })

  it('the help of an operation lists the fields of its body', async () => {
    const { stdout } = await api(['deployments.create', '--help'])
    expect(stdout).toMatch(/^ {2}name \(string, required\)\n {6}The name of the app/m)
    expect(stdout).toMatch(/^ {2}keep_env_vars \(array of string\)$/m)
    expect((await api(['deployments.get', '--help'])).stdout).not.toContain('Fields of the body')
  })

  it.each([
    [['nonsense.list'], 'nonsense.list'],
    [['apiKeys.list'], 'apiKeys.list'],
    [['projects.get'], '--project-id'],
    [['projects.get', '--project-id', 'x', '--data', '{}'], '--data'],
    [['projects.create', '--data', 'secret'], '--data is not JSON'],
    [['projects.create', '--data', '@/nowhere/body.json'], '/nowhere/body.json cannot be read: ENOENT'],
    [['storage.upload', '--project-id', 'x', '--file', '/nowhere'], 'no file /nowhere'],
    [['storage.upload', '--project-id', 'x', '--file', '/'], 'no file /'],
  ])('%j fails and names what is wrong', async (args, named) => {
    const { code, stdout, stderr } = await api(args)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain(named)
    expect(stderr).not.toMatch(/secret| at /)
  })

  it('reports a missing server, and which variables are not set', async () => {
    const nobody = await commandHere(['api', 'projects.list'], { ...environment(), FAIRLEAD_URL: origin })
    expect(nobody).toMatchObject({ code: 1, stdout: '' })
    expect(nobody.stderr).toBe(`fairlead: ${origin}/v1 does not answer: ECONNREFUSED\n`)
    const unset = await commandHere(['api', 'projects.list'])
    expect(unset).toMatchObject({ code: 1, stdout: '' })
    expect(unset.stderr).toContain('FAIRLEAD_URL')
    expect(unset.stderr).toContain('FAIRLEAD_API_KEY')
  })
})
