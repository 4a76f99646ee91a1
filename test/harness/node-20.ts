import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The oldest Node that the receiver supports, if the machine has it. */
export const node20: string | undefined = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map((directory) => join(directory, 'node'))
  .filter((path) => existsSync(path))
  .find((path) => spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout.startsWith('v20.'))
