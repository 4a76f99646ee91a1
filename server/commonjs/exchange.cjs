module.exports = require('../dist/contract/key-exchange.js')
