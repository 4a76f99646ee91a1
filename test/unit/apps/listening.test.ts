import pino from 'pino'
import { expect, test } from 'vitest'
import type { App } from '../../../server/src/features/apps/apps.ts'
import { createListening } from '../../../server/src/features/apps/listening.ts'

/** A gateway that opens all addresses except the taken ones, and closes an address when the test says so. */
function gateway() {
  const open = new Set<string>()
  const taken = new Set<string>()
  const closing: (() => void)[] = []
  return {
    open,
    taken,
    /** Finishes all pending closes. */
    finish: () => {
      for (const each of closing.splice(0)) each()
    },
    client: {
      async open(id: string) {
        if (taken.has(id)) throw new Error('EADDRINUSE')
        open.add(id)
      },
      async close(id: string) {
        await new Promise<void>((done) => closing.push(done))
        open.delete(id)
      },
    },
  }
}

const app = (id: string) => ({ id, address: { host: '127.0.0.1', port: 3000 } }) as unknown as App

function listening() {
  const made = gateway()
  const lines: string[] = []
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) })
  return { ...made, lines, list: createListening({ gateway: made.client, logger }) }
}

test('logs a taken address once, and opens it when it is free', async () => {
  const { list, lines, taken, open } = listening()
  taken.add('one')
  await list.open(app('one'))
  await list.retry()
  expect(list.isOpen('one')).toBe(false)
  expect(lines).toHaveLength(1)
  taken.clear()
  await list.retry()
  expect(list.isOpen('one')).toBe(true)
  expect([...open]).toEqual(['one'])
})

test('does not retry a closed app', async () => {
  const { list, taken, open, finish } = listening()
  taken.add('one')
  await list.open(app('one'))
  const closed = list.close('one')
  taken.clear()
  await list.retry()
  finish()
  await closed
  expect([...open]).toEqual([])
})

test('keeping only listed apps closes the others, also an app whose address was taken, and opens missing ones', async () => {
  const { list, taken, open, finish } = listening()
  taken.add('taken')
  for (const id of ['kept', 'gone', 'taken']) await list.open(app(id))
  taken.clear()
  const kept = list.keepOnly(async () => [app('kept'), app('new')])
  const ended = kept.then(() => 'ended')
  for (let at = 0; at < 2; at += 1) {
    // It waits for each closing app.
    expect(await Promise.race([ended, new Promise((done) => setImmediate(done, 'closing'))])).toBe('closing')
    finish()
  }
  await ended
  expect([...open].toSorted()).toEqual(['kept', 'new'])
  await list.retry()
  expect([...open].toSorted()).toEqual(['kept', 'new'])
})

test('an app that is created during the listing stays open', async () => {
  const { list, open } = listening()
  await list.keepOnly(async () => {
    await list.open(app('made'))
    return []
  })
  expect([...open]).toEqual(['made'])
})
