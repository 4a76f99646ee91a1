import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Packs the users' command into a file, which servers serve and a release publishes. Its `bin` is added here: in the
 * workspace it would replace the server's command of the same name.
 */
export function packCommand(output: string): void {
  const folder = mkdtempSync(`${output}-`)
  const stage = join(folder, 'package')
  mkdirSync(stage)
  for (const name of ['bin', 'commonjs', 'dist', 'README.md', 'LICENSE'])
    cpSync(join('cli', name), join(stage, name), { recursive: true })
  const manifest = JSON.parse(readFileSync('cli/package.json', 'utf8')) as object
  const packed = { ...manifest, bin: { fairlead: 'bin/fairlead.js' } }
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(packed, null, 2)}\n`)
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder, `./${stage}`]
  const { status } = spawnSync('npm', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const name = readdirSync(folder).find((each) => each.endsWith('.tgz'))
  if (status === 0 && name !== undefined) renameSync(join(folder, name), output)
  rmSync(folder, { recursive: true })
  if (status !== 0 || name === undefined) process.exit(status || 1)
}
