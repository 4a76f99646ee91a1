// For `require`. Loads the same module that `import` loads, so that an application has one copy of it.
module.exports = require('../dist/client/index.js')
