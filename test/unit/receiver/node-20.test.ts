import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { node20 } from '../../harness/node-20.ts'

const program = `
import { createReceiver, generateSecret, memoryStore } from '@fairlead/receiver'
import { createClock, postWebhook, signWebhook } from '@fairlead/receiver/testing'
import Koa from 'koa'

const secret = generateSecret()
const { now } = createClock()
const receiver = createReceiver({ secrets: [secret], clock: now, dedupe: memoryStore({ capacity: 1 }) })
receiver.on('*', () => {})
const koa = new Koa().use(receiver.middleware({ path: '/hooks' }))
const answers = []
for (const id of ['msg_1', 'msg_1', 'msg_2', 'msg_1']) {
  const webhook = signWebhook({ id, event: 'ping', data: { webhook_id: 'wh_1' }, secret, clock: now })
  for (const app of [koa, { fetch: receiver.handle }]) answers.push((await postWebhook(app, '/hooks', webhook)).body.outcome)
}
console.log(answers.join(' '))
`

/** Removes an API that was added after Node 20.0. */
const asOldest = `
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
delete crypto.hash
syncBuiltinESMExports()
`

it.skipIf(node20 === undefined).each([
  ['as installed', ''],
  ['as first released', asOldest],
])('the built package works on Node 20 %s', (_, preparation) => {
  const preload = `data:text/javascript,${encodeURIComponent(preparation)}`
  const ran = spawnSync(node20 ?? '', ['--import', preload, '--input-type=module', '--eval', program], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    encoding: 'utf8',
  })
  expect([ran.stderr, ran.stdout]).toEqual([
    '',
    'handled duplicate duplicate duplicate handled duplicate handled duplicate\n',
  ])
})
