import { mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { BuildPlan } from '../../../server/src/builds/build-plan.ts'
import { chooseOutput } from '../../../server/src/builds/choose-output.ts'
import { type Files, planOf } from '../../harness/builds/planned.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** The names of files, or a record of names and texts. */
type Written = readonly string[]

async function write(directory: string, files: Files): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true })
    await writeFile(join(directory, path), typeof content === 'string' ? content : JSON.stringify(content))
  }
}

/** Returns a time after the last change of the present files and before any later change. */
async function nextMoment(directory: string): Promise<number> {
  const probe = join(directory, '.probe')
  const change = async () => {
    await writeFile(probe, '')
    return (await stat(probe)).ctimeMs
  }
  const since = (await change()) + 1
  while ((await change()) < since);
  await rm(probe)
  return since
}

/** Plans a repository, lets its build write files, and returns the chosen start. */
async function build(files: Files, written: Written) {
  const planned = planOf(files)
  if (!planned.ok) throw new Error(planned.failure.message)
  await using directory = await temporaryDirectory()
  await write(directory.path, files)
  const since = await nextMoment(directory.path)
  await write(directory.path, Object.fromEntries(written.map((path) => [path, 'built'])))
  return await chooseOutput(directory.path, planned.plan, since)
}

async function startOf(files: Files, written: Written): Promise<string> {
  const chosen = await build(files, written)
  return chosen.ok ? chosen.value.start.argv.join(' ') : chosen.failure.message
}

const app = (name: string | readonly string[], script = 'b'): Files => ({
  'package.json': {
    scripts: { build: script },
    devDependencies: Object.fromEntries([name].flat().map((each) => [each, '1'])),
  },
})

/** The ways in which a configuration program names the folder "docs". */
const spellings = ['"docs"', "path.resolve(__dirname, 'docs')", "process.env.OUT ?? 'docs'", 'folders.output']

const kit = ['@sveltejs/kit', 'vite']
const cases: Record<
  string,
  [packages: string | string[], config: string, text: string, written: string[], start: string]
> = {
  'adapter-static': [
    [...kit, '@sveltejs/adapter-static'],
    'svelte.config.js',
    'export default { kit: { adapter: adapter({ pages: FOLDER }) } }',
    ['.svelte-kit/output/prerendered/pages/index.html', 'docs/index.html', 'docs/about/index.html'],
    'fairlead-static docs',
  ],
  'adapter-static with a page for all paths': [
    kit,
    'svelte.config.js',
    'export default { kit: { adapter: adapter({ pages: FOLDER, fallback: "200.html" }) } }',
    ['docs/200.html', 'docs/_app/version.json'],
    'fairlead-static --spa docs',
  ],
  'adapter-node': [
    kit,
    'svelte.config.js',
    'export default { kit: { adapter: adapter({ out: FOLDER }) } }',
    ['docs/index.js', 'docs/handler.js', 'docs/server/index.js', 'docs/prerendered/index.html', 'lib/index.js'],
    'node docs',
  ],
  Next: [
    'next',
    'next.config.js',
    'module.exports = { distDir: FOLDER }',
    ['docs/BUILD_ID', 'docs/server/app/index.html'],
    'next start',
  ],
  'a site of Next': [
    'next',
    'next.config.mjs',
    'export default { output: "export", distDir: FOLDER }',
    ['.next/BUILD_ID', 'docs/index.html', 'docs/_next/static/a.js'],
    'fairlead-static docs',
  ],
  Nuxt: [
    'nuxt',
    'nuxt.config.ts',
    'export default { nitro: { output: { dir: FOLDER } } }',
    ['docs/server/index.mjs', 'docs/nitro.json', 'docs/public/index.html'],
    'node docs/server/index.mjs',
  ],
  Astro: [
    'astro',
    'astro.config.mjs',
    'export default { outDir: FOLDER }',
    ['docs/index.html', 'docs/a/index.html'],
    'fairlead-static docs',
  ],
  'a server of Astro': [
    ['astro', '@astrojs/node'],
    'astro.config.mjs',
    'export default { outDir: FOLDER }',
    ['docs/server/entry.mjs', 'docs/client/index.html'],
    'node docs/server/entry.mjs',
  ],
  'React Router': [
    ['@react-router/dev', '@react-router/serve'],
    'react-router.config.ts',
    'export default { buildDirectory: FOLDER }',
    ['docs/server/index.js', 'docs/client/assets/a.js'],
    'react-router-serve ./docs/server/index.js',
  ],
  Vite: [
    'vite',
    'vite.config.ts',
    'export default { build: { outDir: FOLDER } }',
    ['docs/index.html'],
    'fairlead-static --spa docs',
  ],
  'Vue CLI': [
    '@vue/cli-service',
    'vue.config.js',
    'module.exports = { outputDir: FOLDER }',
    ['docs/index.html'],
    'fairlead-static --spa docs',
  ],
  Eleventy: [
    '@11ty/eleventy',
    'eleventy.config.js',
    'export default () => ({ dir: { output: FOLDER } })',
    ['docs/index.html'],
    'fairlead-static docs',
  ],
  Docusaurus: [
    '@docusaurus/core',
    'docusaurus.config.js',
    'run("docusaurus", "--out-dir", FOLDER)',
    ['docs/index.html', 'docs/blog/index.html'],
    'fairlead-static docs',
  ],
  VitePress: [
    'vitepress',
    'website/.vitepress/config.ts',
    'export default { outDir: FOLDER }',
    ['website/.vitepress/dist/index.html'],
    'fairlead-static website/.vitepress/dist',
  ],
  NestJS: [
    '@nestjs/core',
    'nest-cli.json',
    '{ "compilerOptions": { "outDir": FOLDER } }',
    ['docs/src/main.js', 'docs/src/app.module.js'],
    'node docs/src/main.js',
  ],
  Angular: [
    '@angular/core',
    'project.json',
    '{ "outputPath": FOLDER }',
    ['docs/browser/index.html', 'docs/3rdpartylicenses.txt'],
    'fairlead-static --spa docs/browser',
  ],
  Qwik: [
    '@builder.io/qwik-city',
    'adapters/express/vite.config.ts',
    'export default { build: { outDir: FOLDER } }',
    ['docs/entry.express.js', 'dist/build/q.js'],
    'node docs/entry.express.js',
  ],
  webpack: [
    'webpack',
    'webpack.config.js',
    'module.exports = { output: { path: FOLDER } }',
    ['docs/index.html', 'docs/main.js'],
    'fairlead-static docs',
  ],
  Parcel: ['parcel', '.parcelrc', '{ "distDir": FOLDER }', ['docs/index.html'], 'fairlead-static --spa docs'],
  'a script': [
    [],
    'build.mjs',
    'await writeFile(join(FOLDER, "index.html"))',
    ['docs/index.html', 'docs/a/index.html'],
    'fairlead-static docs',
  ],
}

