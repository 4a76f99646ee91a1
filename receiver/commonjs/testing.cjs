module.exports = require('../dist/testing.js')
