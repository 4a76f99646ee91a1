import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const startScript = join(import.meta.dirname, 'src/start.js')

/** The first script is a part of the page: it loads the page again when another part did not arrive. */
const firstScript: Plugin = {
  name: 'first-script',
  transformIndexHtml: (html) =>
    html.replace(/<!-- The first script.*?-->/, () => `<script>${readFileSync(startScript, 'utf8')}</script>`),
}

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss(), firstScript],
  build: {
    outDir: '../dist/dashboard',
    emptyOutDir: true,
    // Read by the size check in scripts/build.ts.
    manifest: true,
    target: 'es2023',
    // Inlined assets are `data:` URLs, which would need a wider content security policy.
    assetsInlineLimit: 0,
    // All current browsers preload modules themselves, and the policy allows one inline script alone.
    modulePreload: { polyfill: false },
  },
})
