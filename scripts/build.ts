import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { sayAlive } from '../server/src/platform/alive.ts'
import { packCommand } from './command-package.ts'

/**
 * Builds everything that is out of date: `npm run build`, or `node scripts/run.js build server` for the parts that a
 * server needs. The compiler detects changes itself; a bundle is built again when one of its inputs is newer.
 */

/** Limit for the compressed scripts that one page of the dashboard loads. */
const maximumScriptBytes = 200_000
const serverOnly = process.argv[3] === 'server'

const isFirst = !existsSync('server/dist/programs/cli.mjs')
process.stdout.write(`Building what has changed${isFirst ? ', which takes a minute or two the first time' : ''}:\n`)
await step('compiling the sources', () =>
  run('tsc', ['-b', ...(serverOnly ? ['server', 'cli'] : ['receiver', 'server', 'action', 'cli'])]),
)
await buildPrograms()
await buildDashboard()
await buildCommand()
if (!serverOnly) {
  await bundle('the action', {
    entry: 'action/lib/main.js',
    inputs: ['action/lib', 'server/dist/contract', 'package-lock.json'],
    directory: 'action/dist',
    options: ['--license', '[name].licenses.txt'],
  })
}
process.stdout.write(`Built after ${(performance.now() / 1000).toFixed(1)} s.\n`)

/** Does one part of the build, and prints what it is. */
function step(what: string, work: () => Promise<void>): Promise<void> {
  process.stdout.write(`  ${what} …\n`)
  return sayAlive({ what, say: (line) => process.stdout.write(`  ${line}\n`) }, work)
}

/** Bundles the programs of the server, which its command starts. */
async function buildPrograms(): Promise<void> {
  const inputs = ['server/src', 'receiver/dist', 'scripts/programs', 'package-lock.json']
  const folder = 'server/dist/programs'
  // Written last.
  if (isFresh(join(folder, 'licenses.txt'), inputs)) return
  await step('bundling the programs of the server', async () => {
    const { bundlePrograms } = await import('./programs/bundle.ts')
    await bundlePrograms(folder)
  })
}

/** Bundles the command of users and the typed client, and packs their package into the server, which serves it. */
async function buildCommand(): Promise<void> {
  const parts = ['commands/client', 'contract', 'platform/config', 'http/reference'].map((part) =>
    join('server/dist', part),
  )
  const inputs = ['cli/lib', 'cli/package.json', ...parts, 'package-lock.json']
  const options = ['--license', 'licenses.txt']
  await bundle('the command', { entry: 'cli/lib/main.js', inputs, directory: 'cli/dist', options })
  const client = 'cli/dist/client'
  const clientInputs = ['server/dist/contract', 'server/dist/http/reference', 'scripts/client-types.ts']
  if (
    await bundle('the client', { entry: 'server/dist/contract/client.js', inputs: clientInputs, directory: client })
  ) {
    const { writeClientTypes } = await import('./client-types.ts')
    writeClientTypes(client)
  }
  const output = 'server/dist/cli.tgz'
  if (isFresh(output, ['cli/dist', 'cli/bin', 'cli/commonjs', 'cli/package.json', 'cli/README.md'])) return
  await step('packing the command', async () => packCommand(output))
}

/** Returns false when the bundle was fresh. */
async function bundle(
  name: string,
  request: { entry: string; inputs: string[]; directory: string; options?: string[] },
): Promise<boolean> {
  const output = join(request.directory, 'index.js')
  if (isFresh(output, request.inputs)) return false
  // The names of chunks change with their content, and the bundler leaves old ones there.
  rmSync(request.directory, { recursive: true, force: true })
  await step(`bundling ${name}`, () =>
    run('ncc', ['build', request.entry, '-o', request.directory, '--quiet', ...(request.options ?? [])]),
  )
  return true
}

/** Builds the dashboard's static files and compresses them, so that the server does not do that for every request. */
async function buildDashboard(): Promise<void> {
  const directory = 'server/dist/dashboard'
  const inputs = ['server/dashboard/src', 'server/dashboard/index.html', 'server/dashboard/vite.config.ts']
  const output = join(directory, 'index.html')
  if (isFresh(output, [...inputs, 'server/dist/contract', 'package-lock.json'])) return
  await step('building the dashboard', () => run('vite', ['build', '--logLevel', 'warn', 'server/dashboard']))
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|css|svg)$/.test(name)) continue
    const path = join(directory, name)
    const content = readFileSync(path)
    writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
    writeFileSync(`${path}.br`, brotliCompressSync(content))
  }
  checkSize(directory)
}

interface Chunk {
  readonly file: string
  readonly isEntry?: true
  readonly imports?: readonly string[]
  readonly dynamicImports?: readonly string[]
}

/** Exits with an error when a page loads too many bytes of scripts: those of the entry, of the page and of their imports. */
function checkSize(directory: string): void {
  const chunks = JSON.parse(readFileSync(join(directory, '.vite/manifest.json'), 'utf8')) as Record<string, Chunk>
  const withImports = (name: string, into = new Set<string>()): Set<string> => {
    if (into.has(name)) return into
    into.add(name)
    for (const imported of chunks[name]?.imports ?? []) withImports(imported, into)
    return into
  }
  const sizeOf = (name: string) => statSync(join(directory, `${chunks[name]?.file}.gz`)).size
  const [entry = ''] = Object.keys(chunks).filter((name) => chunks[name]?.isEntry)
  for (const page of chunks[entry]?.dynamicImports ?? []) {
    const bytes = [...withImports(page, withImports(entry))].reduce((sum, name) => sum + sizeOf(name), 0)
    if (bytes <= maximumScriptBytes) continue
    process.stderr.write(`${page} needs ${bytes} bytes of scripts, compressed; ${maximumScriptBytes} are allowed.\n`)
    process.exit(1)
  }
}

/** True when an output is at least as new as its inputs. */
function isFresh(output: string, inputs: readonly string[]): boolean {
  return existsSync(output) && statSync(output).mtimeMs >= Math.max(...inputs.map(newest))
}

/** Returns the modification time of the newest file at or below a path. */
function newest(path: string): number {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.mtimeMs
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))))
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const [status] = await once(spawn(`node_modules/.bin/${program}`, args, { stdio: 'inherit' }), 'exit')
  if (status !== 0) process.exit(status ?? 1)
}