describe('the output of', () => {
  const all = Object.entries(cases).flatMap(([name, each]) =>
    spellings.map((spelling) => [name, spelling, each] as const),
  )

  test.each(all)('%s is found in a folder that its configuration names as %s', async (_, spelling, each) => {
    const [packages, config, text, written, start] = each
    // This build did not make pages that are sources, or that earlier builds left in the repository.
    const stale = { 'build/index.html': '', 'dist/index.html': '', 'public/index.html': '', 'src/index.html': '' }
    expect(await startOf({ ...app(packages), ...stale, [config]: text.replace('FOLDER', spelling) }, written)).toBe(
      start,
    )
  })

  test('a workspace member is found in its folder, otherwise where the workspace puts it', async () => {
    const files = { 'fairlead.json': { root: 'apps/web' }, 'apps/web/package.json': app('vite')['package.json'] ?? {} }
    expect(await startOf(files, ['apps/web/docs/index.html', 'packages/ui/docs/index.html'])).toBe(
      'fairlead-in apps/web fairlead-static --spa docs',
    )
    expect(await startOf(files, ['dist/apps/web/index.html'])).toBe(
      'fairlead-in apps/web fairlead-static --spa ../../dist/apps/web',
    )
  })

  test('the usual place of a build counts first, then another place, then the repository’s own files', async () => {
    expect(await startOf(app('vite'), ['docs/index.html', 'build/index.html'])).toBe('fairlead-static --spa build')
    expect(await startOf({ ...app([]), 'public/index.html': '' }, ['lib/a.js'])).toBe('fairlead-static public')
    expect(await startOf(app('@strapi/strapi'), ['dist/build/index.html'])).toBe('strapi start')
  })

  test('a build that adds to the site of the repository is served with it', async () => {
    const site = { ...app([]), 'public/index.html': '' }
    expect(await startOf(site, ['public/blog/index.html'])).toBe('fairlead-static public')
    expect(await startOf(site, ['public/app.js', 'docs/index.html'])).toBe('fairlead-static public')
  })

  test.each(['next start', 'next start -p $PORT', 'npx next start', 'npm run serve'])(
    'exported Next is served where the script for its server is %j',
    async (start) => {
      const scripts = { build: 'next build', start, serve: 'NODE_ENV=production next start' }
      const files = { 'package.json': { scripts, dependencies: { next: '16' } } }
      expect(await startOf(files, ['.next/BUILD_ID', 'out/index.html', 'out/_next/a.js'])).toBe('fairlead-static out')
      expect(await startOf(files, ['.next/BUILD_ID', 'docs/index.html', 'docs/_next/a.js'])).toBe(
        'fairlead-static docs',
      )
      const stale = { ...files, 'out/index.html': '' }
      expect(await startOf(stale, ['.next/BUILD_ID', 'storybook-static/index.html'])).toBe('npm start')
    },
  )

  test('packages, caches, reports and other platforms are not output', async () => {
    const others = ['node_modules/a', '.svelte-kit/output/prerendered/pages', '.vercel/output/static', 'coverage']
    for (const folder of others)
      expect(await startOf(app(kit), [`${folder}/index.html`])).toContain('nothing that can go live')
  })
})

