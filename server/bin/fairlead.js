#!/usr/bin/env node
// Old syntax up to the import, so that every version of Node can parse this file and report that it is too old.
var needed = 24
var major = Number(process.versions.node.split('.')[0])
if (major < needed) {
  console.error(
    'fairlead: needs Node ' +
      needed +
      ' or newer, and this is ' +
      process.version +
      '.\nInstall Node ' +
      needed +
      ' for the whole system, or for this folder alone by npm install node@' +
      needed +
      ', and run npx fairlead there.\nIn a checkout of the sources, npm ci has installed it: run npx fairlead there.',
  )
  process.exit(1)
}
void import('../dist/cli.js')
