import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Packs the output of `npm run build` for a release: `node scripts/pack.ts FOLDER`. The server's package contains the
 * receiver, so that one file installs a server, from a registry or without. Prints the path and size of each package.
 */

interface Manifest {
  readonly version: string
  readonly files: readonly string[]
  readonly dependencies: Readonly<Record<string, string>>
}

const [destination = 'packages'] = process.argv.slice(2)
const target = resolve(destination)
mkdirSync(target, { recursive: true })
for (const file of [
  'receiver/dist/index.js',
  'server/dist/programs/cli.mjs',
  'server/dist/dashboard/index.html',
  'server/dist/cli.tgz',
  'cli/dist/index.js',
]) {
  if (!existsSync(file)) fail(`${file} is missing. Run npm run build first.`)
}
copyCommand()
packServer(pack('receiver'))

/** The build has packed the command, because servers serve it. */
function copyCommand(): void {
  const path = join(target, `fairlead-cli-${readManifest('cli').version}.tgz`)
  cpSync('server/dist/cli.tgz', path)
  process.stdout.write(`${path}: ${statSync(path).size} bytes\n`)
}

/** Packs a copy of the server's folder: npm bundles what is in `node_modules`, where a workspace has only a link. */
function packServer(receiver: string): void {
  const stage = mkdtempSync(join(tmpdir(), 'fairlead-pack-'))
  try {
    const manifest = readManifest('server')
    for (const name of [...manifest.files.filter((pattern) => !pattern.startsWith('!')), 'README.md', 'LICENSE']) {
      cpSync(join('server', name), join(stage, name), { recursive: true })
    }
    const bundled = { ...manifest, bundleDependencies: ['@fairlead/receiver'] }
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify(bundled, null, 2)}\n`)
    const inside = join(stage, 'node_modules/@fairlead/receiver')
    mkdirSync(inside, { recursive: true })
    run('tar', ['-xzf', receiver, '--strip-components=1', '-C', inside])
    leaveOutDependencies(join(inside, 'package.json'))
    pack(stage)
  } finally {
    rmSync(stage, { recursive: true })
  }
}

/**
 * The server has all dependencies of the receiver. npm 9 of Debian 12 would take these packages for bundled packages,
 * and install empty folders in their place.
 */
function leaveOutDependencies(file: string): void {
  const { dependencies, ...manifest } = JSON.parse(readFileSync(file, 'utf8')) as { dependencies: object }
  const own = readManifest('server').dependencies
  for (const name of Object.keys(dependencies))
    if (own[name] === undefined) fail(`the server does not depend on ${name}`)
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`)
}

/** Packs a folder and returns the path of the package. */
function pack(folder: string): string {
  const output = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', target, resolve(folder)])
  const [packed] = Object.values(JSON.parse(output)) as {
    filename: string
    size: number
    unpackedSize: number
    files: []
  }[]
  if (packed === undefined) return fail('npm pack has packed nothing.')
  const { filename, size, unpackedSize, files } = packed
  const path = join(target, filename)
  process.stdout.write(`${path}: ${size} bytes, unpacked ${unpackedSize} bytes in ${files.length} files\n`)
  return path
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

function run(program: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (status !== 0) fail(error?.message ?? `${program} ${args.join(' ')} failed:\n${stderr}`)
  return stdout
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
