import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'

/**
 * Builds what is stale: `node scripts/build.ts` everything, `node scripts/build.ts server` what a server needs.
 * The compiler knows by itself what has changed; a bundle is made again when its compiled entry is newer.
 */
const serverOnly = process.argv[2] === 'server'

run('tsc', ['-b', ...(serverOnly ? ['server'] : ['receiver', 'server', 'action'])])
bundle('server/dist/deployments/runner/static-server.js', 'server/dist/static-server', [])
if (!serverOnly) bundle('action/lib/main.js', 'action/dist', ['--license', 'licenses.txt'])

function bundle(entry: string, directory: string, options: readonly string[]): void {
  const made = `${directory}/index.js`
  if (existsSync(made) && statSync(made).mtimeMs >= statSync(entry).mtimeMs) return
  run('ncc', ['build', entry, '-o', directory, '--quiet', ...options])
}

function run(program: string, args: readonly string[]): void {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
