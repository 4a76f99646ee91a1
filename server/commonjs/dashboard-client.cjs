module.exports = require('../dist/contract/dashboard-client.js')
