// Run first by every npm script. Uses old syntax, so that any version of Node can parse it.
var major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  console.error(
    'Fairlead is built with Node 24, which the development dependency "node" installs, but this is ' +
      process.version +
      '.\nRun npm ci with install scripts allowed, then run this npm script again.',
  )
  process.exit(1)
}
