#!/usr/bin/env node
// Old syntax up to the import, so that every version of Node can parse this file and report that it is too old.
var needed = 20
if (Number(process.versions.node.split('.')[0]) < needed) {
  console.error('fairlead: needs Node ' + needed + ' or newer, and this is ' + process.version + '.')
  process.exit(1)
}
import('../dist/index.js').catch((error) => {
  setTimeout(() => {
    throw error
  })
})
