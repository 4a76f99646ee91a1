import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Builds what is stale: `node scripts/build.ts` everything, `node scripts/build.ts server` what a server needs.
 * The compiler knows by itself what has changed; a bundle is made again when something that went into it is newer.
 */
const serverOnly = process.argv[2] === 'server'

run('tsc', ['-b', ...(serverOnly ? ['server'] : ['receiver', 'server', 'action'])])
bundle({
  entry: 'server/dist/deployments/runner/static-server.js',
  inputs: ['server/dist/deployments/runner/static-server.js'],
  directory: 'server/dist/static-server',
})
if (!serverOnly) {
  bundle({
    entry: 'action/lib/main.js',
    inputs: ['action/lib', 'server/dist/contract', 'package-lock.json'],
    directory: 'action/dist',
    options: ['--license', 'licenses.txt'],
  })
}

function bundle(request: { entry: string; inputs: string[]; directory: string; options?: string[] }): void {
  const made = join(request.directory, 'index.js')
  if (existsSync(made) && statSync(made).mtimeMs >= Math.max(...request.inputs.map(newest))) return
  run('ncc', ['build', request.entry, '-o', request.directory, '--quiet', ...(request.options ?? [])])
}

/** The time of the newest file at or below a path. */
function newest(path: string): number {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.mtimeMs
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))))
}

function run(program: string, args: readonly string[]): void {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
