import { afterEach, expect, it } from 'vitest'
import { createScope, startApp } from '../harness/gateway/harness.ts'
import { startLoad } from '../harness/gateway/load.ts'
import { startOne } from '../harness/gateway/program.ts'

const scope = createScope()
afterEach(() => scope.end())

it('the gateway process loses no request in ten switches under load, and none goes to a release that was replaced', async () => {
  const { gateway, port, app } = await startOne(scope)
  let current = app
  let release = 0
  const older: string[] = []
  const load = startLoad(scope, port, {
    loops: 8,
    begin: () => {
      const atLeast = release
      return (body) => {
        if (atLeast > 0 && Number(body) < atLeast) older.push(`${body} answered after the switch to ${atLeast}`)
      }
    },
  })
  for (let at = 1; at <= 10; at += 1) {
    const next = await startApp(scope, (_req, res) => setImmediate(() => res.end(String(at))))
    expect(await gateway.route('app', next.upstream)).toEqual(current.upstream)
    release = at
    await gateway.drain(current.upstream, { timeoutMs: 2 ** 30 })
    await current.stop()
    current = next
    await load.more(50)
  }
  await load.stop()
  expect([older, load.failures]).toEqual([[], []])
})
