import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { repository } from '../test/harness/repository.ts'

const appFolder = fileURLToPath(new URL('app', import.meta.url))

/** The git repository of the sample app. */
export interface Source {
  readonly url: string
  /** Commits and pushes this version to `main`, and resolves to the commit. */
  push(version: number): Promise<string>
}

/** Creates a working copy and, with the first push, the bare repository `remote`. */
export async function createSource(remote: string, running: AsyncDisposableStack): Promise<Source> {
  const app = running.use(await repository({}))
  let created = false
  return {
    url: `file://${remote}`,
    async push(version) {
      if (!created) await app.git('init', '--quiet', '--bare', remote)
      created = true
      const files = { 'version.json': JSON.stringify({ version }), ...(await sampleApp()) }
      const commit = await app.commit(files)
      await app.git('push', '--quiet', remote, 'main')
      return commit
    },
  }
}

async function sampleApp(): Promise<Record<string, string>> {
  const names = ['package.json', 'server.js']
  const contents = await Promise.all(names.map((name) => readFile(join(appFolder, name), 'utf8')))
  return Object.fromEntries(names.map((name, at) => [name, contents[at] ?? '']))
}
