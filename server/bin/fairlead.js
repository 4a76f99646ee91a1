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
      '. Run it with npx fairlead in the checkout.',
  )
  process.exit(1)
}
void import('../dist/cli.js')
