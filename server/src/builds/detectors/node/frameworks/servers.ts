import {
  type Framework,
  type FrameworkApp,
  nodeServer,
  type Output,
  pages,
  routed,
  serverIn,
  unlessUses,
} from './framework.ts'

/** The output of Nitro's preset `node-server`, which several frameworks share. */
const nitro = [serverIn('.output', 'server/index.mjs', 'nitro.json'), routed('.output/public')]

const svelteConfigs = ['svelte.config.js', 'svelte.config.ts', 'vite.config.js', 'vite.config.ts', 'vite.config.mjs']
const hasFallback = (app: FrameworkApp) => svelteConfigs.some((name) => /\bfallback\s*:/.test(app.read(name) ?? ''))

const reactRouterConfigs = ['react-router.config.ts', 'react-router.config.js']
const isForBrowser = (config = '') => /\bssr\s*:\s*false\b/.test(config)

/** Frameworks that can answer requests on a server. They come before the tools that they build with. */
export const serverFrameworks: readonly Framework[] = [
  {
    name: 'Next.js',
    packages: ['next'],
    build: ['next', 'build'],
    // A site that was exported is told from the pages of a server by its folder of scripts.
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
    // Otherwise it takes every request for one by HTTPS, and refuses forms that were sent by HTTP as another site's.
    env: { PROTOCOL_HEADER: 'x-forwarded-proto', HOST_HEADER: 'x-forwarded-host', ADDRESS_HEADER: 'x-forwarded-for' },
    // adapter-auto chooses by the host's variables; this one stands for adapter-node, which it installs.
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
    // Without a server at run time the build still makes the one that renders the first page.
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

/** Returns the output folders of the projects in angular.json: those that it names, and `dist/<name>` as by default. */
function angularFolders(app: FrameworkApp): readonly string[] {
  const text = app.read('angular.json') ?? ''
  const named = [
    ...text.matchAll(/"outputPath"\s*:\s*(?:\{[^{}]*?"base"\s*:\s*)?"(?:\.\/)?([\w@.-]+(?:\/[\w@.-]+)*)\/?"/g),
  ]
  // The first key of "projects"; others are libraries and tests of the first.
  const projects = [
    ...text.matchAll(/"([\w@./-]+)"\s*:\s*\{\s*"(?:projectType|\$schema|root|schematics|prefix|i18n)"/g),
  ]
  const folders = [...named.map(([, folder]) => folder ?? ''), ...projects.map(([, name]) => `dist/${name}`), 'dist']
  return [...new Set(folders)].filter((folder) => !folder.split('/').includes('..')).slice(0, 10)
}