describe('a build with uncertain output', () => {
  const plain = (start: readonly string[]): Files => ({ 'fairlead.json': { build: ['make'], start } })
  const nest = app('@nestjs/core')
  const uncertain: [string, Files, Written, string][] = [
    ['two sites', app('vite'), ['docs/index.html', 'examples/index.html'], 'fairlead-static --spa docs'],
    ['languages', app('vite'), ['site/de/index.html', 'site/en/index.html'], 'fairlead-static --spa site/de'],
    ['a page with another name', app([]), ['docs/home.html'], 'fairlead-static docs'],
    [
      'a bundle for the root page',
      { ...app('webpack'), 'index.html': '<script src=bundle/main.js>' },
      ['bundle/main.js'],
      'fairlead-static .',
    ],
    [
      'a bundle for a page of the repository',
      { ...app([]), 'www/index.html': '<script src="js/a.js">' },
      ['www/js/a.js'],
      'fairlead-static www',
    ],
    ['two servers', nest, ['dist/apps/api/main.js', 'dist/apps/jobs/main.js'], 'node dist/apps/api/main.js'],
    ['a server without a framework', app([], 'tsc'), ['lib/server.js', 'lib/routes.js'], 'node lib/server.js'],
    ["a server outside of its start's path", plain(['node', 'dist/main']), ['build/main.js'], 'node build/main.js'],
    [
      "a site outside of its start's path",
      plain(['fairlead-static', 'dist']),
      ['docs/index.html'],
      'fairlead-static docs',
    ],
    [
      "a site outside of its routed start's path",
      {
        'fairlead.json': { root: 'web', build: ['make'], start: ['fairlead-static', '--spa', 'dist', 'out'] },
        'web/a': '',
      },
      ['web/docs/index.html'],
      'fairlead-in web fairlead-static --spa docs',
    ],
    [
      "a main file outside of package.json's path",
      { 'package.json': { main: 'dist/index.js', scripts: { build: 'tsc' } } },
      ['build/index.js'],
      'node build/index.js',
    ],
  ]

  test.each(uncertain)(
    '%s names the files that it wrote, and runs with the advised start',
    async (_, files, written, start) => {
      const first = await build(files, written)
      expect(first).toMatchObject({ ok: false, failure: { code: 'no_build_output' } })
      const [, advised = ''] =
        /write "start": (\[.*?\]) in fairlead\.json/.exec(first.ok ? '' : first.failure.message) ?? []
      const settings = { ...(files['fairlead.json'] as object | undefined), start: JSON.parse(advised) as unknown }
      expect(await startOf({ ...files, 'fairlead.json': settings }, written)).toBe(start)
    },
  )

  test.each([
    ['@sveltejs/adapter-static', kit, 'Use @sveltejs/adapter-node'],
    ['@sveltejs/adapter-node', kit, 'Use @sveltejs/adapter-node'],
    ['@astrojs/node', ['astro'], '@astrojs/node'],
    ['@react-router/serve', ['@react-router/dev'], 'Use @react-router/serve'],
    ['@remix-run/serve', ['@remix-run/dev'], 'Use @remix-run/serve'],
    ['nitro', ['@tanstack/react-start'], 'Add the plugin of Nitro'],
  ])('gets the advice to use %s unless it does', async (added, packages, advice) => {
    expect(await startOf(app(packages), [])).toContain(advice)
    const already = await startOf(app([...packages, added]), [])
    expect(already).toMatch(/^The build made nothing that can go live: .* "start" in fairlead\.json/)
    expect(already).not.toContain(advice)
  })
})

test('without files lists the searched places, except missing folders', async () => {
  const message = await startOf(app([]), ['notes.txt'])
  expect(message).toContain('there is none of dist/index.html, build/index.html, out/index.html, public/index.html.')
  expect(message).not.toContain('fairlead-static')
})

test('finds no output outside of the sources', async () => {
  await using directory = await temporaryDirectory()
  await symlink('/etc', join(directory.path, 'dist'))
  await symlink('/etc', join(directory.path, 'docs'))
  const output = {
    paths: ['dist/hostname'],
    start: { argv: ['node', 'dist'] },
    moves: { folder: 'dist', root: '.' },
  } as const
  const plan: BuildPlan = { kind: 'node', build: [], start: output.start, outputs: [output] }
  expect(await chooseOutput(directory.path, plan, 0)).toMatchObject({ ok: false })
})

test('keeps a plan whose start is already known', async () => {
  const known: BuildPlan = { kind: 'node', build: [], start: { argv: ['node', 'server.js'] } }
  await using directory = await temporaryDirectory()
  expect(await chooseOutput(directory.path, known, 0)).toEqual({ ok: true, value: known })
})
