import type { BrowserServer } from 'playwright-core'
import type { TestProject } from 'vitest/node'
import { launchChromiumServer } from '../chromium.ts'
import { type Shared, startShared } from '../global-setup.ts'
import { listening } from '../listening.ts'
import { temporaryDirectory } from '../temporary.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The base URL of `/server` and `/chromium`, which describe what all dashboard tests of a run share. */
    dashboardParts: string
  }
}

/**
 * Offers a server and a Chromium to all dashboard tests of a run. Each starts when a test first asks for it, because
 * most system tests need neither.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { cluster, buildEnvironment } = project.getProvidedContext()
  const directory = await temporaryDirectory()
  let server: Promise<Shared> | undefined
  let chromium: Promise<BrowserServer> | undefined
  const parts: Readonly<Record<string, () => Promise<unknown>>> = {
    '/server': async () => {
      server ??= startShared(cluster, directory.path, buildEnvironment)
      return (await server).server
    },
    '/chromium': async () => {
      chromium ??= launchChromiumServer()
      return { address: (await chromium).wsEndpoint() }
    },
  }
  const offer = await listening((request, response) => {
    const part = parts[request.url ?? ''] ?? (() => Promise.reject(new Error(`there is no ${request.url}`)))
    part().then(
      (made) => response.end(JSON.stringify(made)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  project.provide('dashboardParts', offer.url)
  return async () => {
    await offer[Symbol.asyncDispose]()
    await (await chromium)?.close()
    await (await server)?.stop()
    await directory[Symbol.asyncDispose]()
  }
}
