module.exports = require('../dist/contract/exchange.js')
