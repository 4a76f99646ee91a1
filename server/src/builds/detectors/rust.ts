import { fieldsOf } from '../json.ts'
import { failed, type Result, unreadable } from '../result.ts'
import { readToml } from '../toml.ts'
import type { SourceTree } from '../tree.ts'
import { toolVersion } from '../version-files.ts'
import { type Detector, type DetectorSource, startLine } from './detector.ts'
import { debianTool, noteVersionFiles, refuseVersion } from './tools.ts'

const MEMBERS = [
  '*/Cargo.toml',
  'crates/*/Cargo.toml',
  'apps/*/Cargo.toml',
  'bin/*/Cargo.toml',
  'services/*/Cargo.toml',
]

interface Program {
  readonly crate: string
  readonly name: string
  readonly isRocket: boolean
}

interface Manifest {
  readonly crate: string | undefined
  readonly programs: readonly Program[]
  readonly defaultRun: string | undefined
  readonly rustVersion: string | undefined
  readonly edition: string | undefined
}

/** Detects Rust apps. Only the programs stay after the build, because other build files take gigabytes. */
export const rust: Detector = {
  name: 'rust',
  recognises: 'a Cargo.toml with a program',
  files: ['Cargo.toml', 'Cargo.lock', 'rust-toolchain', 'rust-toolchain.toml', '.tool-versions', ...MEMBERS],
  tools: [debianTool('Rust', 'cargo', 'cargo', { args: ['--version'], pattern: /cargo (\d+\.\d+\.\d+)/ })],
  caches: { CARGO_HOME: 'cargo' },
  detect(source) {
    const { app } = source
    if (!app.has('Cargo.toml')) return null
    const manifests = readManifests(app)
    if (!manifests.ok) return manifests
    const programs = manifests.value.flatMap((each) => each.programs)
    const program = chooseProgram(manifests.value)
    const locked = app.has('Cargo.lock') ? ['--locked'] : []
    const only = program === undefined || programs.length === 1 ? [] : ['--package', program.crate]
    return {
      ok: true,
      value: {
        start: program === undefined ? null : startOf(program),
        advice: adviceOf(programs),
        uses: ['node', 'rust'],
        env: {},
        notes: notesOf(source, program),
        install: () => refuseRust(source, manifests.value) ?? { ok: true, value: [] },
        build: [
          { argv: ['cargo', 'build', '--release', ...locked, ...only] },
          { argv: ['rm', '-rf', 'target/release/deps', 'target/release/build', 'target/release/incremental'] },
        ],
      },
    }
  },
}

/** Rocket reads special variables for the port and the address. */
function startOf({ name, isRocket }: Program) {
  const file = `target/release/${name}`
  if (!isRocket) return { argv: [file] } as const
  return startLine('ROCKET_PORT="$PORT" ROCKET_ADDRESS=0.0.0.0 exec "$1"', file)
}

function readManifests(app: SourceTree): Result<readonly Manifest[]> {
  const top = readManifest(app, '.')
  if (!top.ok) return top
  const folders = ['.', 'crates', 'apps', 'bin', 'services']
  const members = folders.flatMap((folder) =>
    app.list(folder).map((name) => (folder === '.' ? name : `${folder}/${name}`)),
  )
  const found = members.filter((path) => app.read(`${path}/Cargo.toml`) !== undefined)
  const read = found.map((path) => readManifest(app, path)).flatMap((each) => (each.ok ? [each.value] : []))
  return { ok: true, value: [top.value, ...read] }
}

