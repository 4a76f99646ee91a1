import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'

/** Checks imports (by the table of rooms), phrases, types, format, lint, and that the committed bundle is fresh. */
run('node', ['scripts/rooms/main.ts', '--check'])
run('node', ['scripts/phrases.ts'])
run('tsc', ['-b'])
run('biome', ['check', '--error-on-warnings', '.'])
compareBundle()
process.stdout.write('check: all is well\n')

function compareBundle(): void {
  // Inside the repository, because the bundler names modules by their path below the working directory.
  const fresh = mkdtempSync('action/fresh-')
  try {
    run('ncc', ['build', 'action/lib/main.js', '-o', fresh, '--quiet', '--license', '[name].licenses.txt'])
    const names = new Set([...readdirSync('action/dist'), ...readdirSync(fresh)])
    const stale = [...names].filter((name) => read(join('action/dist', name)) !== read(join(fresh, name)))
    if (stale.length > 0) {
      process.stderr.write(
        `action/dist is not what its sources give (${stale.join(', ')}). Run npm run build and commit.\n`,
      )
      process.exit(1)
    }
  } finally {
    rmSync(fresh, { recursive: true })
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function run(program: string, args: readonly string[]): void {
  const { status } = spawnSync(`node_modules/.bin/${program}`, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
