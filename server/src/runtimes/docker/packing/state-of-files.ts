import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { SYSTEM_FOLDERS } from '../../../platform/disk/folders.ts'
import { startProcess } from '../../../platform/processes.ts'

/** Python writes there by itself, and nothing depends on it. */
const unstable = '__pycache__'

/**
 * Returns a hash that changes when a file is added to one of these folders, or to a folder within, or replaced or removed, as packages
 * are. What is written into a file in its place is not seen in folders, whose files would have to be looked at each.
 */
export async function stateOf(paths: readonly string[]): Promise<string> {
  const tests = ['-name', unstable, '-prune', '-o', '(', '-type', 'd', '-o', '-path', '/etc/*', ')']
  return printed(paths, [...tests, '-printf', '%p %T@\\n'])
}

/** Returns a hash of the names and sizes of all files in these folders. */
export const contentsOf = (paths: readonly string[]): Promise<string> => printed(paths, ['-printf', '%p %s %l\\n'])

async function printed(paths: readonly string[], expression: readonly string[]): Promise<string> {
  const find = startProcess('find', ['-P', ...paths, ...expression], {
    env: { PATH: SYSTEM_FOLDERS.join(':') },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const hash = createHash('sha256')
  find.stdout?.on('data', (chunk: Buffer) => void hash.update(chunk))
  // A file that is removed meanwhile is no failure.
  await once(find, 'close')
  return hash.digest('hex').slice(0, 16)
}
