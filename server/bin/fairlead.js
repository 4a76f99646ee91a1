#!/usr/bin/env node
// Plain old syntax up to the import, so that a Node of any age can read this far and say what is wrong.
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
