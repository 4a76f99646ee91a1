#!/usr/bin/env node
// Old syntax up to the import, so that every version of Node can parse this file and report that it is too old.
// `shouldUpgradeCallback` of http came with 24.9: without it every request for an upgrade would be taken for a WebSocket.
var version = process.versions.node.split('.').map(Number)
if (version[0] < 24 || (version[0] === 24 && version[1] < 9)) {
  console.error(
    'fairlead: needs Node 24.9 or newer, and this is ' +
      process.version +
      '.\nInstall Node 24 for the whole system, or for this folder alone by npm install node@24, and run npx fairlead there.\nIn a checkout of the sources, npm ci has installed it: run npx fairlead there.',
  )
  process.exit(1)
}
import('../dist/programs/cli.mjs').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND' || !String(error.url).endsWith('/dist/programs/cli.mjs')) throw error
  // It looks at the machine before anything is built; Node 24 runs the sources of a checkout.
  if (process.argv[2] === 'doctor') {
    return import('../src/commands/unbuilt.ts')
  }
  console.error(
    'fairlead: this checkout is not built yet. Run npm run build at its top, or npm start, which builds it first.',
  )
  process.exit(1)
})
