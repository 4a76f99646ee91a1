import type { Program } from '../shell-lines.ts'

export interface FrameworkApp {
  /** True for a dependency or development dependency of the app. */
  uses(name: string): boolean
  /** Reads a file at the top of the app's folder; undefined when missing. */
  read(name: string): string | undefined
  readonly builds: readonly Program[]
}

/** Paths start at the app's folder. */
export type Output =
  /** A server, started by these words if the file exists. */
  | {
      readonly file: string
      readonly start: readonly [string, ...string[]]
      /** A configuration may replace this part of the path and the words. */
      readonly folder?: string
      /** A name in the folder that distinguishes the server from other programs. */
      readonly beside?: string
    }
  /** A site, if the folder has an index.html. With `isRouted`, its routes exist only in the browser. */
  | { readonly folder: string; readonly isRouted: boolean; readonly beside?: string }

export interface Framework {
  readonly name: string
  readonly packages: readonly string[]
  /** The build command for a package.json without a build script. */
  readonly build?: readonly [string, ...string[]]
  /** All possible outputs of its build, the most specific first. */
  outputs(app: FrameworkApp): readonly Output[]
  /** Variables of its production server behind the gateway. */
  readonly env?: Readonly<Record<string, string>>
  buildEnv?(app: FrameworkApp): Readonly<Record<string, string>>
  /** Returns a sentence for a build without any of the outputs; undefined if the app follows the advice. */
  advice?(app: FrameworkApp): string | undefined
}

export const nodeServer = (file: string, argument = file): Output => ({ file, start: ['node', argument] })

/** A server file for Node, in a folder that a configuration may replace. */
const serverIn = (folder: string, entry: string, beside?: string): Output => ({
  file: `${folder}/${entry}`,
  start: ['node', `${folder}/${entry}`],
  folder,
  ...(beside === undefined ? {} : { beside }),
})

/** Returns advice unless the app has one of the recommended packages. */
const unlessUses =
  (sentence: string, ...packages: readonly string[]) =>
  ({ uses }: FrameworkApp): string | undefined =>
    packages.some(uses) ? undefined : sentence

/** A site with one page for each address. */
const pages = (folder: string): Output => ({ folder, isRouted: false })

/** A site whose routes exist only in the browser. */
const routed = (folder: string): Output => ({ folder, isRouted: true })

/** Returns the value of an option, such as `--outDir`, of a program in the build. */
function optionOf({ builds }: FrameworkApp, program: string, ...names: readonly string[]): string | undefined {
  for (const { name, args } of builds) {
    if (name !== program) continue
    for (const [at, arg] of args.entries()) {
      const [key, value] = arg.split(/=(.*)/s)
      if (names.includes(key ?? '')) return insideOf(value ?? args[at + 1])
    }
  }
  return undefined
}

/** Returns the first word after the verb of a program in the build, such as `docs` in `vitepress build docs`. */
function folderOf({ builds }: FrameworkApp, program: string): string | undefined {
  const found = builds.find(({ name, args }) => name === program && args[0] === 'build')
  const [, folder] = found?.args ?? []
  return folder?.startsWith('-') === true ? undefined : insideOf(folder)
}

