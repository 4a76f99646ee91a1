import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/**
 * Makes the files of a release from the output of `npm run build`: `node scripts/release/files.ts FOLDER`. These are
 * the packages, `fairlead.cdx.json` (CycloneDX: all components of an installed server) and `SHA256SUMS`.
 */

const [destination = 'release'] = process.argv.slice(2)
const folder = resolve(destination)
const manifest = JSON.parse(readFileSync('server/package.json', 'utf8')) as { version: string }
run('node', ['scripts/pack.ts', folder])
writeFileSync(
  join(folder, 'fairlead.cdx.json'),
  billOfMaterials(join(folder, `fairlead-server-${manifest.version}.tgz`)),
)
const names = readdirSync(folder).filter((name) => /\.tgz$|\.cdx\.json$/.test(name))
writeFileSync(join(folder, 'SHA256SUMS'), names.map((name) => `${sha256(join(folder, name))}  ${name}\n`).join(''))
process.stdout.write(readFileSync(join(folder, 'SHA256SUMS')))

/** Installs the server's package, because the sources' lock file also lists development dependencies. */
function billOfMaterials(server: string): string {
  const temporary = mkdtempSync(join(tmpdir(), 'fairlead-sbom-'))
  try {
    // npm names the result by its folder.
    const installation = join(temporary, 'fairlead')
    mkdirSync(installation)
    const root = { name: 'fairlead', version: manifest.version, private: true }
    writeFileSync(join(installation, 'package.json'), JSON.stringify(root))
    run('npm', ['install', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', server], installation)
    return run('npm', ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application'], installation)
  } finally {
    rmSync(temporary, { recursive: true })
  }
}

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

function run(program: string, args: readonly string[], cwd = '.'): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (status === 0) return stdout
  process.stderr.write(`${program} ${args.join(' ')} failed:\n${stderr}`)
  return process.exit(1)
}
