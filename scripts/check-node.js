// Every npm script begins with this. Plain old syntax, so that a Node of any age can read it.
var major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  console.error(
    'Fairlead is built with Node 24, which the development dependency "node" brings, and this is ' +
      process.version +
      '.\nRun npm ci with install scripts allowed, then run this by npm again.',
  )
  process.exit(1)
}
