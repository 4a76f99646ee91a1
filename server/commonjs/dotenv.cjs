module.exports = require('../dist/contract/dotenv.js')
