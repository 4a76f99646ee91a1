import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  build: {
    outDir: '../dist/dashboard',
    emptyOutDir: true,
    // Read by the size check in scripts/build.ts.
    manifest: true,
    target: 'es2023',
    // Inlined assets are `data:` URLs, which would need a wider content security policy.
    assetsInlineLimit: 0,
    // All current browsers preload modules themselves, and the policy allows no inline script.
    modulePreload: { polyfill: false },
  },
})
