import { chmod, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'
import { type ClientConfig, loadClientSettings, readClientConfig } from '../../platform/config/client.ts'
import { readOptional } from '../../platform/files.ts'
import { withCleanUp } from './clean-up.ts'
import { CommandError } from './command-error.ts'

const login = z.object({ url: z.string(), api_key: z.string() })

/** Reads the server of `fairlead login`. Throws a `CommandError` when other users may read its key. */
export async function readLogin(path: string): Promise<ClientConfig | undefined> {
  const text = await readOptional(path)
  if (text === undefined) return undefined
  if (((await stat(path)).mode & 0o077) !== 0) {
    throw new CommandError(`other users may read ${path}, which holds an API key. Run chmod 600 ${path}`)
  }
  try {
    const { url, api_key } = login.parse(JSON.parse(text))
    return readClientConfig(url, api_key)
  } catch {
    throw new CommandError(`${path} cannot be read. Run fairlead login again.`)
  }
}

/** Keeps the address and the key of a server for this user alone. Returns the path of the file. */
export async function storeLogin({ baseUrl, apiKey }: ClientConfig): Promise<string> {
  const { loginFile: path } = loadClientSettings()
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const temporary = `${path}.${process.pid}`
  const content = { url: baseUrl.replace(/\/v1$/, ''), api_key: apiKey }
  return withCleanUp(
    () => rm(temporary, { force: true }),
    async () => {
      await writeFile(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
      await chmod(temporary, 0o600)
      await rename(temporary, path)
      return path
    },
  )
}
