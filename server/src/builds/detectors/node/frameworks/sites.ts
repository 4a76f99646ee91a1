import { type Framework, type FrameworkApp, folderOf, insideOf, optionOf, pages, routed } from './framework.ts'

/** Packages whose routes exist in the browser alone. */
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

/** Returns a folder that one of the configurations names after `outDir:` and the like. */
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

/** Generators of sites and single-page apps, and the bundlers that people use by themselves. */
export const siteFrameworks: readonly Framework[] = [
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
    // Its own preview answers with index.html, too, where a path has no file.
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
