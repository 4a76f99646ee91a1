import { setTimeout as sleep } from 'node:timers/promises'
import { baseImage, changeImage, importBaseImage, type TestDockerd } from './docker.ts'
import type { TestRegistry } from './registry.ts'

/** Answers with its release, its host name and a variable. */
const app = `const { createServer } = require('node:http')
const release = Number(process.argv[2])
console.log('release ' + release + ' starts')
createServer((request, response) => response.end(JSON.stringify({
  release, host: require('node:os').hostname(), greeting: process.env.GREETING,
}))).listen(process.env.PORT)
process.on('SIGTERM', () => { console.log('goodbye'); process.exit(0) })`

export interface ContainerAnswer {
  readonly release: number
  readonly host: string
  readonly greeting?: string
}

/** Pushes the images `shop:1` and `shop:2` of an app. The engine keeps no copy. */
export async function pushShop({ engine }: TestDockerd, registry: TestRegistry): Promise<void> {
  await importBaseImage(engine, { 'app.js': app })
  for (const release of [1, 2]) {
    const name = `fairlead-test/shop:${release}`
    await changeImage(engine, name, [`CMD ["node", "app.js", "${release}"]`])
    await registry.push(engine, name, `shop:${release}`)
    await engine.call({ method: 'DELETE', path: ['images', name] })
  }
  await engine.call({ method: 'DELETE', path: ['images', baseImage] })
}

export interface Asking {
  readonly answered: number
  /** The statuses and errors of failed requests. */
  readonly failed: readonly unknown[]
  stop(): Promise<void>
}

/** Requests an address repeatedly in four loops, with a pause of some milliseconds after each response. */
export function startAsking(url: string): Asking {
  const seen = { answered: 0, failed: [] as unknown[] }
  const stopped = new AbortController()
  const ask = async () => {
    while (!stopped.signal.aborted) {
      const status = await fetch(url).then(
        async (response) => ((await response.text()) === '' ? 'empty' : response.status),
        (error: unknown) => error,
      )
      if (status === 200) seen.answered += 1
      else seen.failed.push(status)
      await sleep(10)
    }
  }
  const loops = [ask(), ask(), ask(), ask()]
  return {
    get answered() {
      return seen.answered
    },
    failed: seen.failed,
    async stop() {
      stopped.abort()
      await Promise.all(loops)
    },
  }
}
