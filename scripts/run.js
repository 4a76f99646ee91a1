// `node scripts/run.js build` or `… check`: refuses an unfit Node, then runs scripts/build.ts or scripts/check.ts. Every npm script
// begins with it. Uses old syntax, so that any version of Node can parse it.
import { readdirSync } from 'node:fs'

var setUp = 'npx --yes -p node@24 -p npm@11 npm ci'
var major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  fail(
    'Fairlead is built with Node 24, which the development dependency "node" installs, but this is ' +
      process.version +
      '.\nRun this with install scripts allowed, then this npm script again:\n  ' +
      setUp,
  )
}
if (!isBundlerWhole()) {
  fail(
    'npm ci has left out a part of the build tools, as it does with a Node before 20.19, and with 21, 22.11 and older.\n' +
      'Run this, then this npm script again:\n  ' +
      setUp,
  )
}

void import('./' + process.argv[2] + '.ts')

/** True when npm has installed the native part of the bundler for this machine. npm skips it under an unfit Node. */
function isBundlerWhole() {
  try {
    return readdirSync(new URL('../node_modules/@rolldown', import.meta.url)).some((name) => /^binding-/.test(name))
  } catch {
    return false
  }
}

function fail(message) {
  console.error(message)
  process.exit(1)
}
