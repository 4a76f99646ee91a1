import { afterEach, expect, it, vi } from 'vitest'

/** Imported without types: tests have no browser types. */
const file = new URL('../../../server/dashboard/src/data/log/open-log.ts', import.meta.url).href

interface OpenLog {
  openLog(request: {
    readonly projectId: string
    readonly id: string
    readonly lastEventId: string
    readonly signal: AbortSignal
  }): Promise<{ readonly body: ReadableStream<Uint8Array> | null }>
}

afterEach(() => void vi.unstubAllGlobals())

it('a log continues over a separate connection when the shared worker cannot load', async () => {
  const workers: { readonly onerror: () => void }[] = []
  vi.stubGlobal('location', { href: 'http://localhost/' })
  vi.stubGlobal('localStorage', { getItem: () => null })
  vi.stubGlobal('addEventListener', () => undefined)
  vi.stubGlobal(
    'SharedWorker',
    class {
      onerror = () => undefined
      readonly port = { postMessage: () => undefined }
      constructor() {
        workers.push(this)
      }
    },
  )
  vi.stubGlobal('fetch', async () => new Response('data: {"text":"a line"}\n\n'))
  const { openLog } = (await import(file)) as OpenLog
  const open = () =>
    openLog({ projectId: 'proj_1', id: 'dep_1', lastEventId: '', signal: new AbortController().signal })

  const first = (await open()).body?.getReader().read()
  workers[0]?.onerror()
  await expect(first).rejects.toThrow('the connection was lost')
  expect(await new Response((await open()).body).text()).toContain('a line')
  expect(workers).toHaveLength(1)
})
