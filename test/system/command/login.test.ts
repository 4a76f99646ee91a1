import { execFile } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { commandHere } from '../../harness/command-here.ts'
import { command } from '../../harness/process.ts'
import { type SignedInBrowser, type TestServer, testServer } from '../../harness/server.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let server: TestServer
let person: SignedInBrowser
beforeAll(async () => {
  server = await testServer()
  person = await server.signIn()
})
afterAll(() => server[Symbol.asyncDispose]())

/** Runs `fairlead login` without a key; calls back with the displayed code. */
async function logIn(decide: (code: string) => Promise<unknown>) {
  await using user = await temporaryDirectory()
  const env = { PATH: process.env['PATH'], XDG_CONFIG_HOME: user.path }
  const child = execFile(process.execPath, [command, 'login', server.url], { env })
  let [stdout, stderr] = ['', '']
  child.stdout?.on('data', (text) => (stdout += text))
  child.stdin?.end()
  const shown = new Promise<string>((found) =>
    child.stderr?.on('data', (text) => {
      stderr += text
      const [, code] = /\/device#([A-Z-]{9})\n/.exec(stderr) ?? []
      if (code !== undefined) found(code)
    }),
  )
  const ended = new Promise<number | null>((end) => child.on('exit', end))
  await decide(await shown)
  const code = await ended
  const file = join(user.path, 'fairlead', 'config.json')
  const kept = await readFile(file, 'utf8').then(JSON.parse, () => undefined)
  return { code, stdout, stderr, kept, mode: kept && (await stat(file)).mode & 0o777, folder: user.path }
}

it.concurrent('login stores the key that a person approves, readable only for the user, and never prints it', async () => {
  const { code, stdout, stderr, kept, mode } = await logIn((user_code) =>
    person.dashboard.device.approve({ body: { user_code } }),
  )
  expect({ code, mode }).toEqual({ code: 0, mode: 0o600 })
  expect(kept.url).toBe(server.url)
  expect((await server.clientFor(kept.api_key).account.get()).name).toBe('Operator')
  expect(stdout + stderr).not.toContain(kept.api_key)
  const names = (await person.client.apiKeys.list()).api_keys.map(({ name }) => name)
  expect(names).toContain(`fairlead login on ${hostname()}`)
})

it.concurrent('login ends with an error when the person refuses', async () => {
  const { code, stderr, kept } = await logIn((user_code) => person.dashboard.device.deny({ body: { user_code } }))
  expect({ code, kept }).toEqual({ code: 1, kept: undefined })
  expect(stderr).toContain('was refused')
})

it('login reports that an address is not a Fairlead server’s', async () => {
  const { code, stderr } = await commandHere(['login', `${server.url}/elsewhere`])
  expect(code).toBe(1)
  expect(stderr).toMatch(/fairlead: /)
  expect((await commandHere(['login', 'ftp://x'])).stderr).toContain('FAIRLEAD_URL must be')
})
