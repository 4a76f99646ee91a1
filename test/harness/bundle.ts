import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Client, ResponseBody } from '@fairlead/server/client'
import type { Repository } from './repository.ts'
import { temporaryDirectory } from './temporary.ts'

/** Returns the output of `git bundle create` for the arguments, such as the name of a branch. */
export async function bundleOf({ path }: Pick<Repository, 'path'>, ...args: string[]): Promise<Buffer> {
  await using folder = await temporaryDirectory()
  const file = join(folder.path, 'app.bundle')
  await promisify(execFile)('git', ['bundle', 'create', '--quiet', file, ...args], { cwd: path })
  // Awaited here: the folder is removed as soon as this function returns.
  return await readFile(file)
}

export function uploadBundle(
  client: Client,
  projectId: string,
  bundle: Uint8Array,
): Promise<ResponseBody<'sources.create'>> {
  return client.sources.create({ params: { project_id: projectId }, body: new Blob([new Uint8Array(bundle)]) })
}

/** Returns a bundle of one commit and its files, without the history, as `fairlead deploy` sends it. */
export async function shallowBundle({ path }: Pick<Repository, 'path'>, commit: string): Promise<Buffer> {
  const run = promisify(execFile)
  const { stdout } = await run('git', ['rev-list', '--objects', '--no-walk', commit], { cwd: path })
  const packing = run('git', ['pack-objects', '--stdout', '--quiet'], { cwd: path, encoding: 'buffer' })
  packing.child.stdin?.end(stdout)
  return Buffer.concat([Buffer.from(`# v2 git bundle\n${commit} refs/heads/main\n\n`), (await packing).stdout])
}
