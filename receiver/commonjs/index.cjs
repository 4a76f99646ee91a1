// For `require`. Loads the same modules that `import` loads, so that an application has one copy of them.
module.exports = require('../dist/index.js')
