import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { FromWorker, ToWorker } from '../../../server/dashboard/src/data/log/log-messages.ts'

/** The scope of a shared worker. */
const scope = globalThis as unknown as { onconnect?: (event: { readonly ports: readonly MessagePort[] }) => void }
/** Imported without types: tests have no browser types. */
const worker = new URL('../../../server/dashboard/src/data/log/log-worker.ts', import.meta.url).href

/** A tab that follows one log, and the worker's messages to the tab. */
function openTab(log: string) {
  const { port1: port, port2 } = new MessageChannel()
  scope.onconnect?.({ ports: [port2] })
  const told: FromWorker[] = []
  port.on('message', (message: FromWorker) => told.push(message))
  const send = (message: ToWorker) => port.postMessage(message)
  send({ kind: 'follow', number: 1, log, lastEventId: '', secret: 'secret' })
  return { told, leave: () => send({ kind: 'leave', number: 1 }), [Symbol.dispose]: () => port.close() }
}

describe('the worker that follows the logs of all tabs', () => {
  beforeAll(() => import(worker))
  afterEach(() => void vi.unstubAllGlobals())

  it('notifies only the tabs whose logs have no slot in the stream', async () => {
    let streamed: string[] = []
    vi.stubGlobal('fetch', async (target: string) => {
      streamed = new URL(target, 'http://localhost').searchParams.get('follow')?.split(',') ?? []
      return new Response(new ReadableStream())
    })
    using tabs = new DisposableStack()
    const opened = Array.from({ length: 52 }, (_, index) => tabs.use(openTab(`proj_1/dep_${index}`)))
    await expect.poll(() => streamed.length).toBe(50)
    await expect.poll(() => opened.slice(0, 2).map(({ told }) => told.length)).toEqual([1, 1])
    expect(streamed).toEqual(Array.from({ length: 50 }, (_, index) => `proj_1/dep_${index + 2}`))
    expect(opened[0]?.told).toEqual([
      {
        number: 1,
        error: {
          code: 'invalid_request',
          message:
            'This browser follows 50 logs at once, and later ones took the place of this one. ' +
            'Close some of them and load this page again.',
          details: {},
        },
      },
    ])
    expect(opened.slice(2).flatMap(({ told }) => told)).toEqual([])

    // The log of a notified tab does not return by itself when a slot is free.
    opened[51]?.leave()
    await expect.poll(() => streamed.length).toBe(49)
  })
})