/** Returns a configured folder below the app's folder; undefined for any other value. */
export function insideOf(path: string | undefined): string | undefined {
  if (path === undefined || !/^(?:\.\/)?[\w@-][\w@.-]*(?:\/[\w@-][\w@.-]*)*\/?$/.test(path)) return undefined
  return path.replace(/^\.\//, '').replace(/\/$/, '')
}

/** The output of Nitro's preset `node-server`, which several frameworks use. */
const nitro = [serverIn('.output', 'server/index.mjs', 'nitro.json'), routed('.output/public')]

const svelteConfigs = ['svelte.config.js', 'svelte.config.ts', 'vite.config.js', 'vite.config.ts', 'vite.config.mjs']
const hasFallback = (app: FrameworkApp) => svelteConfigs.some((name) => /\bfallback\s*:/.test(app.read(name) ?? ''))

const reactRouterConfigs = ['react-router.config.ts', 'react-router.config.js']
const isForBrowser = (config = '') => /\bssr\s*:\s*false\b/.test(config)

/** Frameworks with a server. They precede the build tools that they use. */
export const serverFrameworks: readonly Framework[] = [
  {
    name: 'Next.js',
    packages: ['next'],
    build: ['next', 'build'],
    // The folder of scripts distinguishes an exported site from a server's pages.
    outputs: () => [
      { ...pages('out'), beside: '_next' },
      { file: '.next/BUILD_ID', start: ['next', 'start'], folder: '.next' },
    ],
  },
  {
    name: 'Nuxt',
    packages: ['nuxt', 'nuxt3', 'nuxt-nightly', 'nuxt-edge'],
    build: ['nuxt', 'build'],
    outputs: () => [...nitro, { file: '.nuxt/dist/server/server.js', start: ['nuxt', 'start'] }, routed('dist')],
  },
  {
    name: 'SvelteKit',
    packages: ['@sveltejs/kit'],
    build: ['vite', 'build'],
    outputs: (app) => [
      { ...nodeServer('build/index.js', 'build'), folder: 'build', beside: 'handler.js' },
      hasFallback(app) ? routed('build') : pages('build'),
      nodeServer('.output/server/index.mjs'),
    ],
    // Otherwise the server assumes HTTPS for every request, and refuses forms sent by HTTP as cross-site.
    env: { PROTOCOL_HEADER: 'x-forwarded-proto', HOST_HEADER: 'x-forwarded-host', ADDRESS_HEADER: 'x-forwarded-for' },
    // adapter-auto chooses by variables of the host; this one makes it install and use adapter-node.
    buildEnv: (app): Readonly<Record<string, string>> =>
      app.uses('@sveltejs/adapter-auto') && !app.uses('@sveltejs/adapter-node') ? { GCP_BUILDPACKS: '1' } : {},
    advice: unlessUses(
      'Use @sveltejs/adapter-node for a server, or @sveltejs/adapter-static for a site.',
      '@sveltejs/adapter-node',
      '@sveltejs/adapter-static',
    ),
  },
  {
    name: 'Astro',
    packages: ['astro'],
    build: ['astro', 'build'],
    outputs: () => [serverIn('dist', 'server/entry.mjs'), pages('dist')],
    advice: unlessUses(
      'For pages that are made on request, use the adapter @astrojs/node with the mode "standalone".',
      '@astrojs/node',
    ),
  },
  {
    name: 'React Router',
    packages: ['@react-router/dev'],
    build: ['react-router', 'build'],
    // Even without a server at run time, the build creates one to render the first page.
    outputs: (app) => {
      const isServed =
        app.uses('@react-router/serve') && !reactRouterConfigs.some((name) => isForBrowser(app.read(name)))
      const server: Output = {
        file: 'build/server/index.js',
        start: ['react-router-serve', './build/server/index.js'],
        folder: 'build',
        beside: 'client',
      }
      return [...(isServed ? [server] : []), routed('build/client')]
    },
    advice: unlessUses('Use @react-router/serve for a server.', '@react-router/serve'),
  },
  {
    name: 'Remix',
    packages: ['@remix-run/dev'],
    build: ['remix', 'vite:build'],
    outputs: (app) => {
      const servers: readonly Output[] = [
        {
          file: 'build/server/index.js',
          start: ['remix-serve', './build/server/index.js'],
          folder: 'build',
          beside: 'client',
        },
        { file: 'build/index.js', start: ['remix-serve', 'build'] },
      ]
      return [...(app.uses('@remix-run/serve') ? servers : []), routed('build/client')]
    },
    advice: unlessUses('Use @remix-run/serve for a server.', '@remix-run/serve'),
  },
  {
    name: 'Analog',
    packages: ['@analogjs/platform'],
    build: ['vite', 'build'],
    outputs: () => [serverIn('dist/analog', 'server/index.mjs'), routed('dist/analog/public')],
  },
  {
    name: 'SolidStart',
    packages: ['@solidjs/start', 'solid-start'],
    build: ['vite', 'build'],
    outputs: () => [...nitro, nodeServer('dist/server.js')],
    advice: () => 'Set its server to the preset "node-server".',
  },
  {
    name: 'TanStack Start',
    packages: ['@tanstack/react-start', '@tanstack/solid-start', '@tanstack/start'],
    build: ['vite', 'build'],
    outputs: () => [...nitro, routed('dist/client')],
    advice: unlessUses(
      'Add the plugin of Nitro, which makes a server for Node.',
      'nitro',
      'nitropack',
      'nitro-nightly',
    ),
  },
  {
    name: 'Nitro',
    packages: ['vinxi', 'nitro', 'nitropack', 'nitro-nightly', 'nitropack-nightly'],
    build: ['nitro', 'build'],
    outputs: () => nitro,
  },
  {
    name: 'Qwik City',
    packages: ['@builder.io/qwik-city', '@qwik.dev/router'],
    build: ['qwik', 'build'],
    outputs: () => [
      ...['node-server', 'express', 'fastify'].map((kind) => serverIn('server', `entry.${kind}.js`)),
      pages('dist'),
    ],
    advice: () =>
      'Add an adapter: "npm run qwik add node-server" for a server, or "npm run qwik add static" for a site.',
  },
  {
    name: 'Angular',
    packages: ['@angular/core'],
    build: ['ng', 'build'],
    outputs: (app) =>
      angularFolders(app).flatMap((folder) => [
        serverIn(folder, 'server/server.mjs'),
        routed(`${folder}/browser`),
        routed(folder),
      ]),
  },
  {
    name: 'NestJS',
    packages: ['@nestjs/core'],
    build: ['nest', 'build'],
    outputs: () => ['main.js', 'src/main.js', 'main.mjs'].map((entry) => serverIn('dist', entry)),
  },
  {
    name: 'Strapi',
    packages: ['@strapi/strapi'],
    build: ['strapi', 'build'],
    outputs: () => [{ file: 'package.json', start: ['strapi', 'start'] }],
  },
  {
    name: 'Keystone',
    packages: ['@keystone-6/core'],
    build: ['keystone', 'build'],
    outputs: () => [{ file: '.keystone/config.js', start: ['keystone', 'start'] }],
  },
  {
    name: 'Quasar',
    packages: ['@quasar/app-vite', '@quasar/app-webpack'],
    build: ['quasar', 'build'],
    outputs: () => [serverIn('dist', 'ssr/index.js'), routed('dist/spa'), routed('dist/pwa')],
  },
]

/** Returns the output folders of the projects in angular.json: the named folders, and the default `dist/<name>`. */
function angularFolders(app: FrameworkApp): readonly string[] {
  const text = app.read('angular.json') ?? ''
  const named = [
    ...text.matchAll(/"outputPath"\s*:\s*(?:\{[^{}]*?"base"\s*:\s*)?"(?:\.\/)?([\w@.-]+(?:\/[\w@.-]+)*)\/?"/g),
  ]
  // The first key of "projects"; the others are libraries and tests.
  const projects = [
    ...text.matchAll(/"([\w@./-]+)"\s*:\s*\{\s*"(?:projectType|\$schema|root|schematics|prefix|i18n)"/g),
  ]
  const folders = [...named.map(([, folder]) => folder ?? ''), ...projects.map(([, name]) => `dist/${name}`), 'dist']
  return [...new Set(folders)].filter((folder) => !folder.split('/').includes('..')).slice(0, 10)
}

const routers = [
  'react-router',
  'react-router-dom',
  'vue-router',
  '@tanstack/react-router',
  '@solidjs/router',
  'wouter',
  'preact-router',
  'preact-iso',
  'svelte-routing',
  'page',
]

const webpackConfigs = ['webpack.config.js', 'webpack.config.cjs', 'webpack.config.mjs', 'webpack.config.ts']
const viteConfigs = ['vite.config.ts', 'vite.config.js', 'vite.config.mjs', 'vite.config.mts']

/** Returns the folder after a key such as `outDir:` in one of the configurations. */
function configured(app: FrameworkApp, files: readonly string[], key: RegExp): string | undefined {
  for (const name of files) {
    const [, folder] = new RegExp(`${key.source}\\s*:\\s*["'\`]([^"'\`]+)["'\`]`).exec(app.read(name) ?? '') ?? []
    const inside = insideOf(folder)
    if (inside !== undefined) return inside
  }
  return undefined
}

const known = (...folders: readonly (string | undefined)[]): string[] =>
  folders.flatMap((folder) => (folder === undefined ? [] : [folder]))

/** Generators of sites and single-page apps, and bundlers without a framework. */
const siteFrameworks: readonly Framework[] = [
  { name: 'Gatsby', packages: ['gatsby'], build: ['gatsby', 'build'], outputs: () => [pages('public')] },
  {
    name: 'Docusaurus',
    packages: ['@docusaurus/core'],
    build: ['docusaurus', 'build'],
    outputs: (app) => known(optionOf(app, 'docusaurus', '--out-dir'), 'build').map(pages),
  },
  {
    name: 'VitePress',
    packages: ['vitepress'],
    build: ['vitepress', 'build'],
    outputs: (app) =>
      known(
        optionOf(app, 'vitepress', '--outDir'),
        ...known(folderOf(app, 'vitepress'), 'docs', 'src').map((folder) => `${folder}/.vitepress/dist`),
        '.vitepress/dist',
      ).map(pages),
  },
  {
    name: 'VuePress',
    packages: ['vuepress'],
    build: ['vuepress', 'build'],
    outputs: (app) =>
      known(
        ...known(folderOf(app, 'vuepress'), 'docs', 'src').map((folder) => `${folder}/.vuepress/dist`),
        '.vuepress/dist',
      ).map(pages),
  },
  {
    name: 'Eleventy',
    packages: ['@11ty/eleventy'],
    build: ['eleventy'],
    outputs: (app) =>
      known(
        optionOf(app, 'eleventy', '--output'),
        configured(
          app,
          ['.eleventy.js', 'eleventy.config.js', 'eleventy.config.mjs', 'eleventy.config.cjs'],
          /\boutput/,
        ),
        '_site',
        'dist',
        'public',
      ).map(pages),
  },
  { name: 'Hexo', packages: ['hexo'], build: ['hexo', 'generate'], outputs: () => [pages('public')] },
  { name: 'Slidev', packages: ['@slidev/cli'], build: ['slidev', 'build'], outputs: () => [routed('dist')] },
  {
    name: 'Create React App',
    packages: ['react-scripts'],
    build: ['react-scripts', 'build'],
    outputs: () => [routed('build')],
  },
  {
    name: 'Vue CLI',
    packages: ['@vue/cli-service'],
    build: ['vue-cli-service', 'build'],
    outputs: (app) =>
      known(optionOf(app, 'vue-cli-service', '--dest'), configured(app, ['vue.config.js'], /\boutputDir/), 'dist').map(
        routed,
      ),
  },
  { name: 'Ember', packages: ['ember-cli'], build: ['ember', 'build'], outputs: () => [routed('dist')] },
  { name: 'Expo', packages: ['expo'], build: ['expo', 'export', '--platform', 'web'], outputs: () => [routed('dist')] },
  { name: 'Umi', packages: ['umi', '@umijs/max'], build: ['umi', 'build'], outputs: () => [routed('dist')] },
  { name: 'Preact CLI', packages: ['preact-cli'], build: ['preact', 'build'], outputs: () => [routed('build')] },
  { name: 'Stencil', packages: ['@stencil/core'], build: ['stencil', 'build'], outputs: () => [routed('www')] },
  {
    name: 'Rsbuild',
    packages: ['@rsbuild/core'],
    build: ['rsbuild', 'build'],
    outputs: () => [routed('dist')],
  },
  {
    name: 'Vite',
    packages: ['vite', 'rolldown-vite', 'vite-plus'],
    build: ['vite', 'build'],
    // Its preview server answers with index.html, too, for a path without a file.
    outputs: (app) =>
      known(optionOf(app, 'vite', '--outDir'), configured(app, viteConfigs, /\boutDir/), 'dist', 'build').map(routed),
  },
  {
    name: 'Parcel',
    packages: ['parcel', 'parcel-bundler'],
    build: ['parcel', 'build'],
    outputs: (app) => known(optionOf(app, 'parcel', '--dist-dir', '-d', '--out-dir'), 'dist').map(routed),
  },
  {
    name: 'webpack',
    packages: ['webpack', '@rspack/core', 'webpack-dev-server', '@rspack/cli'],
    outputs(app) {
      const isRouted =
        routers.some(app.uses) || webpackConfigs.some((name) => /historyApiFallback/.test(app.read(name) ?? ''))
      return ['dist', 'build', 'public'].map(isRouted ? routed : pages)
    },
  },
  {
    name: 'Storybook',
    packages: ['storybook'],
    build: ['storybook', 'build'],
    outputs: () => [pages('storybook-static')],
  },
]

export const frameworks: readonly Framework[] = [...serverFrameworks, ...siteFrameworks]

export const frameworkOf = (app: FrameworkApp): Framework | undefined =>
  frameworks.find(({ packages }) => packages.some((name) => app.uses(name)))

export const isForBrowsers = (framework: Framework): boolean => siteFrameworks.includes(framework)