function readManifest(app: SourceTree, folder: string): Result<Manifest> {
  const path = (name: string) => (folder === '.' ? name : `${folder}/${name}`)
  const text = app.read(path('Cargo.toml'))
  if (text === undefined) return unreadable(path('Cargo.toml'))
  const read = readToml(path('Cargo.toml'), text)
  if (!read.ok) return failed('invalid_cargo_toml', read.message)
  const toml = read.value
  const crate = fieldsOf(toml['package'])
  const name = textOf(crate['name'])
  const isRocket = fieldsOf(toml['dependencies'])['rocket'] !== undefined
  const listed = Array.isArray(toml['bin']) ? toml['bin'].map((each) => textOf(fieldsOf(each)['name'])) : []
  const files = app.list(path('src/bin')).map((file) => file.replace(/\.rs$/, ''))
  const names = [...listed, ...(app.has(path('src/main.rs')) && listed.length === 0 ? [name] : []), ...files]
  const programs = [...new Set(names)].filter((each) => each !== undefined && /^[\w-]+$/.test(each))
  return {
    ok: true,
    value: {
      crate: name,
      programs: name === undefined ? [] : programs.map((each) => ({ crate: name, name: each ?? '', isRocket })),
      defaultRun: textOf(crate['default-run']),
      rustVersion: textOf(crate['rust-version']),
      edition: textOf(crate['edition']),
    },
  }
}

function chooseProgram(manifests: readonly Manifest[]): Program | undefined {
  const [top] = manifests
  const all = top !== undefined && top.programs.length > 0 ? top.programs : manifests.flatMap((each) => each.programs)
  const wanted = [top?.defaultRun, top?.crate, 'server', 'web', 'api', 'app']
  const named = wanted.map((name) => all.find((each) => each.name === name)).find((each) => each !== undefined)
  return all.length === 1 ? all[0] : named
}

function adviceOf(programs: readonly Program[]): string {
  if (programs.length === 0)
    return 'Cargo.toml is there, but no program (src/main.rs, src/bin/ or [[bin]]): name it in fairlead.json.'
  const names = programs.slice(0, 10).map(({ name }) => name)
  return `There are several programs (${names.join(', ')}): add a Procfile with a line such as "web: target/release/${names[0]}".`
}

/** The first Cargo that supports each edition (Rust release notes). */
const EDITIONS: Readonly<Record<string, string>> = { '2018': '1.31.0', '2021': '1.56.0', '2024': '1.85.0' }
const LOCKS: Readonly<Record<string, string>> = { '3': '1.53.0', '4': '1.78.0' }

function refuseRust({ app, versions }: DetectorSource, [manifest]: readonly Manifest[]) {
  const [, lock = ''] = /^version = (\d+)$/m.exec(app.read('Cargo.lock')?.slice(0, 500) ?? '') ?? []
  const { edition = '', rustVersion } = manifest ?? {}
  const asked = [
    { from: 'Cargo.toml', text: rustVersion, least: rustVersion },
    { from: 'Cargo.toml', text: `edition ${edition}`, least: EDITIONS[edition] },
    { from: 'Cargo.lock', text: `version ${lock} of the lock file`, least: LOCKS[lock] },
  ]
  for (const { from, text, least } of asked) {
    if (text === undefined || least === undefined) continue
    const refused = refuseVersion({ language: 'Rust', program: 'cargo', from, text, range: `>=${least}` }, versions)
    if (refused !== null) return refused
  }
  return null
}

function notesOf({ app, versions }: DetectorSource, program: Program | undefined): string[] {
  const toolchain = readToml('rust-toolchain', app.read('rust-toolchain.toml') ?? app.read('rust-toolchain') ?? '')
  const named = toolchain.ok ? textOf(fieldsOf(toolchain.value['toolchain'])['channel']) : undefined
  const channel = named ?? app.read('rust-toolchain')?.trim()
  const others = [
    { from: 'rust-toolchain', text: channel },
    { from: '.tool-versions', text: toolVersion(app, 'rust') },
  ].filter(({ text = '' }) => /^\d/.test(text))
  return [
    ...(program === undefined ? [] : [`Rust: target/release/${program.name} is started.`]),
    ...noteVersionFiles({ language: 'Rust', program: 'cargo' }, others, versions),
  ]
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && !value.includes('\0') ? value : undefined
